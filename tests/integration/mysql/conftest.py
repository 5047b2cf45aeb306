"""A schema of each test module on both products."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from scripts.stack import servers
from taskstatus.adapters.mysql.engine import Database
from tests.contract.servers import create_schema, drop_schema, emptied_database, schema_url

StartDatabase = Callable[[Path], servers.RunningServer | servers.GivenServer]


@pytest.fixture(scope="session")
def mysql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MySQL server."""
    yield from _serving(servers.start_mysql, tmp_path_factory.mktemp("mysql"))


@pytest.fixture(scope="session")
def mariadb_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MariaDB server."""
    yield from _serving(servers.start_mariadb, tmp_path_factory.mktemp("mariadb"))


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated schema of this module."""
    of_module = schema_url(request.getfixturevalue(f"{request.param}_url"), request.module.__name__)
    create_schema(of_module)
    yield of_module
    drop_schema(of_module)


@pytest_asyncio.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """The schema, empty."""
    async with emptied_database(url) as opened:
        yield opened


def _serving(start: StartDatabase, workdir: Path) -> Iterator[str]:
    server = start(workdir)
    yield server.url
    server.stop()
