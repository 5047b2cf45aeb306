"""Fixtures of the credentials' tests."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from taskstatus.adapters.tokens import JwtIdentityVerifier

from .jwks_server import JwksServer
from .support import FakeClock, write_identity


@pytest.fixture
def clock() -> FakeClock:
    """A clock at the tests' time."""
    return FakeClock()


@pytest.fixture
def verifier(tmp_path: Path, clock: FakeClock) -> JwtIdentityVerifier:
    """A verifier of one HS256 issuer of services and one of people."""
    return JwtIdentityVerifier.from_file(write_identity(tmp_path), clock)


@pytest.fixture(scope="session")
def rsa_key() -> rsa.RSAPrivateKey:
    """An RSA key of 2048 bits; made once, since that is slow."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def jwks_server() -> Iterator[JwksServer]:
    """A loopback HTTP server that answers what the test tells it to."""
    answers = JwksServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.requests.append(self.path)
            self.send_response(answers.status)
            for name, value in answers.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answers.body)))
            self.end_headers()
            self.wfile.write(answers.body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answers.url = f"http://127.0.0.1:{server.server_address[1]}/jwks?tenant=1"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield answers
    server.shutdown()
    server.server_close()
    thread.join()
