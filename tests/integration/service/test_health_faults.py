"""Health while the database dies, comes back, or loses the reply of a COMMIT (H-5, E-6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from sqlalchemy import make_url

from scripts.stack import servers
from scripts.stack.devkeys import DevKeys
from taskstatus.adapters.mysql.engine import open_database
from taskstatus.bootstrap import open_service
from taskstatus.domain.ids import parse_execution_id
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from tests.integration.service.conftest import Site, settings_for
from tests.integration.service.health_ward import Ward, watching
from tests.support.clients import Tokens
from tests.support.commit_cutter import CommitCutter
from tests.support.databases import create_schema, schema_url

START_SERVER = {"mysql": servers.start_mysql, "mariadb": servers.start_mariadb}


@pytest.fixture(scope="module", params=list(START_SERVER))
def own_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A database server that these tests may kill."""
    server = START_SERVER[request.param](tmp_path_factory.mktemp(request.param), own=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def own_url(own_server: servers.RunningServer) -> str:
    """A migrated schema on it."""
    url = schema_url(own_server.url, "health_faults")
    create_schema(url)
    return url


@pytest.fixture
async def own_ward(own_url: str, dev_keys: DevKeys) -> AsyncIterator[Ward]:
    """A replica that starts work on the server that may be killed, and looks into its tables."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(
            open_service(settings_for(own_url, dev_keys, heartbeat_persist_seconds="1"))
        )
        server = GrpcServer(GrpcConfig("127.0.0.1:0", drain_grace_seconds=1.0), service.dispatch, service.clock)
        port = await server.start()
        stack.push_async_callback(server.stop)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        site = Site(service, channel, Tokens(dev_keys.identity_file))
        database = open_database(own_url)
        stack.push_async_callback(database.dispose)
        yield Ward((site, site), database, own_url)


async def test_h5_mass_silence_after_an_outage_of_the_database_is_held_back(
    own_server: servers.RunningServer, own_url: str, own_ward: Ward, dev_keys: DevKeys
) -> None:
    contexts = [await own_ward.running() for _ in range(20)]
    async with watching(own_url, dev_keys) as (reconciler, clock):
        await reconciler.run_once()
        clock.advance(3600)
        own_server.kill9()
        assert await reconciler.run_once() == 0
        own_server.restart()
        await own_ward.be_silent(*contexts)  # as an hour without a database leaves it

        for _ in range(5):
            clock.advance(10)
            assert await reconciler.run_once() == 0
        await own_ward.beat(contexts[0], 1)
        await own_ward.until(lambda: has_beaten(own_ward, contexts[0]), "the beat is persisted")
        clock.advance(10)

        assert await reconciler.run_once() == 19
    assert await own_ward.signs(contexts[0]) == []
    assert await own_ward.signs(contexts[1]) == ["SILENT"]


async def has_beaten(ward: Ward, context: Any) -> bool:
    rows = await ward.sql(
        "SELECT deadline_at>NOW(6) FROM task_execution_lease WHERE execution_id=%s",
        parse_execution_id(context.execution_id),
    )
    return bool(rows[0][0])


async def test_e6_stale_whose_commit_reply_was_lost_is_settled_and_recorded_once(
    own_server: servers.RunningServer, own_url: str, own_ward: Ward, dev_keys: DevKeys
) -> None:
    context = await own_ward.running()
    await own_ward.be_silent(context)
    async with CommitCutter(own_server.port) as cutter:
        url = make_url(own_url).set(port=cutter.port).render_as_string(hide_password=False)
        async with watching(url, dev_keys, health_grace_seconds="0") as (reconciler, _):
            cutter.cut_next_commit_reply()
            assert await reconciler.run_once() >= 1
            assert cutter.replies_cut == 1
            assert await reconciler.run_once() == 0
    assert await own_ward.signs(context) == ["SILENT"]
