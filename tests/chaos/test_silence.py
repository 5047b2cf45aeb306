"""Silent workers on real processes: the second check, adaptive timeouts and stuck work, under faults (H-4, H-6, H-8).

Each proof waits for what is in the tables or on the line, never for a time; what must *not* come is looked for once
something later has come.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from taskstatus_pb.v1 import admin_service_pb2, common_pb2, query_service_pb2
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb

from taskstatus.adapters.mysql.engine import open_database
from taskstatus.application.identity import Role
from tests.chaos.options import REPLICAS
from tests.chaos.silence import Scene, scene_of
from tests.chaos.stack import running_stack
from tests.chaos.terms import ANSWER_VARIABLE, TIMEOUT_SECONDS
from tests.support.clients import WORKER, step
from tests.support.streams import StreamClient, compact

FIRST, SECOND = REPLICAS
PATIENT_SECONDS = 12
"""A timeout whose last quarter is long enough to be asked and heard in, on a busy machine too."""
SLOW_PRODUCER = "distant-parser"
SLOW_ROUND_TRIP_MS = 35.0


def test_h6_h8_silence_is_told_of_those_who_are_silent_and_stuck_work_fails_nobody(tmp_path: Path) -> None:
    asyncio.run(_run(tmp_path))


async def _run(folder: Path) -> None:
    settings = {ANSWER_VARIABLE: "1.5"}
    async with running_stack("mysql", folder, REPLICAS, **settings) as stack:
        database = open_database(stack.database.url)
        try:
            async with scene_of(stack, database) as scene:
                # The replica that holds no stream would judge without asking.
                await asyncio.to_thread(stack.parts[SECOND].stop)
                await asyncio.gather(_answers_in_time(scene), _stays_paused(scene))
                await asyncio.to_thread(stack.parts[SECOND].restart)
                await _asked_ahead(scene)
                await asyncio.gather(_slow_link(scene), _stuck_work(scene))
        finally:
            await database.dispose()


async def _answers_in_time(scene: Scene) -> None:
    """H-6: paused past its timeout, and let go on by the question itself."""
    async with scene.worker(FIRST) as worker:
        worker.pause()
        await scene.until(lambda: scene.overdue(worker.context), "its deadline passes")
        await worker.line.next_word()
        worker.resume()
        await scene.until(lambda: _beats_again(scene, worker.context), "its answer is in the table")
        assert await scene.signs(FIRST, worker.context) == []


async def _stays_paused(scene: Scene) -> None:
    """H-4, H-6: nobody answers, and STALE is told; it comes back with its next beat."""
    async with scene.worker(FIRST) as worker:
        worker.pause()

        async def told() -> bool:
            return (await scene.signs(FIRST, worker.context))[:1] == ["SILENT"]

        await scene.until(told, "STALE of a worker that stays paused")
        worker.resume()

        async def back() -> bool:
            return (await scene.signs(FIRST, worker.context))[-1:] == ["BEATING"]

        await scene.until(back, "the worker is back")


async def _asked_ahead(scene: Scene) -> None:
    """H-6: with two replicas, the one with the stream asks before the other may judge."""
    async with scene.worker(FIRST, timeout_seconds=PATIENT_SECONDS) as worker:
        worker.pause()
        silence = PATIENT_SECONDS / 2
        await scene.until(lambda: scene.silent_for(worker.context, silence), "it has been silent for long")
        await worker.line.next_word()
        worker.resume()
        await scene.until(lambda: _beats_again(scene, worker.context), "its answer is in the table")
        assert await scene.signs(SECOND, worker.context) == []


async def _beats_again(scene: Scene, context: object) -> bool:
    """Whether its last persisted sign is young."""
    return not await scene.silent_for(context, TIMEOUT_SECONDS / 2)


async def _slow_link(scene: Scene) -> None:
    """H-6: a distant worker is given longer, and keeps it when the replica that measured its link is killed."""
    context = await scene.activated(FIRST, producer=SLOW_PRODUCER)
    near = await scene.activated(FIRST)
    slow, quick = (scene.caller(FIRST, producer, Role.WORKER) for producer in (SLOW_PRODUCER, WORKER))
    async with StreamClient(slow) as stream, StreamClient(quick) as other:
        key, other_key = await stream.key_of(context), await other.key_of(near)
        for line, number in ((stream, key), (other, other_key)):
            (started,) = await line.report(compact(number, common_pb2.STEP_STARTED, 1))
            assert started.accepted
        assert (await stream.ask(heartbeat=_distant_beat(key, 1))).beaten.accepted == 1
        assert (await other.beat((other_key, 1))).accepted == 1

        async def given_longer() -> bool:
            return int(await scene.lease(context, "timeout_seconds")) > 10 * TIMEOUT_SECONDS

        await scene.until(given_longer, "the lease of the distant worker is longer")
        await asyncio.to_thread(scene.stack.parts[FIRST].kill9)
        await asyncio.to_thread(scene.stack.parts[FIRST].restart)

    async def told() -> bool:
        return await scene.signs(SECOND, near) != []

    await scene.until(told, "STALE of the worker that is near")
    assert await scene.signs(SECOND, context) == []


def _distant_beat(key: int, seq: int) -> pb.StreamHeartbeat:
    beat = pb.StreamBeat(stream_execution_key=key, heartbeat_seq=seq, round_trip_ms=SLOW_ROUND_TRIP_MS)
    return pb.StreamHeartbeat(beats=[beat])


async def _stuck_work(scene: Scene) -> None:
    """H-8, B-1: listed by every replica, over the death of one; the task runs on and can still succeed."""
    limited = await scene.activated(SECOND, max_run_seconds=1, known_steps=[step(max_run_seconds=1)])
    worker, coordinator = scene.caller(SECOND, WORKER, Role.WORKER), scene.coordinator(SECOND)
    await worker.report(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=limited.execution_handle)
    execution, task = (limited.task_id, limited.execution_id), (limited.task_id, "")

    for replica in REPLICAS:

        async def listed(replica: str = replica) -> bool:
            stuck = await scene.stuck(replica)
            return admin_service_pb2.OVER_RUN_TIME in stuck.get(execution, []) and stuck.get(task) == [
                admin_service_pb2.TASK_OVER_RUN_TIME
            ]

        await scene.until(listed, f"{replica} lists the step and the task")
    request = query_service_pb2.GetTaskRequest(task_id=limited.task_id)
    seen = (await coordinator.call(coordinator.query.GetTask, request)).task
    assert seen.lifecycle_status == common_pb2.RUNNING

    await worker.report(event_type=common_pb2.STEP_COMPLETED, source_seq=2, execution_handle=limited.execution_handle)
    stuck = await scene.stuck(SECOND)
    assert (execution in stuck, stuck.get(task)) == (False, [admin_service_pb2.TASK_OVER_RUN_TIME])
    ended = await coordinator.report(event_type=common_pb2.TASK_COMPLETED, source_seq=1, task_id=limited.task_id)
    assert (ended.accepted, ended.lifecycle_status) == (True, common_pb2.SUCCEEDED)
    assert task not in await scene.stuck(SECOND)
