"""What Centrifugo's channels hold, read through its own client library."""

from __future__ import annotations

from typing import Any

from cent import AsyncClient, HistoryRequest


class History:
    """Reads the history of channels."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def of(self, channel: str, limit: int = 1000) -> list[Any]:
        """The data of the channel's publications, oldest first."""
        result = await self._client.history(HistoryRequest(channel=channel, limit=limit))
        return [publication.data for publication in result.publications]
