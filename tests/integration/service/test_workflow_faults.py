"""A replica dies in mid-projection: its locks go, its triggers stay, another one makes the version (L-7, N-1)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
from sqlalchemy import make_url
from taskstatus_pb.v1 import common_pb2

from scripts.stack.devkeys import DevKeys
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.telemetry.metrics import ServiceMetrics
from taskstatus.adapters.wake_up import NoWakeUp
from taskstatus.application.ids_factory import IdFactory
from taskstatus.bootstrap.workflows import workflow_parts
from taskstatus.domain.ids import parse_workflow_id
from taskstatus.domain.notifications import OutboxTools
from taskstatus.runtime.workflow_projector import WorkflowProjector
from tests.integration.service.conftest import OpenSite
from tests.integration.service.workflow_yard import move, snapshot, workflow_of
from tests.support.commit_cutter import CommitCutter
from tests.support.yard import PATIENCE_SECONDS, Yard

ROOT = Path(__file__).parents[3]
SERVE = Path(sys.executable).parent / "taskstatus"


@asynccontextmanager
async def replica(url: str, keys: DevKeys, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """``taskstatus serve`` in a process of its own; killed at the end, if the test has not done so."""
    environment = {
        **os.environ,
        "TASKSTATUS_DATABASE_URL": url,
        "TASKSTATUS_IDENTITY_FILE": str(keys.identity_file),
        "TASKSTATUS_EXECUTION_KEYS_FILE": str(keys.execution_keys_file),
        "TASKSTATUS_REALTIME_KEY_FILE": str(keys.realtime_key_file),
        "TASKSTATUS_GRPC_LISTEN": "127.0.0.1:0",
        "TASKSTATUS_METRICS_LISTEN": "127.0.0.1:0",
    }
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            str(SERVE), "serve", cwd=ROOT, env=environment, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_l7_a_replica_killed_in_mid_projection_leaves_the_work_to_another(
    open_site: OpenSite, yard: Yard, database_url: str, dev_keys: DevKeys, tmp_path: Path
) -> None:
    site = await open_site()
    workflow_id, (one, other) = await workflow_of(site, 2)
    port = make_url(database_url).port
    assert port is not None
    async with CommitCutter(port) as cutter:
        through = make_url(database_url).set(host="127.0.0.1", port=cutter.port).render_as_string(False)
        async with replica(through, dev_keys, tmp_path / "replica.log") as process:
            await move(site, common_pb2.TASK_STARTED, 1, one)
            await yard.until_followed()
            assert await yard.versions(workflow_id) == [1, 2]
            cutter.hold_commits()
            await move(site, common_pb2.TASK_COMPLETED, 2, one)
            await until_held(yard, workflow_id)

            await site.service.projector.run_once()
            assert await yard.versions(workflow_id) == [1, 2], "nobody waits for it, and nobody goes before it"
            process.kill()
            await process.wait()
    await move(site, common_pb2.TASK_COMPLETED, 3, other)
    site.service.projector.start()
    await yard.until_followed()

    versions = await yard.versions(workflow_id)
    shown = await snapshot(site.owner, workflow_id)
    assert versions == list(range(1, len(versions) + 1))
    assert len(versions) in (3, 4)
    assert (shown.lifecycle_status, shown.task_counts.succeeded) == (common_pb2.SUCCEEDED, 2)
    assert shown.workflow_version == versions[-1]


async def until_held(yard: Yard, workflow_id: str) -> None:
    """Return once another transaction has the workflow's row locked."""
    statement = "SELECT version FROM workflow WHERE id=%s FOR UPDATE SKIP LOCKED"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await yard.sql(statement, parse_workflow_id(workflow_id)):
            await asyncio.sleep(0.02)


async def test_l7_a_projection_whose_commit_reply_is_lost_makes_one_version(
    open_site: OpenSite, yard: Yard, database_url: str
) -> None:
    site = await open_site()
    workflow_id, (task_id,) = await workflow_of(site, 1)
    port = make_url(database_url).port
    assert port is not None
    async with CommitCutter(port) as cutter:
        through = make_url(database_url).set(host="127.0.0.1", port=cutter.port).render_as_string(False)
        cut_off = open_database(through)
        await move(site, common_pb2.TASK_COMPLETED, 1, task_id)
        cutter.cut_next_commit_reply()

        await projector_over(cut_off).run_once()

        assert cutter.replies_cut == 1
        await cut_off.dispose()
        assert await yard.versions(workflow_id) == [1, 2]
        assert await yard.triggers() == 0


def projector_over(database: Database) -> WorkflowProjector:
    """A projector of its own."""
    clock, randomness = SystemClock(), SystemRandomness()
    store = MySqlTaskStore(database.writer, clock, randomness)
    tools = OutboxTools(new_id=IdFactory(clock, randomness).new, to_json=orjson.dumps)
    reader = MySqlTaskReader(database.reader)
    return workflow_parts(store, reader, tools, NoWakeUp(), clock, ServiceMetrics()).projector
