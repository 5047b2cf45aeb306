"""Heartbeats through a real database, by gRPC and by REST: equal answers, and only the lease is touched (H-*)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2

from scripts.stack.devkeys import DevKeys
from taskstatus.adapters.mysql.engine import open_database
from taskstatus.application.identity import Role
from taskstatus.domain.ids import parse_task_id
from taskstatus.sdk import Connection, ExecutionContext, RetryPolicy, Worker
from taskstatus.sdk.retry import Retrier
from tests.integration.service.conftest import Site
from tests.parity.forging import Forger
from tests.support.clients import activate, revoke
from tests.support.databases import audit_of, count_rows
from tests.unit.sdk.support import StepTiming

from .beating import ROUTE, Scene, beat_of, gateway, lease_of, rest_results, until


@pytest.fixture
async def scene(site: Site, database_url: str, dev_keys: DevKeys) -> AsyncIterator[Scene]:
    async with gateway(database_url, dev_keys) as rest:
        yield Scene(site, rest, Forger(dev_keys.execution_keys_file), database_url)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[AsyncConnection]:
    """A session beside the service's own."""
    database = open_database(database_url)
    async with database.writer.connect() as opened:
        yield opened
    await database.dispose()


Prepare = Callable[[Scene], Awaitable[list[dict[str, Any]]]]
"""Brings an execution into its state and gives the beats of one call."""


async def _accepted(scene: Scene) -> list[dict[str, Any]]:
    context = await scene.running()
    return [beat_of(context, 7), {"execution_token": context.execution_token, "heartbeat_seq": 7}]


async def _lower(scene: Scene) -> list[dict[str, Any]]:
    context = await scene.running()
    return [beat_of(context, 7), beat_of(context, 6), beat_of(context, 7)]


async def _not_started(scene: Scene) -> list[dict[str, Any]]:
    return [beat_of(await scene.activated())]


async def _stale_attempt(scene: Scene) -> list[dict[str, Any]]:
    context = await scene.running()
    await activate(scene.site.coordinator, context.task_id, attempt=2)
    return [beat_of(context)]


async def _ended(scene: Scene) -> list[dict[str, Any]]:
    context = await scene.running()
    await scene.report(context, 2, common_pb2.STEP_COMPLETED)
    return [beat_of(context)]


async def _task_ended(scene: Scene) -> list[dict[str, Any]]:
    context = await scene.running()
    await scene.site.coordinator.report(
        event_type=common_pb2.TASK_CANCELLED, source_seq=1, task_id=context.task_id, reason="no longer needed"
    )
    return [beat_of(context)]


async def _wrong_execution(scene: Scene) -> list[dict[str, Any]]:
    context, other = await scene.running(), await scene.running()
    return [
        beat_of(context, execution_id=other.execution_id),
        beat_of(context, task_id=other.task_id),
        beat_of(context, step_id="03_other"),
        beat_of(context, step_attempt=2),
        beat_of(context, execution_id=context.execution_id, task_id=context.task_id, step_attempt=1, task_attempt=1),
    ]


async def _not_registered(scene: Scene) -> list[dict[str, Any]]:
    return [{"execution_handle": scene.forger.handle_of_nothing(), "heartbeat_seq": 1}]


async def _bad_token(scene: Scene) -> list[dict[str, Any]]:
    context = await scene.running()
    return [
        {"execution_token": "forged", "heartbeat_seq": 1},
        {"heartbeat_seq": 1},
        {"execution_token": scene.forger.expired(context), "heartbeat_seq": 1},
    ]


async def _revoked(scene: Scene) -> list[dict[str, Any]]:
    context = await scene.running()
    await revoke(scene.site.coordinator, context.execution_id)
    return [beat_of(context)]


async def _malformed(scene: Scene) -> list[dict[str, Any]]:
    context = await scene.running()
    return [
        beat_of(context, 0),
        beat_of(context, 2**63),
        beat_of(context, round_trip_ms=-1.0),
        beat_of(context, step_id="x" * 65),
        beat_of(context, execution_token=context.execution_token),
        beat_of(context, 1),
    ]


ROWS: dict[str, tuple[Prepare, list[str]]] = {
    "accepted": (_accepted, ["", ""]),
    "lower sequence": (_lower, ["", "STALE_SEQUENCE", ""]),
    "not started": (_not_started, ["TRANSITION_NOT_ALLOWED"]),
    "stale attempt": (_stale_attempt, ["STALE_ATTEMPT"]),
    "step ended": (_ended, ["TERMINAL"]),
    "task ended": (_task_ended, ["TERMINAL"]),
    "wrong execution": (_wrong_execution, [*["TOKEN_MISMATCH"] * 4, ""]),
    "not registered": (_not_registered, ["EXECUTION_NOT_FOUND"]),
    "bad token": (_bad_token, ["UNAUTHENTICATED", "UNAUTHENTICATED", "TOKEN_EXPIRED"]),
    "revoked": (_revoked, ["TOKEN_REVOKED"]),
    "malformed": (_malformed, [*["INVALID_ARGUMENT"] * 5, ""]),
}


