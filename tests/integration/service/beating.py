"""Executions that beat through a real database, by gRPC and by REST."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from google.protobuf import json_format
from sqlalchemy.ext.asyncio import AsyncConnection
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2

from gateway_rest.app import RestSettings, create_app
from scripts.stack.devkeys import DevKeys
from taskstatus.bootstrap import open_service
from taskstatus.domain.ids import parse_execution_id
from tests.integration.service.conftest import Site, settings_for
from tests.parity.forging import Forger
from tests.support.clients import activate, new_task

ROUTE = "/internal/v1/task-heartbeats:batch"
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Scene:
    """A replica, its REST gateway over the same schema, and keys to forge with."""

    site: Site
    rest: httpx.AsyncClient
    forger: Forger
    database_url: str

    async def running(self) -> Any:
        """The context of an execution that has started."""
        context = await self.activated()
        await self.started(context)
        return context

    async def activated(self) -> Any:
        """The context of an execution that has not started."""
        return await activate(self.site.coordinator, await new_task(self.site.coordinator))

    async def started(self, context: Any) -> None:
        """Report its start."""
        await self.report(context, 1, common_pb2.STEP_STARTED)

    async def report(self, context: Any, seq: int, event_type: Any, **more: Any) -> None:
        """Report as the execution."""
        answer = await self.site.worker.report(
            event_type=event_type, source_seq=seq, execution_handle=context.execution_handle, **more
        )
        assert answer.accepted

    async def by_grpc(self, *beats: dict[str, Any], token: str = "") -> list[dict[str, Any]]:
        """The results of a gRPC call, in their JSON form."""
        caller = self.site.caller(token) if token else self.site.worker
        request = heartbeat_service_pb2.BatchHeartbeatRequest(
            heartbeats=[heartbeat_service_pb2.Heartbeat(**beat) for beat in beats]
        )
        response = await caller.call(caller.heartbeats.BatchHeartbeat, request)
        return list(json_format.MessageToDict(response)["results"])

    async def by_rest(self, *beats: dict[str, Any], token: str = "") -> list[dict[str, Any]]:
        """The results of a REST call."""
        return await rest_results(self.rest, token or self.site.worker.token, *beats)


async def rest_results(rest: httpx.AsyncClient, token: str, *beats: dict[str, Any]) -> list[dict[str, Any]]:
    messages = [json_format.MessageToDict(heartbeat_service_pb2.Heartbeat(**beat)) for beat in beats]
    response = await rest.post(ROUTE, json={"heartbeats": messages}, headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 200, response.text
    return list(response.json()["results"])


@asynccontextmanager
async def gateway(database_url: str, keys: DevKeys, **settings: str) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway with a service of its own; leaving it drains."""
    async with open_service(settings_for(database_url, keys, **settings)) as service:
        app = create_app(service.dispatch, service.clock, service.is_ready, RestSettings())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://rest.test") as client:
            yield client


async def lease_of(connection: AsyncConnection, context: Any) -> Any:
    """(sequence, last beat, deadline, closed at) as persisted."""
    statement = (
        "SELECT heartbeat_seq,last_heartbeat_at,deadline_at,closed_at FROM task_execution_lease WHERE execution_id=%s"
    )
    return (await connection.exec_driver_sql(statement, (parse_execution_id(context.execution_id),))).one()


async def until(found: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await found():
            await asyncio.sleep(0.02)


def beat_of(context: Any, seq: int = 1, **more: Any) -> dict[str, Any]:
    """A beat by handle."""
    return {"execution_handle": context.execution_handle, "heartbeat_seq": seq, **more}
