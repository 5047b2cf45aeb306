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

NURSERY = "tests.integration.relay.relay_nursery"


@dataclass(frozen=True, slots=True)
class RelayProcess:
    """One relay process of the test."""

    pid: int
    log: Path

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return Path(f"/proc/{self.pid}").exists()

    async def kill9(self) -> None:
        """SIGKILL, and wait for the end."""
        os.kill(self.pid, signal.SIGKILL)
        await self._gone()

    async def suspend(self) -> None:
        """SIGSTOP, in force for all of its threads."""
        os.kill(self.pid, signal.SIGSTOP)
        await until_suspended(self.pid)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    async def terminate(self) -> None:
        """SIGTERM, and wait for the end."""
        os.kill(self.pid, signal.SIGTERM)
        await self._gone()

    async def _gone(self) -> None:
        async def gone() -> bool:
            return not self.runs

        await until(gone, f"relay {self.pid} has ended")


class RelayCrew:
    """Relays on one outbox."""

    def __init__(self, table: OutboxTable, folder: Path, environment: dict[str, str]) -> None:
        self._table = table
        self._folder = folder
        self._environment = os.environ | environment
        self._nursery: asyncio.subprocess.Process | None = None
        self._started: list[RelayProcess] = []

    async def start_product(self) -> asyncio.subprocess.Process:
        """``python -m relay``; the caller ends it."""
        log = self._folder / f"product-{len(self._started)}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "relay", cwd=ROOT, env=self._environment, stdout=out, stderr=out
            )
        self._started.append(RelayProcess(process.pid, log))
        return process

    async def fork(self) -> RelayProcess:
        """One more relay with a short lease."""
        if self._nursery is None:
            pipe = asyncio.subprocess.PIPE
            self._nursery = await asyncio.create_subprocess_exec(
                sys.executable, "-m", NURSERY, cwd=ROOT, env=self._environment, stdin=pipe, stdout=pipe
            )
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        log = self._folder / f"relay-{len(self._started)}.log"
        self._nursery.stdin.write(f"{log}\n".encode())
        self._started.append(RelayProcess(int(await self._nursery.stdout.readline()), log))
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
        if self._nursery is not None:
            self._nursery.kill()
            await self._nursery.wait()


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