@pytest.mark.parametrize("row", ROWS)
async def test_h3_every_row_is_answered_alike_by_grpc_and_rest(scene: Scene, row: str) -> None:
    prepare, reasons = ROWS[row]
    beats = await prepare(scene)

    by_grpc, by_rest = await scene.by_grpc(*beats), await scene.by_rest(*beats)

    assert [result.get("reason", "") for result in by_grpc] == reasons
    assert [bool(result.get("accepted")) for result in by_grpc] == [not reason for reason in reasons]
    received = [result.pop("receivedAt", None) for results in (by_grpc, by_rest) for result in results]
    assert by_grpc == [_without_defaults(result) for result in by_rest]
    told = [result.get("accepted") or "health" in result for result in by_grpc]
    assert [at is not None for at in received] == told * 2


def _without_defaults(result: dict[str, Any]) -> dict[str, Any]:
    """REST writes fields that are not set, protobuf's own JSON leaves them out."""
    message = json_format.ParseDict(result, heartbeat_service_pb2.HeartbeatResult())
    return dict(json_format.MessageToDict(message))


async def test_h1_answer_has_the_time_of_receipt_and_the_terms(scene: Scene, connection: AsyncConnection) -> None:
    context = await scene.running()
    before = (await connection.exec_driver_sql("SELECT SYSDATE(6) AS now")).scalar_one()
    (result,) = await scene.by_grpc(beat_of(context))
    after = (await connection.exec_driver_sql("SELECT SYSDATE(6) AS now")).scalar_one()

    received = datetime.fromisoformat(result["receivedAt"]).replace(tzinfo=None)
    assert before - timedelta(seconds=5) <= received <= after
    assert (result["executionId"], result["health"]) == (context.execution_id, "HEALTHY")
    assert (result["intervalSeconds"], result["timeoutSeconds"]) == (15, 60)


async def test_h2_beats_write_no_event_no_version_and_no_notification(
    scene: Scene, connection: AsyncConnection, dev_keys: DevKeys
) -> None:
    context = await scene.running()
    rows = await count_rows(scene.database_url)
    task = await _task_row(connection, context)

    async with gateway(scene.database_url, dev_keys) as rest:
        for seq in (1, 2, 3):
            (result,) = await rest_results(rest, scene.site.worker.token, beat_of(context, seq))
            assert result["accepted"]

    assert await count_rows(scene.database_url) == rows
    assert await _task_row(connection, context) == task
    assert (await lease_of(connection, context)).heartbeat_seq == 3


async def _task_row(connection: AsyncConnection, context: Any) -> Any:
    statement = "SELECT task.*,task_step.* FROM task JOIN task_step ON task_step.task_id=task.id WHERE task.id=%s"
    return (await connection.exec_driver_sql(statement, (parse_task_id(context.task_id),))).all()


async def test_h2_beats_pass_while_the_task_is_locked_and_are_persisted(
    scene: Scene, connection: AsyncConnection, dev_keys: DevKeys, database_url: str
) -> None:
    context = await scene.running()
    task_id = parse_task_id(context.task_id)
    locker = open_database(database_url)
    async with (
        gateway(database_url, dev_keys, heartbeat_persist_seconds="1") as rest,
        locker.writer.connect() as lock,
    ):
        await lock.exec_driver_sql("BEGIN")
        await lock.exec_driver_sql("SELECT id FROM task WHERE id=%s FOR UPDATE", (task_id,))
        await lock.exec_driver_sql("SELECT step_id FROM task_step WHERE task_id=%s FOR UPDATE", (task_id,))

        with pytest.raises(OperationalError):
            await connection.exec_driver_sql("SELECT id FROM task WHERE id=%s FOR UPDATE NOWAIT", (task_id,))

        (result,) = await rest_results(rest, scene.site.worker.token, beat_of(context, 9))
        assert result["accepted"]

        async def persisted() -> bool:
            return bool((await lease_of(connection, context)).heartbeat_seq == 9)

        await until(persisted)
        await lock.exec_driver_sql("ROLLBACK")
    await locker.dispose()


async def test_n1_drain_persists_what_was_answered(
    scene: Scene, connection: AsyncConnection, dev_keys: DevKeys
) -> None:
    contexts = [await scene.running() for _ in range(3)]
    async with gateway(scene.database_url, dev_keys) as rest:
        results = await rest_results(rest, scene.site.worker.token, *(beat_of(context, 4) for context in contexts))
        assert all(result["accepted"] for result in results)
        assert [(await lease_of(connection, context)).heartbeat_seq for context in contexts] == [0, 0, 0]

    for context in contexts:
        lease = await lease_of(connection, context)
        assert lease.heartbeat_seq == 4
        assert lease.deadline_at == lease.last_heartbeat_at + timedelta(seconds=60)


