"""One replica with its REST gateway over each database, for a whole module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc.aio
import httpx
import pytest_asyncio

from gateway_rest.app import RestSettings, create_app
from scripts.stack.devkeys import DevKeys
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.application.identity import Role
from taskstatus.bootstrap import open_service
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from tests.integration.service.conftest import settings_for
from tests.parity.definition import publish
from tests.parity.forging import Forger
from tests.parity.stream_line import StreamLines
from tests.parity.transports import Lines
from tests.support.clients import COORDINATOR, OWNER, WORKER, Caller, Tokens

FORGED_JWT = "eyJhbGciOiJIUzI1NiJ9.e30.AAAA"


@dataclass(frozen=True)
class Theatre:
    """All that a case needs."""

    lines: Lines
    callers: Mapping[str, Caller]
    forger: Forger
    database: Database

    def now(self) -> datetime:
        """When the events of a case happened, by the worker's clock."""
        return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def callers_of(channel: grpc.aio.Channel, tokens: Tokens) -> dict[str, Caller]:
    """The identities that the cases name."""
    jwts = {
        "worker": tokens.service(WORKER, Role.WORKER),
        "coordinator": tokens.service(COORDINATOR, Role.COORDINATOR, Role.BUSINESS),
        "other coordinator": tokens.service("other-coordinator", Role.COORDINATOR),
        "other producer": tokens.service("other-parser", Role.WORKER),
        "other tenant": tokens.service(WORKER, Role.WORKER, tenant="t-02"),
        "business": tokens.service(WORKER, Role.BUSINESS),
        "admin": tokens.service("admin-tool", Role.ADMIN),
        "owner": tokens.person(OWNER),
        "viewer": tokens.person("viewer"),
        "owner elsewhere": tokens.person(OWNER, tenant="t-02"),
        "nobody": "",
        "forger": FORGED_JWT,
    }
    return {name: Caller(channel, jwt) for name, jwt in jwts.items()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theatre(database_url: str, dev_keys: DevKeys) -> AsyncIterator[Theatre]:
    """The service, reached by real gRPC and by its REST application."""
    async with AsyncExitStack() as stack:
        database = open_database(database_url)
        stack.push_async_callback(database.dispose)
        await publish(database)
        service = await stack.enter_async_context(open_service(settings_for(database_url, dev_keys)))
        server = GrpcServer(
            GrpcConfig("127.0.0.1:0", drain_grace_seconds=1.0), service.dispatch, service.clock, service.streams
        )
        port = await server.start()
        stack.push_async_callback(server.stop)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        app = create_app(service.dispatch, service.clock, service.is_ready, RestSettings())
        rest = await stack.enter_async_context(
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://rest.test")
        )
        callers = callers_of(channel, Tokens(dev_keys.identity_file))
        streams = StreamLines(channel)
        stack.push_async_callback(streams.close)
        yield Theatre(Lines(channel, rest, streams), callers, Forger(dev_keys.execution_keys_file), database)
