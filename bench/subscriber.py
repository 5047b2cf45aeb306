"""Browsers' stand-ins: Centrifugo clients on the summary channels of a pool's owners, timing each message.

Prints a line once every connection is subscribed, and its observations when its input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from centrifuge import (  # type: ignore[import-untyped]
    Client,
    ClientEventHandler,
    ServerPublicationContext,
    ServerSubscribedContext,
)

READY_LINE = "subscribed"


class Watcher(ClientEventHandler):  # type: ignore[misc]
    """Notes when each task summary was committed and how much later it arrived, in seconds."""

    def __init__(self, observations: list[tuple[float, float]]) -> None:
        self.subscribed = asyncio.Event()
        self._observations = observations

    async def on_subscribed(self, ctx: ServerSubscribedContext) -> None:
        """The connection's own channel is open."""
        self.subscribed.set()

    async def on_publication(self, ctx: ServerPublicationContext) -> None:
        """One message; both clocks are this machine's."""
        received = time.time()
        message = ctx.pub.data
        if isinstance(message, dict) and message.get("kind") == "task.summary":
            committed = datetime.fromisoformat(message["task"]["asOf"]).replace(tzinfo=UTC).timestamp()
            self._observations.append((committed, received - committed))


async def watch(url: str, tokens: Sequence[str]) -> None:
    """Connect with each token, say so, and report at the end of the input."""
    observations: list[tuple[float, float]] = []
    watchers = [Watcher(observations) for _ in tokens]
    clients = [Client(url, events=watcher, token=token) for watcher, token in zip(watchers, tokens, strict=True)]
    for client in clients:
        await client.connect()
    for watcher in watchers:
        await watcher.subscribed.wait()
    sys.stdout.write(READY_LINE + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    for client in clients:
        await client.disconnect()
    json.dump(observations, sys.stdout)
