"""One suite for the store's ports, run on every implementation."""
