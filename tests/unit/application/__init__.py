"""Unit tests of the application service over the in-memory store."""
