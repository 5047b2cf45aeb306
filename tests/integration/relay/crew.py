"""Relay processes that a test starts, kills and suspends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.stack.paths import ROOT
from tests.integration.relay.store import OutboxTable
from tests.integration.relay.waiting import until, until_suspended

PRODUCT = "relay"
SHORT_LEASE = "tests.integration.relay.relay_process"


@dataclass(slots=True)
class RelayProcess:
    """One relay process of the test."""

    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.returncode is None

    async def kill9(self) -> None:
        """SIGKILL, and wait for the end."""
        self.process.kill()
        await self.process.wait()

    async def suspend(self) -> None:
        """SIGSTOP, in force for all of its threads."""
        self.process.send_signal(signal.SIGSTOP)
        await until_suspended(self.pid)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    async def terminate(self) -> int:
        """SIGTERM, and wait for the end; the exit code."""
        self.process.terminate()
        return await self.process.wait()


class RelayCrew:
    """Starts relays on one outbox."""

    def __init__(self, table: OutboxTable, folder: Path, environment: dict[str, str]) -> None:
        self._table = table
        self._folder = folder
        self._environment = environment
        self._started: list[RelayProcess] = []

    async def start(self, module: str) -> RelayProcess:
        """One more relay; it is on its way, not yet relaying."""
        log = self._folder / f"relay-{len(self._started)}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, cwd=ROOT, env=os.environ | self._environment, stdout=out, stderr=out
            )
        self._started.append(RelayProcess(process, log))
        return self._started[-1]

    async def in_flight(self, relay: RelayProcess) -> int:
        """Rows under the lease of a relay."""
        query = "SELECT COUNT(*) FROM task_outbox WHERE status = 'PROCESSING' AND claimed_by LIKE %s"
        ((count,),) = await self._table.rows(query, f"%:{relay.pid}")
        return int(count)

    async def until_drained(self) -> None:
        """Return once every row is PUBLISHED or DEAD."""

        async def drained() -> bool:
            return await self._table.left() == 0

        await until(drained, "the outbox is drained", seconds=300)

    async def end(self) -> None:
        """End whatever still runs."""
        for relay in self._started:
            if relay.runs:
                relay.resume()
                await relay.kill9()


@asynccontextmanager
async def relay_crew(
    table: OutboxTable, folder: Path, *, grpc_target: str, api_key: str, **more: str
) -> AsyncIterator[RelayCrew]:
    """A crew whose relays publish over gRPC; they all end with the test."""
    environment = {
        "TASKSTATUS_DATABASE_URL": table.url,
        "TASKSTATUS_CENTRIFUGO_GRPC_TARGET": grpc_target,
        "TASKSTATUS_CENTRIFUGO_API_KEY": api_key,
        "TASKSTATUS_METRICS_LISTEN": "127.0.0.1:0",
    }
    crew = RelayCrew(table, folder, environment | more)
    try:
        yield crew
    finally:
        await crew.end()
