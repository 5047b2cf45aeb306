"""A fake service per test, and connections to it whose waiting costs no time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from taskstatus.sdk import Connection, Coordinator, Worker, connect
from taskstatus.sdk.testing import FakeTaskStatus

from .support import COORDINATOR, PARSER, QuickTiming


@pytest.fixture
async def fake() -> AsyncIterator[FakeTaskStatus]:
    """The server."""
    async with FakeTaskStatus() as server:
        yield server


@pytest.fixture
def clock() -> QuickTiming:
    """A clock that waiting moves."""
    return QuickTiming()


@pytest.fixture
async def worker_connection(fake: FakeTaskStatus, clock: QuickTiming) -> AsyncIterator[Connection]:
    """A connection of the parsing service."""
    async with connect(fake.target, lambda: PARSER, timing=clock.timing()) as connection:
        yield connection


@pytest.fixture
def worker(worker_connection: Connection) -> Worker:
    """The parsing service."""
    return Worker(worker_connection)


@pytest.fixture
async def coordinator(fake: FakeTaskStatus, clock: QuickTiming) -> AsyncIterator[Coordinator]:
    """The coordinator, on a connection of its own."""
    async with connect(fake.target, lambda: COORDINATOR, timing=clock.timing()) as connection:
        yield Coordinator(connection, COORDINATOR)
