"""A real Centrifugo client with the owner's tokens: shows each message as it comes, and keeps the record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from centrifuge import Client, ClientEventHandler, SubscriptionEventHandler  # type: ignore[import-untyped]

from scripts.demo.owner import Owner
from scripts.demo.record import DETAIL, SUMMARY, Record

RECONNECT_MOST_SECONDS: Final = 1.0
SHORT: Final = {SUMMARY: "summary", DETAIL: "detail", "workflow.summary": "workflow"}

Show = Callable[[str, str], None]
"""Prints a line: who, what."""


class Watcher:
    """Connected as the owner; :meth:`finished` returns when the record is complete."""

    def __init__(self, owner: Owner, show: Show) -> None:
        self._owner = owner
        self._show = show
        self._task_id = ""
        self._changed = asyncio.Condition()
        self._client: Any = None
        self.record = Record()

    async def connect(self) -> None:
        """Connect; the connection token itself subscribes to the owner's own channel (A-1)."""
        session = await self._owner.session()
        self._client = Client(
            session["url"],
            events=_ConnectionEvents(self),
            token=session["token"],
            get_token=self._connection_token,
            max_reconnect_delay=RECONNECT_MOST_SECONDS,
            proxy=None,
        )
        await self._client.connect()
        await self._client.ready()
        self._show("owner", f"is connected and hears {session['userChannel']}")

    async def watch(self, task_id: str) -> None:
        """Subscribe to the task's detail channel with a token of its own (A-2)."""
        self._task_id = task_id
        granted = await self._owner.subscription(task_id)
        subscription = self._client.new_subscription(
            granted["channel"],
            events=_DetailEvents(self),
            token=granted["token"],
            get_token=self._subscription_token,
            max_resubscribe_delay=RECONNECT_MOST_SECONDS,
        )
        await subscription.subscribe()
        await subscription.ready()
        self._show("owner", f"has subscribed to {granted['channel']}")

    async def finished(self) -> None:
        """Return when the task has ended and everything about it was seen."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.record.complete)

    async def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            await self._client.disconnect()

    async def received(self, message: dict[str, Any]) -> None:
        """One publication, on either channel."""
        now, kind = datetime.now(UTC), message["kind"]
        if kind not in (SUMMARY, DETAIL):
            self._show(
                f"◂ {SHORT.get(kind, kind)}", f"v{message.get('workflowVersion', '?'):<3} {message['eventType']}"
            )
            return
        delay_ms = self.record.take_message(message, now)
        self._show(f"◂ {SHORT[kind]}", f"{_described(message)}  {delay_ms:7.1f} ms after its commit")
        if notice := message.get("notice"):
            self._show(
                "◂ notice", f"v{message['taskVersion']:<3} {notice['level']}: {notice['title']} {notice['message']}"
            )
        await self._notify()

    async def resubscribed(self, was_recovering: bool, recovered: bool) -> None:
        """After a lost connection: either the missed messages follow, or the snapshot stands for them (C-2)."""
        if not was_recovering:
            return
        if recovered:
            self._show("owner", "is back; the realtime server still has what was missed")
        elif self._task_id:
            events = await self._owner.events(self._task_id, 0)
            snapshot = await self._owner.snapshot(self._task_id)
            self.record.fill(snapshot, events)
            at = snapshot["taskVersion"]
            self._show("owner", f"is back; the realtime server has forgotten, the snapshot at version {at} has not")
            await self._notify()

    async def connecting(self, reason: str) -> None:
        """The connection is lost, or not there yet."""
        if reason != "connect called":
            self._show("owner", f"has lost the realtime server ({reason}) and tries again")

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _connection_token(self) -> str:
        return str((await self._owner.session())["token"])

    async def _subscription_token(self, _channel: str) -> str:
        return str((await self._owner.subscription(self._task_id))["token"])


def _described(message: dict[str, Any]) -> str:
    """Version, event and where the task stands, in columns."""
    shown = message["task"] if message["kind"] == SUMMARY else message["state"]
    percent = shown.get("progressPercent")
    progress = "" if percent is None else f"{percent:5.1f} %"
    version, event = message["taskVersion"], message["eventType"]
    status = shown["businessStatus"] or shown["lifecycleStatus"]
    return f"v{version:<3} {event:<22} {status:<11} {progress:>7}"


class _ConnectionEvents(ClientEventHandler):  # type: ignore[misc] # the package carries no types
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    async def on_connecting(self, ctx: Any) -> None:
        await self._watcher.connecting(ctx.reason)

    async def on_subscribed(self, ctx: Any) -> None:
        await self._watcher.resubscribed(ctx.was_recovering, ctx.recovered)

    async def on_publication(self, ctx: Any) -> None:
        await self._watcher.received(ctx.pub.data)


class _DetailEvents(SubscriptionEventHandler):  # type: ignore[misc] # as above
    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    async def on_subscribed(self, ctx: Any) -> None:
        await self._watcher.resubscribed(ctx.was_recovering, ctx.recovered)

    async def on_publication(self, ctx: Any) -> None:
        await self._watcher.received(ctx.pub.data)
