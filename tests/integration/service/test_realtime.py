"""Tokens for browsers, tried on the real Centrifugo with a real client (A-1, A-2, A-4)."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from centrifuge import (
    Client,
    ClientEventHandler,
    ConnectedContext,
    DisconnectedContext,
    SubscribedContext,
    SubscriptionEventHandler,
    UnsubscribedContext,
)
from taskstatus_pb.v1 import query_service_pb2, realtime_service_pb2

from scripts.stack.servers import RunningCentrifugo
from tests.integration.service.conftest import Site
from tests.support.clients import OWNER, TENANT, Caller, new_task

# The client library leaves the socket of a connection that the server ended to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


async def open_session(person: Caller) -> realtime_service_pb2.GetSessionResponse:
    return await person.call(person.realtime.GetSession, realtime_service_pb2.GetSessionRequest())


async def channel_token(person: Caller, task_id: str) -> realtime_service_pb2.CreateSubscriptionTokenResponse:
    request = realtime_service_pb2.CreateSubscriptionTokenRequest(task_id=task_id)
    return await person.call(person.realtime.CreateSubscriptionToken, request)


class Connecting(ClientEventHandler):
    """Whether the connection stands, or the code with which the server ended it."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def on_connected(self, ctx: ConnectedContext) -> None:
        _resolve(self.outcome, "connected")

    async def on_disconnected(self, ctx: DisconnectedContext) -> None:
        _resolve(self.outcome, ctx.code)


class Subscribing(SubscriptionEventHandler):
    """Whether the subscription stands, or the code with which the server refused it."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def on_subscribed(self, ctx: SubscribedContext) -> None:
        _resolve(self.outcome, "subscribed")

    async def on_unsubscribed(self, ctx: UnsubscribedContext) -> None:
        _resolve(self.outcome, ctx.code)


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


@asynccontextmanager
async def browser(centrifugo: RunningCentrifugo, token: str) -> AsyncIterator[tuple[Client, Connecting]]:
    connecting = Connecting()
    client = Client(centrifugo.url, token=token, events=connecting)
    await client.connect()
    try:
        yield client, connecting
    finally:
        await client.disconnect()
        del client, connecting
        gc.collect()


async def subscribe(client: Client, connecting: Connecting, channel: str, token: str) -> object:
    """``subscribed``, or the code of whatever ended the subscription or the whole connection."""
    async with asyncio.timeout(10):
        assert await connecting.outcome == "connected"
        connecting.outcome = asyncio.get_running_loop().create_future()
        subscribing = Subscribing()
        await client.new_subscription(channel, token=token, events=subscribing).subscribe()
        done, _ = await asyncio.wait([connecting.outcome, subscribing.outcome], return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()


async def test_a1_session_connects_and_subscribes_the_owners_channel(site: Site, centrifugo: RunningCentrifugo) -> None:
    session = await open_session(site.owner)
    assert session.user_channel == f"task_user:{TENANT}/{OWNER}"
    async with browser(centrifugo, session.token) as (_, connecting):
        async with asyncio.timeout(10):
            assert await connecting.outcome == "connected"
        async with httpx.AsyncClient() as api:
            answer = await api.post(
                f"http://127.0.0.1:{centrifugo.ports.internal}/api/channels",
                headers={"X-API-Key": centrifugo.api_key},
                json={"pattern": "task_user:*"},
            )
        assert session.user_channel in json.dumps(answer.json())


async def test_a2_subscription_token_opens_its_own_channel_only(site: Site, centrifugo: RunningCentrifugo) -> None:
    task_id, other_id = await new_task(site.coordinator), await new_task(site.coordinator)
    session = await open_session(site.owner)
    grant = await channel_token(site.owner, task_id)
    assert grant.channel == f"task_detail:{TENANT}/{task_id}"
    async with browser(centrifugo, session.token) as (client, connecting):
        assert await subscribe(client, connecting, grant.channel, grant.token) == "subscribed"
    other_channel = grant.channel.replace(task_id, other_id)
    async with browser(centrifugo, session.token) as (client, connecting):
        assert await subscribe(client, connecting, other_channel, grant.token) != "subscribed"


@pytest.mark.parametrize("swapped", ["connection", "subscription"])
async def test_a2_the_two_kinds_of_token_never_pass_for_one_another(
    site: Site, centrifugo: RunningCentrifugo, swapped: str
) -> None:
    task_id = await new_task(site.coordinator)
    session, grant = await open_session(site.owner), await channel_token(site.owner, task_id)
    if swapped == "connection":
        async with browser(centrifugo, grant.token) as (_, connecting):
            async with asyncio.timeout(10):
                assert await connecting.outcome != "connected"
        return
    async with browser(centrifugo, session.token) as (client, connecting):
        assert await subscribe(client, connecting, grant.channel, session.token) != "subscribed"


async def test_a2_a_person_without_view_gets_no_token(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    stranger = site.caller(site.tokens.person("u-3"))
    refusal = await stranger.refused(
        stranger.realtime.CreateSubscriptionToken, realtime_service_pb2.CreateSubscriptionTokenRequest(task_id=task_id)
    )
    assert refusal.reason == "TASK_NOT_FOUND"


async def test_a4_a_service_gets_no_session_and_a_person_calls_no_service_method(site: Site) -> None:
    refusal = await site.worker.refused(site.worker.realtime.GetSession, realtime_service_pb2.GetSessionRequest())
    assert refusal.reason == "PERMISSION_DENIED"
    task_id = await new_task(site.coordinator)
    as_person = await site.owner.report_refused(event_type=1, source_seq=1, task_id=task_id)
    assert as_person.reason == "PERMISSION_DENIED"
    view = await site.owner.call(site.owner.query.GetTask, query_service_pb2.GetTaskRequest(task_id=task_id))
    assert view.task.task_id == task_id
