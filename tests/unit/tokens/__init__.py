"""Tests of the credentials package."""
