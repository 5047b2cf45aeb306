"""What is taken from an HTTP request before any method sees it: bounded, checked, never logged."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from gateway_rest.problems import HttpProblemError
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

_JSON = "application/json"
_UTF_8 = frozenset({"utf-8", "utf8"})


async def read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """The whole body, at most ``limit`` bytes of it ever in memory.

    Raises RefusedError PAYLOAD_TOO_LARGE, HttpProblemError 415 for a body that is not plain JSON, and ClientDisconnect.
    """
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        more = message.get("more_body", False)
    if size:
        check_content_type(headers)
    return b"".join(chunks)


def check_content_type(headers: Headers) -> None:
    """Raises HttpProblemError 415 unless the body is declared as uncompressed JSON in UTF-8."""
    media_type, *parameters = [part.strip().lower() for part in headers.get("content-type", "").split(";")]
    charsets = [
        value.strip('"') for name, _, value in (each.partition("=") for each in parameters) if name == "charset"
    ]
    if media_type != _JSON or not _UTF_8.issuperset(charsets):
        raise HttpProblemError(415, f"Send the body as {_JSON} in UTF-8.", {"Accept": _JSON})
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise HttpProblemError(415, "Send the body without a Content-Encoding.", {"Accept-Encoding": "identity"})


def bearer_token(headers: Headers) -> str | None:
    """The token of ``Authorization: Bearer …``; None when there is none of this kind. Two are refused."""
    values = headers.getlist("authorization")
    if len(values) > 1:
        raise RefusedError(Reason.UNAUTHENTICATED, "Send one Authorization header.")
    scheme, _, token = (values[0] if values else "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _too_large(limit: int) -> RefusedError:
    return RefusedError(
        Reason.PAYLOAD_TOO_LARGE, f"The body is larger than {limit} bytes.", metadata={"limitBytes": str(limit)}
    )
