"""What the channels showed: the order from Centrifugo's history, the time of arrival from a connected subscriber."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from cent import AsyncClient, HistoryRequest
from centrifuge import (  # type: ignore[import-untyped]
    Client,
    ClientEventHandler,
    PublicationContext,
    ServerPublicationContext,
    SubscriptionEventHandler,
)

from scripts.stack import devkeys, servers
from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.tokens.realtime_tokens import EcdsaRealtimeTokens
from taskstatus.domain.channels import realtime_user, task_detail_channel, task_user_channel, workflow_summary_channel
from taskstatus.domain.ids import TaskId, WorkflowId
from tests.history.model import Publication

HISTORY_MOST = 100_000
"""More publications than a channel has in a run; set in the server's configuration too."""

_Arrival = tuple[str, int]
"""(channel, offset)."""


class Watcher:
    """One subscriber of every channel of a run."""

    def __init__(self, tokens: EcdsaRealtimeTokens, user: str, api: AsyncClient) -> None:
        self._tokens = tokens
        self._user = user
        self._api = api
        self._arrived: dict[_Arrival, datetime] = {}
        self._channels: dict[str, None] = {}
        self._subscribing: set[asyncio.Task[None]] = set()
        self._client: Any = None

    async def connect(self, url: str) -> None:
        """Connect; channels are added by ``watch``."""
        token, _ = self._tokens.connection_token(self._user, [])
        self._client = Client(url, events=ClientEventHandler(), token=token, max_server_ping_delay=60.0)
        await self._client.connect()
        await self._client.ready(timeout=10)

    async def disconnect(self) -> None:
        """Leave; may be called twice."""
        for task in self._subscribing:
            task.cancel()
        if self._client is not None:
            await self._client.disconnect()

    def watch_task(self, tenant_id: str, workflow_id: WorkflowId, task_id: TaskId) -> None:
        """Subscribe to the channels of a new task and of its workflow."""
        self.watch(workflow_summary_channel(tenant_id, workflow_id))
        self.watch(task_detail_channel(tenant_id, task_id))

    def watch_user(self, tenant_id: str, user_id: str) -> None:
        """Subscribe to a person's summaries."""
        self.watch(task_user_channel(tenant_id, user_id))

    def watch(self, channel: str) -> None:
        """Subscribe, once, in the background: what comes before that has its order from the history."""
        if channel in self._channels:
            return
        self._channels[channel] = None
        token, _ = self._tokens.subscription_token(self._user, channel)
        subscription = self._client.new_subscription(channel, token=token, events=_Arrivals(channel, self._note))
        task = asyncio.ensure_future(subscription.subscribe())
        self._subscribing.add(task)
        task.add_done_callback(self._subscribing.discard)

    async def publications(self) -> tuple[Publication, ...]:
        """Everything that the channels hold, each channel in its order; what was not seen live arrived by now."""
        found = []
        for channel in self._channels:
            history = await self._api.history(HistoryRequest(channel=channel, limit=HISTORY_MOST))
            for one in history.publications:
                at = self._arrived.get((channel, one.offset)) or _now()
                found.append(Publication(channel, orjson.dumps(one.data), at, _version_of(one.data)))
        return tuple(found)

    def _note(self, channel: str, offset: int) -> None:
        self._arrived.setdefault((channel, offset), _now())


class _Arrivals(SubscriptionEventHandler):  # type: ignore[misc]
    """Notes when each publication of one channel arrives."""

    def __init__(self, channel: str, note: Callable[[str, int], None]) -> None:
        self._channel = channel
        self._note = note

    async def on_publication(self, ctx: PublicationContext | ServerPublicationContext) -> None:
        """See SubscriptionEventHandler."""
        self._note(self._channel, ctx.pub.offset)


@asynccontextmanager
async def watching(server: servers.RunningCentrifugo, keys: devkeys.DevKeys) -> AsyncIterator[Watcher]:
    """A connected watcher."""
    tokens = EcdsaRealtimeTokens.from_file(Path(keys.realtime_key_file), devkeys.KEY_ID, SystemClock())
    async with AsyncExitStack() as stack:
        api = AsyncClient(server.ports.api_url, server.api_key)
        stack.push_async_callback(api.close)
        watcher = Watcher(tokens, realtime_user("chaos", "watcher"), api)
        stack.push_async_callback(watcher.disconnect)
        await watcher.connect(server.url)
        yield watcher


def _now() -> datetime:
    """The database's clock: it runs on this machine."""
    return datetime.now(UTC).replace(tzinfo=None)


def _version_of(message: Any) -> int | None:
    """The number that a detail's subscribers order it by; the gate's own number is not told to clients."""
    return int(message["taskVersion"]) if message["kind"] == "task.detail" else None
