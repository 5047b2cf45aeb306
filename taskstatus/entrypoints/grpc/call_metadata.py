"""What a call's metadata says: who calls, and in which trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BEARER = "bearer "


def bearer_of(metadata: Mapping[str, Any]) -> str | None:
    """The JWT of ``authorization: Bearer …``; None when there is none."""
    authorization = _text(metadata.get("authorization"))
    if authorization[: len(_BEARER)].lower() != _BEARER:
        return None
    return authorization[len(_BEARER) :].strip() or None


def traceparent_of(metadata: Mapping[str, Any]) -> str:
    """The W3C trace context; empty when there is none."""
    return _text(metadata.get("traceparent"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
