"""Anything that a caller can send: no fault of the service, nothing undocumented, no secret in a log (issue 4)."""
