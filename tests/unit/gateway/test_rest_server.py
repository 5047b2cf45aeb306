"""The server process (N-1): it listens where told, and ends in order when told to stop."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from starlette.types import Receive, Scope, Send

from gateway_rest.server import ListenAddressError, make_server, serve_until_stopped, split_address


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:0", ("localhost", 0)),
        (":80", ("127.0.0.1", 80)),
    ],
)
def test_listen_address(listen: str, address: tuple[str, int]) -> None:
    assert split_address(listen) == address


@pytest.mark.parametrize("listen", ["", "8080", "host:", "host:x", "host:65536", "host:-1"])
def test_odd_listen_address_is_refused(listen: str) -> None:
    with pytest.raises(ListenAddressError, match="is not host:port"):
        split_address(listen)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_n1_stop_signal_answers_what_is_in_flight_and_then_returns(number: signal.Signals) -> None:
    stages: list[str] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        stages.append("request")
        os.kill(os.getpid(), number)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def ask(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def run() -> bytes:
        server = make_server(app, "127.0.0.1:0")
        serving = asyncio.create_task(serve_until_stopped(server))
        while not server.started:
            await asyncio.sleep(0)
        answer = await ask(server.servers[0].sockets[0].getsockname()[1])
        await serving
        stages.append("drained")
        return answer

    before = signal.getsignal(number)
    assert asyncio.run(run()).startswith(b"HTTP/1.1 204")
    assert stages == ["request", "drained"]
    assert signal.getsignal(number) is before
