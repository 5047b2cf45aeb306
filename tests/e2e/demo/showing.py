"""The demo as a process of the test: its lines as they come, its end, and what it left in the database."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scripts.stack.paths import ROOT
from taskstatus.adapters.mysql.engine import open_database

from .stack import Stack

LINE_SECONDS: Final = 90.0
"""For the next line that a test waits for; a relay's lease is 30 s."""
OUTBOX_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1
UNPUBLISHED: Final = "SELECT COUNT(*) FROM task_outbox WHERE aggregate_id = %s AND status <> 'PUBLISHED'"
TASK_ROW: Final = "SELECT version, lifecycle_status FROM task WHERE id = %s"
EVENTS: Final = "SELECT task_version, event_type FROM task_event_log WHERE task_id = %s ORDER BY task_version"
TASK: Final = re.compile(r"created task_([0-9a-f]{32})")


@dataclass
class Showing:
    """One running demo."""

    process: Process
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Everything printed so far."""
        return "\n".join(self.lines)

    @property
    def task_id(self) -> bytes:
        """The task of this run."""
        found = TASK.search(self.text)
        assert found is not None, self.text
        return bytes.fromhex(found[1])

    async def until(self, wanted: str) -> None:
        """Read until a line holds ``wanted``; fails, with all lines, when none comes in time."""
        try:
            async with asyncio.timeout(LINE_SECONDS):
                while (line := await self._next()) is not None:
                    if wanted in line:
                        return
        except TimeoutError:
            pass
        raise AssertionError(f"no line with {wanted!r} in:\n{self.text}")

    async def ends(self) -> int:
        """The exit code, once everything is read."""
        async with asyncio.timeout(4 * LINE_SECONDS):
            while await self._next() is not None:
                pass
            return await self.process.wait()

    async def _next(self) -> str | None:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            return None
        self.lines.append(line.decode().rstrip())
        return self.lines[-1]


def _hear_interrupts() -> None:
    """Undo an ignored SIGINT that a test run in the background hands down: the demo must be interruptible."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@asynccontextmanager
async def showing(stack: Stack, results: Path, *options: str) -> AsyncIterator[Showing]:
    """Start the demo on a stack; on leaving it does not run any more."""
    command = [sys.executable, "-m", "scripts.demo", "--results", str(results), *options]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=stack.environment(), stdout=PIPE, stderr=STDOUT, preexec_fn=_hear_interrupts
    )
    show = Showing(process)
    try:
        yield show
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            await show.ends()


@dataclass(frozen=True)
class Committed:
    """What the database holds of one task: its version, its lifecycle, its events in order."""

    version: int
    lifecycle: str
    events: list[tuple[int, str]]


async def committed(stack: Stack, task_id: bytes) -> Committed:
    """Read it, once the outbox is drained."""
    database = open_database(stack.settings["TASKSTATUS_DATABASE_URL"])
    try:
        async with asyncio.timeout(OUTBOX_SECONDS), database.writer.connect() as connection:

            async def rows(sql: str) -> list[list[str]]:
                result = await connection.exec_driver_sql(sql, (task_id,))
                return [[_text(value) for value in row] for row in result.all()]

            while (await rows(UNPUBLISHED))[0] != ["0"]:
                await asyncio.sleep(POLL_SECONDS)
            [[version, lifecycle]] = await rows(TASK_ROW)
            events = [(int(number), event_type) for number, event_type in await rows(EVENTS)]
        return Committed(int(version), lifecycle, events)
    finally:
        await database.dispose()


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
