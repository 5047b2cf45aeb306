"""Tests of the relay against real servers."""
