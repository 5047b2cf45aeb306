"""From a member's end to the browser: the relay, the real Centrifugo, and what each subscriber is shown (P-1, P-4)."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from centrifuge import (
    Client,
    ClientEventHandler,
    PublicationContext,
    ServerPublicationContext,
    SubscriptionEventHandler,
)
from prometheus_client import CollectorRegistry
from taskstatus_pb.v1 import common_pb2, realtime_service_pb2, register_service_pb2

from relay.assembly import open_relay
from relay.config import RelayConfig, UpkeepConfig
from scripts.stack.servers import RunningCentrifugo
from taskstatus.settings import Settings
from tests.integration.service.conftest import Site
from tests.integration.service.workflow_yard import move
from tests.support.clients import OWNER, TENANT, Caller, task_spec, workflow_request
from tests.support.yard import PATIENCE_SECONDS

# The client library leaves the socket of a connection that the server ended to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

VIEWER = "u-99"


class Inbox(ClientEventHandler, SubscriptionEventHandler):
    """Every workflow summary that one browser receives, by channel."""

    def __init__(self) -> None:
        self.messages: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._channel = ""

    async def on_publication(self, ctx: Any) -> None:
        """Of the session's own channel, and of the workflow's."""
        if isinstance(ctx, ServerPublicationContext):
            self._keep(ctx.channel, ctx.pub.data)
        elif isinstance(ctx, PublicationContext):
            self._keep("workflow", ctx.pub.data)

    def _keep(self, channel: str, data: Any) -> None:
        message = json.loads(data) if isinstance(data, bytes | str) else data
        if message["kind"] == "workflow.summary":
            self.messages[channel].append(message)

    async def until_ended(self, channel: str) -> list[dict[str, Any]]:
        """Return the messages of a channel once the last one shows an end."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(m["workflow"]["lifecycleStatus"] == "SUCCEEDED" for m in self.messages[channel]):
                await asyncio.sleep(0.02)
        return self.messages[channel]


@asynccontextmanager
async def browser(server: RunningCentrifugo, person: Caller, workflow_id: str) -> AsyncIterator[Inbox]:
    """A page of a person that shows the workflow: their own channel, and the workflow's by a token of its own."""
    realtime, inbox = person.realtime, Inbox()
    session = await person.call(realtime.GetSession, realtime_service_pb2.GetSessionRequest())
    request = realtime_service_pb2.CreateSubscriptionTokenRequest(workflow_id=workflow_id)
    token = await person.call(realtime.CreateSubscriptionToken, request)
    client = Client(server.url, token=session.token, events=inbox)
    await client.connect()
    await client.ready(timeout=10)
    subscription = client.new_subscription(token.channel, token=token.token, events=inbox)
    await subscription.subscribe()
    await subscription.ready(timeout=10)
    try:
        yield inbox
    finally:
        await client.disconnect()


@asynccontextmanager
async def relaying(database_url: str, server: RunningCentrifugo) -> AsyncIterator[None]:
    """A relay in this process."""
    settings = Settings.model_validate(
        {
            "database_url": database_url,
            "centrifugo_grpc_target": server.ports.grpc_target,
            "centrifugo_api_key": server.api_key,
        }
    )
    async with open_relay(settings, CollectorRegistry(), RelayConfig(), UpkeepConfig()):
        yield


async def test_p4_everybody_sees_the_end_and_only_the_owner_anything_of_the_sensitive_task(
    site: Site, database_url: str, centrifugo: RunningCentrifugo
) -> None:
    grant = register_service_pb2.AccessGrant(
        principal_type=register_service_pb2.AccessGrant.USER,
        principal_id=VIEWER,
        permission=register_service_pb2.AccessGrant.VIEW,
    )
    secret = task_spec(sensitive=True, title="Redundancy plan")
    request = workflow_request(task_spec(), secret, grants=[grant])
    created = await site.coordinator.call(site.coordinator.register.CreateWorkflow, request)
    common_id, secret_id = (task.task_id for task in created.tasks)
    viewer = site.caller(site.tokens.person(VIEWER))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(relaying(database_url, centrifugo))
        owners = await stack.enter_async_context(browser(centrifugo, site.owner, created.workflow_id))
        viewers = await stack.enter_async_context(browser(centrifugo, viewer, created.workflow_id))
        site.service.projector.start()

        await move(site, common_pb2.TASK_STARTED, 1, secret_id)
        await move(site, common_pb2.TASK_COMPLETED, 2, secret_id, common_id)

        whole = await owners.until_ended(f"task_user:{TENANT}/{OWNER}")
        shared = [
            await inbox.until_ended(channel)
            for inbox, channel in (
                (owners, "workflow"),
                (viewers, "workflow"),
                (viewers, f"task_user:{TENANT}/{VIEWER}"),
            )
        ]
    assert {message["scope"] for message in whole} == {"FULL"}
    assert whole[-1]["workflow"]["taskCounts"]["succeeded"] == 2
    for messages in shared:
        assert {message["scope"] for message in messages} == {"SHARED"}
        assert {message["workflow"]["taskCount"] for message in messages} == {1}
        assert not any(secret_id in json.dumps(message) for message in messages)
        assert {message["workflow"]["lifecycleStatus"] for message in messages} <= {"PENDING", "SUCCEEDED"}
    final = {messages[-1]["workflowVersion"] for messages in (whole, *shared)}
    assert len(final) == 1, "one version, two views of it"
