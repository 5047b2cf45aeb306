"""The HTTP server around the application: one process, stopped by SIGTERM after the requests in flight."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

GRACE_SECONDS: Final = 20
"""How long requests in flight may go on after a stop signal; less than the pause before a forced kill."""
MAX_PORT: Final = 65_535
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ListenAddressError(Exception):
    """The address to listen on cannot be used; the message quotes it."""


def make_server(app: ASGIApp, listen: str) -> uvicorn.Server:
    """A server for ``host:port`` (``[::1]:8080`` for IPv6), not yet started.

    Raises ListenAddressError.
    """
    host, port = split_address(listen)
    # Logs are the process's own (configure_process); uvicorn's access log would show paths with ids.
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return uvicorn.Server(config)


async def serve_until_stopped(server: uvicorn.Server) -> None:
    """Serve until SIGTERM or SIGINT, and return when the last request has been answered."""
    with _outlive_stop_signals():
        await server.serve()


def split_address(listen: str) -> tuple[str, int]:
    """Host and port of ``host:port``; this machine alone when the host is left out."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > MAX_PORT:
        raise ListenAddressError(f"{listen!r} is not host:port")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


@contextmanager
def _outlive_stop_signals() -> Iterator[None]:
    """Keep the process alive after the server has stopped.

    uvicorn raises the signal once more at its end, for whoever was there before; by default that ends the process on
    the spot, before the application service has drained its lanes.
    """

    def note_only(_number: int, _frame: FrameType | None) -> None:
        """The server has acted on it already."""

    before = {number: signal.signal(number, note_only) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
