"""One replica over each database, for a whole module, with a caller for each kind of method."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import grpc.aio
import httpx
import pytest_asyncio

from gateway_rest.app import RestSettings, create_app
from scripts.stack.devkeys import DevKeys
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.application.identity import Role
from taskstatus.bootstrap import open_service
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from tests.fuzz.live import Live, bring_to_life
from tests.fuzz.secrets import key_texts
from tests.integration.service.conftest import settings_for
from tests.support.clients import COORDINATOR, OWNER, WORKER, Caller, Tokens


@dataclass(frozen=True)
class Target:
    """What is fuzzed, and what must not come out of it."""

    channel: grpc.aio.Channel
    rest: httpx.AsyncClient
    callers: Mapping[Role, Caller]
    """In the order in which one is chosen for a method."""
    keys: DevKeys
    database: Database

    async def live(self) -> Live:
        """A running execution of its own for a test."""
        return await bring_to_life(*(self.callers[role] for role in (Role.COORDINATOR, Role.WORKER, Role.ADMIN)))

    def secrets(self, live: Live) -> list[str]:
        """Everything that no log may hold."""
        own = [live.context.execution_token, live.context.execution_handle]
        return own + [caller.token for caller in self.callers.values()] + key_texts(self.keys.folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(database_url: str, dev_keys: DevKeys) -> AsyncIterator[Target]:
    """The service, reached by real gRPC and by its REST application."""
    async with AsyncExitStack() as stack:
        database = open_database(database_url)
        stack.push_async_callback(database.dispose)
        service = await stack.enter_async_context(open_service(settings_for(database_url, dev_keys)))
        server = GrpcServer(
            GrpcConfig("127.0.0.1:0", drain_grace_seconds=1.0), service.dispatch, service.clock, service.streams
        )
        port = await server.start()
        stack.push_async_callback(server.stop)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        app = create_app(service.dispatch, service.clock, service.is_ready, RestSettings())
        transport = httpx.ASGITransport(app)
        rest = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="http://rest.test"))
        tokens = Tokens(dev_keys.identity_file)
        callers = {
            Role.USER: Caller(channel, tokens.person(OWNER)),
            Role.WORKER: Caller(channel, tokens.service(WORKER, Role.WORKER)),
            Role.COORDINATOR: Caller(channel, tokens.service(COORDINATOR, Role.COORDINATOR, Role.BUSINESS)),
            Role.ADMIN: Caller(channel, tokens.service("operations", Role.ADMIN)),
        }
        yield Target(channel, rest, callers, dev_keys, database)
