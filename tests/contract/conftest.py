"""The implementations that the contract suite runs on, behind one ``backend`` fixture."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.databases import create_schema, drop_schema, emptied_database, schema_url

from .backends import Backend, memory_backend, mysql_backend

IMPLEMENTATIONS = ("memory", "mysql", "mariadb", "mysql+aiomysql", "mariadb+aiomysql")
"""Servers with the default driver, which runs prepared statements, and with the other one."""


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def implementation_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """A migrated schema of this module on each server; None for the in-memory store."""
    if request.param == "memory":
        yield None
        return
    product, _, driver = request.param.partition("+")
    url = schema_url(request.getfixturevalue(f"{product}_url"), request.module.__name__)
    if driver:
        url = url.replace("mysql://", f"mysql+{driver}://", 1)
    create_schema(url)
    yield url
    drop_schema(url)


@pytest.fixture
async def backend(implementation_url: str | None) -> AsyncIterator[Backend]:
    """An empty store with its reader, and a look at what no port shows."""
    if implementation_url is None:
        yield memory_backend()
        return
    async with emptied_database(implementation_url) as database:
        yield mysql_backend(database)
