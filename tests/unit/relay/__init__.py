"""Tests of the relay without servers."""
