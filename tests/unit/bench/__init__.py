"""The bench's own arithmetic, and its hand-built messages."""
