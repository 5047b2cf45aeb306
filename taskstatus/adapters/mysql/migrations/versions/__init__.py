"""One revision per module, in the order of their numbers."""