async def test_h3_beat_in_memory_never_reopens_a_closed_lease(
    scene: Scene, connection: AsyncConnection, dev_keys: DevKeys
) -> None:
    context = await scene.running()
    async with gateway(scene.database_url, dev_keys) as rest:
        (result,) = await rest_results(rest, scene.site.worker.token, beat_of(context, 4))
        assert result["accepted"]
        await scene.report(context, 2, common_pb2.STEP_COMPLETED)
        closed = await lease_of(connection, context)

    assert await lease_of(connection, context) == closed
    assert closed.closed_at is not None
    assert (closed.deadline_at, closed.heartbeat_seq) == (None, 0)


async def test_h7_accepted_progress_renews_the_lease(
    scene: Scene, connection: AsyncConnection, dev_keys: DevKeys
) -> None:
    context = await scene.running()
    body = {"eventId": "evt-progress", "eventType": "STEP_PROGRESS", "sourceSeq": 2, "progress": {"current": 1}}
    async with gateway(scene.database_url, dev_keys) as rest:
        headers = {"authorization": f"Bearer {scene.site.worker.token}"}
        event = {**body, "executionHandle": context.execution_handle}
        response = await rest.post("/internal/v1/task-events", json=event, headers=headers)
        assert response.json()["accepted"]

    lease = await lease_of(connection, context)
    assert lease.last_heartbeat_at is not None
    assert lease.heartbeat_seq == 0
    assert lease.deadline_at == lease.last_heartbeat_at + timedelta(seconds=60)


async def test_h3_two_replicas_beat_for_one_execution_and_nothing_goes_back(
    scene: Scene, connection: AsyncConnection, dev_keys: DevKeys
) -> None:
    context = await scene.running()
    token = scene.site.worker.token
    async with gateway(scene.database_url, dev_keys) as first:
        async with gateway(scene.database_url, dev_keys) as second:
            for seq in range(1, 9):
                rest = first if seq % 2 else second
                (result,) = await rest_results(rest, token, beat_of(context, seq))
                assert result["accepted"]
        assert (await lease_of(connection, context)).heartbeat_seq == 8
        young = (await lease_of(connection, context)).last_heartbeat_at
    lease = await lease_of(connection, context)
    assert (lease.heartbeat_seq, lease.last_heartbeat_at) == (8, young)


@pytest.mark.parametrize("count", [0, 501])
async def test_h3_empty_or_over_long_list_is_refused_whole(scene: Scene, count: int) -> None:
    request = heartbeat_service_pb2.BatchHeartbeatRequest(
        heartbeats=[heartbeat_service_pb2.Heartbeat(heartbeat_seq=1)] * count
    )
    worker = scene.site.worker
    refusal = await worker.refused(worker.heartbeats.BatchHeartbeat, request)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert refusal.fields == ("heartbeats",)
    headers = {"authorization": f"Bearer {worker.token}"}
    response = await scene.rest.post(ROUTE, json={"heartbeats": [{"heartbeatSeq": 1}] * count}, headers=headers)
    assert (response.status_code, response.json()["reason"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("role", [Role.COORDINATOR, Role.BUSINESS, Role.ADMIN])
async def test_e2_only_workers_beat(scene: Scene, role: Role) -> None:
    caller = scene.site.caller(scene.site.tokens.service("document-parser", role))
    context = await scene.running()
    request = heartbeat_service_pb2.BatchHeartbeatRequest(
        heartbeats=[heartbeat_service_pb2.Heartbeat(**beat_of(context))]
    )
    refusal = await caller.refused(caller.heartbeats.BatchHeartbeat, request)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")


async def test_n4_beat_of_another_producer_is_refused_and_audited(scene: Scene, database_url: str) -> None:
    context = await scene.running()
    token = scene.site.tokens.service("heartbeat-thief", Role.WORKER)
    (result,) = await scene.by_grpc(beat_of(context), token=token)
    assert (result["reason"], "health" in result) == ("PRODUCER_MISMATCH", False)

    async def audited() -> bool:
        return ("PRODUCER_MISMATCH", "STEP_HEARTBEAT", "grpc") in await audit_of(database_url, "heartbeat-thief")

    await until(audited)


async def test_w1_sdk_beats_for_an_open_execution(scene: Scene) -> None:
    time, worker = StepTiming(seconds=3_000.0), scene.site.worker
    connection = Connection(
        scene.site.channel, lambda: worker.token, None, Retrier(RetryPolicy(), time.timing()), time.timing()
    )
    context = await scene.activated()
    async with Worker(connection).execution(ExecutionContext.from_message(context)) as execution:
        await time.next_beat()
        assert time.waits == pytest.approx([13.5, 13.5])
        (result,) = await scene.by_grpc(beat_of(context, 1))
        assert result["reason"] == "STALE_SEQUENCE"
        await activate(scene.site.coordinator, context.task_id, attempt=2)
        (await time.waiting.get()).set()

        async def over() -> bool:
            return execution.over == "STALE_ATTEMPT"

        await until(over)
