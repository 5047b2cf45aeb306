"""Unit tests of the REST adapter: no sockets but for one, no service."""
