"""What the proofs about silent and stuck work need: workers to pause, and a look into the tables (H-4, H-6, H-8)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
from google.protobuf import json_format
from taskstatus_pb.v1 import admin_service_pb2, common_pb2, query_service_pb2, register_service_pb2

from scripts.stack import processes
from scripts.stack.paths import VENV
from taskstatus.adapters.mysql.engine import Database
from taskstatus.application.identity import Role
from taskstatus.domain.ids import parse_execution_id
from tests.chaos.line_watch import WatchedLine
from tests.chaos.silent_worker import TARGET_VARIABLE, TOKEN_VARIABLE
from tests.chaos.stack import ChaosStack
from tests.chaos.terms import INTERVAL_SECONDS, TIMEOUT_SECONDS
from tests.chaos.transports import CHANNEL_OPTIONS
from tests.support.clients import COORDINATOR, WORKER, Caller, Tokens, new_task, step, unique
from tests.support.tcp_proxy import HOST

HEALTH = frozenset({common_pb2.STEP_HEALTH_CHANGED, common_pb2.WORKER_LOST})
PATIENCE_SECONDS = 60.0
"""Until something that must come has come; far more than it takes."""


@dataclass
class PausedWorker:
    """A worker process of its own, paused and let go on by signals."""

    context: Any
    identity: processes.Identity
    line: WatchedLine

    def pause(self) -> None:
        """SIGSTOP: its stream stays open, and it answers nobody."""
        processes.send(self.identity, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        processes.send(self.identity, signal.SIGCONT)


class Scene:
    """The replicas of a stack as callers see them."""

    def __init__(self, stack: ChaosStack, database: Database, channels: dict[str, grpc.aio.Channel]) -> None:
        self.stack = stack
        self._database = database
        self._channels = channels
        self._tokens = Tokens(stack.keys.identity_file)

    def caller(self, replica: str, producer: str, *roles: Role) -> Caller:
        """A service that calls one replica."""
        return Caller(self._channels[replica], self._tokens.service(producer, *roles))

    def coordinator(self, replica: str) -> Caller:
        """The recorded coordinator."""
        return self.caller(replica, COORDINATOR, Role.COORDINATOR, Role.BUSINESS)

    async def activated(
        self, replica: str, *, timeout_seconds: int = TIMEOUT_SECONDS, producer: str = WORKER, **task: Any
    ) -> Any:
        """The context of an execution that beats every second."""
        coordinator = self.coordinator(replica)
        task.setdefault("known_steps", [step(expected_producer=producer)])
        task_id = await new_task(coordinator, **task)
        request = register_service_pb2.ActivateStepRequest(
            command_id=unique("cmd"),
            task_id=task_id,
            step_id="02_parse",
            step_attempt=1,
            heartbeat_interval_seconds=INTERVAL_SECONDS,
            heartbeat_timeout_seconds=timeout_seconds,
        )
        return (await coordinator.call(coordinator.register.ActivateStep, request)).context

    @asynccontextmanager
    async def worker(self, replica: str, timeout_seconds: int = TIMEOUT_SECONDS) -> AsyncIterator[PausedWorker]:
        """A worker process whose stream ends in this replica, and whose first beats are in the table."""
        context = await self.activated(replica, timeout_seconds=timeout_seconds)
        async with WatchedLine(self.stack.addresses[replica]["TASKSTATUS_GRPC_LISTEN"]) as line:
            environment = {
                "PYTHONPATH": self.stack.settings["PYTHONPATH"],
                TARGET_VARIABLE: f"{HOST}:{line.port}",
                TOKEN_VARIABLE: self._tokens.service(WORKER, Role.WORKER),
            }
            told = json.dumps(json_format.MessageToDict(context))
            command = [str(VENV / "bin" / "python"), "-m", "tests.chaos.silent_worker", told]
            log = self.stack.folder / f"{context.execution_id}.log"
            identity = await asyncio.to_thread(processes.spawn, command, log, environment)
            try:
                await self.until(lambda: self.beaten(context), "the worker beats")
                yield PausedWorker(context, identity, line)
            finally:
                await asyncio.to_thread(processes.kill, identity)

    async def lease(self, context: Any, expression: str) -> Any:
        """An expression over the execution's lease; None before it has one."""
        async with self._database.writer.connect() as connection:
            result = await connection.exec_driver_sql(
                f"SELECT {expression} FROM task_execution_lease WHERE execution_id=%s",
                (parse_execution_id(context.execution_id),),
            )
            row = result.first()
        return None if row is None else row[0]

    async def beaten(self, context: Any) -> bool:
        """Whether a beat of it was persisted."""
        return bool(await self.lease(context, "heartbeat_seq>0"))

    async def silent_for(self, context: Any, seconds: float) -> bool:
        """Whether its last persisted sign is so long ago."""
        long_ago = f"NOW(6)-INTERVAL {round(seconds * 1_000_000)} MICROSECOND"
        return bool(await self.lease(context, f"last_heartbeat_at<{long_ago}"))

    async def overdue(self, context: Any) -> bool:
        """Whether its deadline has passed."""
        return bool(await self.lease(context, "deadline_at<NOW(6)"))

    async def signs(self, replica: str, context: Any) -> list[str]:
        """What was recorded about the task's health, in order."""
        coordinator = self.coordinator(replica)
        request = query_service_pb2.ListTaskEventsRequest(task_id=context.task_id, limit=500)
        events = (await coordinator.call(coordinator.query.ListTaskEvents, request)).events
        return [event.reason for event in events if event.event_type in HEALTH]

    async def stuck(self, replica: str) -> dict[tuple[str, str], list[int]]:
        """The causes of what is listed as stuck, by task and execution."""
        admin = self.caller(replica, "operations", Role.ADMIN)
        request = admin_service_pb2.ListStuckTasksRequest(limit=500)
        entries = (await admin.call(admin.admin.ListStuckTasks, request)).executions
        return {(entry.task_id, entry.execution_id): list(entry.causes) for entry in entries}

    async def until(self, condition: Any, what: str) -> None:
        """Return once the condition holds; a replica that is away just now is asked again."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    with contextlib.suppress(grpc.aio.AioRpcError):
                        if await condition():
                            return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"still not: {what}") from None


@asynccontextmanager
async def scene_of(stack: ChaosStack, database: Database) -> AsyncIterator[Scene]:
    """With a channel to each replica."""
    async with contextlib.AsyncExitStack() as ends:
        channels = {
            name: await ends.enter_async_context(
                grpc.aio.insecure_channel(stack.addresses[name]["TASKSTATUS_GRPC_LISTEN"], options=CHANNEL_OPTIONS)
            )
            for name in stack.addresses
        }
        yield Scene(stack, database, channels)
