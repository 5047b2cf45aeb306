"""A real Centrifugo client that keeps the versions it receives on detail channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from centrifuge import Client, ClientEventHandler, ServerPublicationContext  # type: ignore[import-untyped]

from scripts.stack import devkeys, servers
from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.tokens.realtime_tokens import EcdsaRealtimeTokens
from taskstatus.domain.channels import realtime_user


class Received(ClientEventHandler):  # type: ignore[misc]
    """The versions that arrived, by channel, in their order."""

    def __init__(self) -> None:
        self.versions: defaultdict[str, list[int]] = defaultdict(list)

    async def on_publication(self, ctx: ServerPublicationContext) -> None:
        """See ClientEventHandler."""
        self.versions[ctx.channel].append(int(ctx.pub.data["taskVersion"]))


@asynccontextmanager
async def subscribed(
    server: servers.RunningCentrifugo, keys: devkeys.DevKeys, channels: Sequence[str]
) -> AsyncIterator[Received]:
    """A connected client, subscribed by its token."""
    tokens = EcdsaRealtimeTokens.from_file(Path(keys.realtime_key_file), "realtime-1", SystemClock())
    token, _ = tokens.connection_token(realtime_user("acme", "viewer"), list(channels))
    received = Received()
    client = Client(server.url, events=received, token=token)
    await client.connect()
    await client.ready(timeout=10)
    try:
        yield received
    finally:
        await client.disconnect()
