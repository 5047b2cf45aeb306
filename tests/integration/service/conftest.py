"""The whole service in this process over a real database, reached by real gRPC clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest

from scripts.stack.devkeys import DevKeys
from taskstatus.adapters.mysql.engine import open_database
from taskstatus.application.identity import Role
from taskstatus.bootstrap import RunningService, open_service
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from taskstatus.settings import Settings, load_settings
from tests.support.clients import COORDINATOR, OWNER, WORKER, Caller, Tokens, activate, new_task
from tests.support.yard import Yard


def settings_for(database_url: str, keys: DevKeys, **more: str) -> Settings:
    """Settings of a service under test."""
    return load_settings(
        {
            "TASKSTATUS_DATABASE_URL": database_url,
            "TASKSTATUS_IDENTITY_FILE": str(keys.identity_file),
            "TASKSTATUS_EXECUTION_KEYS_FILE": str(keys.execution_keys_file),
            "TASKSTATUS_REALTIME_KEY_FILE": str(keys.realtime_key_file),
            **{f"TASKSTATUS_{name.upper()}": value for name, value in more.items()},
        }
    )


@dataclass
class Site:
    """One running replica and the callers of a test."""

    service: RunningService
    channel: grpc.aio.Channel
    tokens: Tokens
    target: str = ""
    """Where it listens, for clients with channels of their own."""

    def caller(self, token: str) -> Caller:
        """A caller with any token."""
        return Caller(self.channel, token)

    @property
    def coordinator(self) -> Caller:
        """The recorded coordinator of every task of the tests."""
        return self.caller(self.tokens.service(COORDINATOR, Role.COORDINATOR, Role.BUSINESS))

    @property
    def worker(self) -> Caller:
        """The producer that the steps expect."""
        return self.caller(self.tokens.service(WORKER, Role.WORKER))

    @property
    def owner(self) -> Caller:
        """The person whose list shows the tasks."""
        return self.caller(self.tokens.person(OWNER))


async def activated(site: Site, **fields: object) -> Any:
    """The context of a new task's first attempt."""
    return await activate(site.coordinator, await new_task(site.coordinator, **fields))


OpenSite = Callable[..., Awaitable[Site]]
"""Settings by name, as text."""


@pytest.fixture
async def open_site(database_url: str, dev_keys: DevKeys) -> AsyncIterator[OpenSite]:
    """Opens replicas over the module's schema; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def open_one(**settings: str) -> Site:
            service = await stack.enter_async_context(open_service(settings_for(database_url, dev_keys, **settings)))
            server = GrpcServer(
                GrpcConfig("127.0.0.1:0", drain_grace_seconds=1.0), service.dispatch, service.clock, service.streams
            )
            port = await server.start()
            stack.push_async_callback(server.stop)
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            return Site(service, channel, Tokens(dev_keys.identity_file))

        yield open_one


@pytest.fixture
async def site(open_site: OpenSite) -> Site:
    """One replica."""
    return await open_site()


OpenWith = Callable[..., Awaitable[Site]]


@pytest.fixture
async def open_with(database_url: str, dev_keys: DevKeys) -> AsyncIterator[OpenWith]:
    """Opens replicas with settings of their own; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def open_one(**settings: str) -> Site:
            service = await stack.enter_async_context(open_service(settings_for(database_url, dev_keys, **settings)))
            config = GrpcConfig("127.0.0.1:0", drain_grace_seconds=1.0)
            server = GrpcServer(config, service.dispatch, service.clock, service.streams)
            target = f"127.0.0.1:{await server.start()}"
            stack.push_async_callback(server.stop)
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(target))
            return Site(service, channel, Tokens(dev_keys.identity_file), target)

        yield open_one


@pytest.fixture
async def yard(database_url: str) -> AsyncIterator[Yard]:
    """A look into the tables."""
    database = open_database(database_url)
    yield Yard(database)
    await database.dispose()
