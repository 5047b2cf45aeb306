"""Fetching a JWK Set by HTTPS (or plain HTTP from this machine): no redirects, no proxies, bounded in size and time.

``http.client`` is used because it knows no other scheme and follows nothing: a redirect can lead neither to ``file:``
nor to another host (compare GHSA-993g-76c3-p5m4).
"""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from urllib.parse import SplitResult, urlsplit

from taskstatus.application.ports_clock import Clock

MAX_DOCUMENT_BYTES = 256 * 1024
FETCH_TIMEOUT_SECONDS = 3.0

_CHUNK_BYTES = 16 * 1024


class JwksFetchError(OSError):
    """The document could not be had; the text names the cause and nothing of the answer's content."""


def check_jwks_url(url: str) -> None:
    """Raises ValueError unless the URL is https, or http to a loopback address, without user, password or fragment."""
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("must be an https URL with a host and without user, password or fragment")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise ValueError("must be https (http only to a loopback address)")
    _ = parts.port  # Raises ValueError when it is no port number.


def fetch_jwks(url: str, clock: Clock, timeout_seconds: float = FETCH_TIMEOUT_SECONDS) -> bytes:
    """The document at a checked URL; blocks. Raises JwksFetchError or another OSError, ValueError for a bad URL."""
    check_jwks_url(url)
    parts = urlsplit(url)
    deadline = clock.monotonic_seconds() + timeout_seconds
    connection = _connect(parts, timeout_seconds)
    try:
        target = parts.path or "/"
        connection.request(
            "GET",
            f"{target}?{parts.query}" if parts.query else target,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            raise JwksFetchError(f"answered with status {response.status}")
        return _read(response, clock, deadline)
    except http.client.HTTPException as error:
        raise JwksFetchError(f"broken answer ({type(error).__name__})") from error
    finally:
        connection.close()


def _connect(parts: SplitResult, timeout_seconds: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout_seconds, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=timeout_seconds)


def _read(response: http.client.HTTPResponse, clock: Clock, deadline: float) -> bytes:
    # The socket's time-out bounds each read; the deadline bounds a server that sends a byte at a time.
    document = bytearray()
    while chunk := response.read1(_CHUNK_BYTES):
        document += chunk
        if len(document) > MAX_DOCUMENT_BYTES:
            raise JwksFetchError(f"is larger than {MAX_DOCUMENT_BYTES} bytes")
        if clock.monotonic_seconds() > deadline:
            raise JwksFetchError("took too long")
    return bytes(document)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
