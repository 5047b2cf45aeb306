"""What the task's owner may ask over REST: the session, the subscription token, the snapshot and the timeline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

RETRY_SECONDS: Final = 0.3
PATIENCE_SECONDS: Final = 300.0
PASSING_STATUSES: Final = frozenset({429, 500, 502, 503, 504})


class OwnerError(Exception):
    """The gateway refused, or did not answer for too long."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A person with a token, at the REST gateway."""

    client: httpx.AsyncClient

    @classmethod
    def at(cls, address: str, token: str) -> Self:
        """``address`` is ``host:port``. The machine's proxies are not asked: this is the local stack."""
        headers = {"Authorization": f"Bearer {token}"}
        return cls(httpx.AsyncClient(base_url=f"http://{address}", headers=headers, trust_env=False, timeout=10.0))

    async def session(self) -> dict[str, Any]:
        """Where to connect, with which token (GetSession)."""
        return await self._ask("GET", "/api/v1/realtime/session")

    async def subscription(self, task_id: str) -> dict[str, Any]:
        """The task's detail channel and the token that opens it (CreateSubscriptionToken)."""
        return await self._ask("POST", "/api/v1/realtime/subscription-token", json={"taskId": task_id})

    async def snapshot(self, task_id: str) -> dict[str, Any]:
        """The whole state (GetTask)."""
        return await self._ask("GET", f"/api/v1/tasks/{quote(task_id)}")

    async def events(self, task_id: str, after_version: int) -> list[dict[str, Any]]:
        """The timeline after a version (ListTaskEvents)."""
        query = {"afterTaskVersion": str(after_version), "limit": "500"}
        answer = await self._ask("GET", f"/api/v1/tasks/{quote(task_id)}/events", params=query)
        events: list[dict[str, Any]] = answer.get("events", [])
        return events

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    async def _ask(self, method: str, path: str, **arguments: Mapping[str, str]) -> dict[str, Any]:
        """Ask again while it may help, as every client of ours does. Raises OwnerError."""
        last = "no answer"
        for _ in range(int(PATIENCE_SECONDS / RETRY_SECONDS)):
            try:
                answer = await self.client.request(method, path, **arguments)  # type: ignore[arg-type]
            except httpx.TransportError as error:
                last = f"{type(error).__name__}: {error}"
            else:
                if answer.is_success:
                    body: dict[str, Any] = answer.json()
                    return body
                last = f"{answer.status_code} {answer.text[:300]}"
                if answer.status_code not in PASSING_STATUSES:
                    break
            await asyncio.sleep(RETRY_SECONDS)
        raise OwnerError(f"{method} {path}: {last}")
