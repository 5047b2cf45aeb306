"""Implementations of the application's ports: MySQL, tokens, Redis, clock, canonical bytes, telemetry."""
