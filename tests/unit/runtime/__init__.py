"""Unit tests of the long-lived loops, on a virtual clock."""
