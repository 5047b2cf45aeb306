"""The documents say what the code does."""
