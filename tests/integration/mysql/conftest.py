"""A schema of each test module on both products, emptied before each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from taskstatus.adapters.mysql.engine import Database
from tests.support.databases import emptied_database


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The schema, empty."""
    async with emptied_database(database_url) as opened:
        yield opened
