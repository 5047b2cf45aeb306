"""What the relay's tests add to the session's servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from cent import AsyncClient

from scripts.stack import devkeys, servers
from tests.integration.relay.history import History
from tests.integration.relay.store import OutboxTable, open_table


@pytest.fixture
async def outbox_table(database_url: str) -> AsyncIterator[OutboxTable]:
    """An empty outbox on each database."""
    async with open_table(database_url) as table:
        yield table


@pytest.fixture
def own_centrifugo(tmp_path: Path, dev_keys: devkeys.DevKeys) -> Iterator[servers.RunningCentrifugo]:
    """A Centrifugo server that the test may stop, suspend and kill."""
    server = servers.start_centrifugo(
        tmp_path,
        api_key=dev_keys.centrifugo_api_key_file.read_text().strip(),
        public_key_pem=dev_keys.realtime_public_key_file.read_text(),
    )
    yield server
    server.resume()
    server.stop()


@pytest.fixture
async def history(centrifugo: servers.RunningCentrifugo) -> AsyncIterator[History]:
    """What the shared server's channels hold."""
    client = AsyncClient(centrifugo.ports.api_url, centrifugo.api_key)
    yield History(client)
    await client.close()
