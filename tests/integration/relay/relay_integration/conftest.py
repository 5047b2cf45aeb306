"""Real servers for the relay's tests, each started once per session and ended with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from cent import AsyncClient
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from scripts.stack.servers import (
    RunningCentrifugo,
    start_centrifugo,
    start_mariadb,
    start_mysql,
)
from taskstatus.adapters.mysql.migrate import migrate

from .history import History
from .store import OutboxTable, open_table

API_KEY = "relay-test-key"


@pytest.fixture(scope="session")
def realtime_key() -> ec.EllipticCurvePrivateKey:
    """The key of the realtime tokens that the Centrifugo server accepts."""
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="session")
def centrifugo(
    tmp_path_factory: pytest.TempPathFactory, realtime_key: ec.EllipticCurvePrivateKey
) -> Iterator[RunningCentrifugo]:
    """One Centrifugo server that every test shares: channel names must be a test's own."""
    server = start_centrifugo(tmp_path_factory.mktemp("centrifugo"), api_key=API_KEY, public_key_pem=pem(realtime_key))
    yield server
    server.stop()


@pytest.fixture
def own_centrifugo(tmp_path: Path, realtime_key: ec.EllipticCurvePrivateKey) -> Iterator[RunningCentrifugo]:
    """A Centrifugo server that the test may stop, suspend and kill."""
    server = start_centrifugo(tmp_path, api_key=API_KEY, public_key_pem=pem(realtime_key))
    yield server
    server.resume()
    server.stop()


@pytest.fixture
async def history(centrifugo: RunningCentrifugo) -> AsyncIterator[History]:
    """What the shared server's channels hold."""
    client = AsyncClient(centrifugo.ports.api_url, centrifugo.api_key)
    yield History(client)
    await client.close()


@pytest.fixture(scope="session")
def mysql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MySQL server."""
    server = start_mysql(tmp_path_factory.mktemp("mysql"))
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def mariadb_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MariaDB server."""
    server = start_mariadb(tmp_path_factory.mktemp("mariadb"))
    yield server.url
    server.stop()


@pytest.fixture(params=["mysql", "mariadb"])
async def outbox_table(request: pytest.FixtureRequest) -> AsyncIterator[OutboxTable]:
    """An empty outbox on each database."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    await migrate(url)
    async with open_table(url) as table:
        yield table


def pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The public part, as Centrifugo's configuration takes it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()
