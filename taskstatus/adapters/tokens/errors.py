"""Errors of this package; callers of the ports only ever see ``RefusedError``."""

from __future__ import annotations


class CredentialConfigError(Exception):
    """A key or identity file cannot be used; the text names the file and the field and holds no secret."""


class RejectedTokenError(Exception):
    """A token is not genuine or not for us. The text is a fixed label for the log, free of anything from the token."""


class ExpiredTokenError(Exception):
    """A token is genuine and for us, but past its ``exp``."""
