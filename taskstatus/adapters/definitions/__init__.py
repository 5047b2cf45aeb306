"""Operation definitions from a file, into the store, and from the store into memory (L-5)."""
