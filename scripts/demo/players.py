"""Starts the coordinator and the workers as processes of their own, hears what they tell, ends them."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.demo.narration import heard

ROOT: Final = Path(__file__).resolve().parents[2]
END_SECONDS: Final = 5.0

Hear = Callable[[str, dict[str, Any]], None]
"""Takes one told line: who, what."""


class PlayersError(Exception):
    """A child process ended when it should not have."""


@dataclass
class Players:
    """The child processes of one run."""

    hear: Hear
    _processes: dict[str, Process] = field(default_factory=dict)
    _listeners: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def start(self, who: str, module: str, arguments: list[str], environment: dict[str, str]) -> None:
        """Start ``python -m module``; it inherits no credentials but its own."""
        command = [sys.executable, "-m", module, *arguments]
        env = _plain() | environment
        # A session of its own: Ctrl-C is for the demo, which then ends its players.
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=env, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        self._processes[who] = process
        self._listeners[who] = asyncio.create_task(self._listen(who, process))

    async def go(self, who: str) -> None:
        """Let a player go on that waits for a line."""
        stdin = self._processes[who].stdin
        assert stdin is not None
        stdin.write(b"go\n")
        await stdin.drain()

    async def all_while(self, awaited: Coroutine[Any, Any, Any]) -> None:
        """Await something that needs every player. Raises PlayersError as soon as one has gone."""
        goal = asyncio.create_task(awaited)
        ends = {asyncio.create_task(process.wait()): who for who, process in self._processes.items()}
        done, pending = await asyncio.wait([goal, *ends], return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        if goal not in done:
            raise PlayersError(f"{', '.join(ends[task] for task in done)} ended before its time")

    async def wait(self, who: str) -> int:
        """The exit code of a player, once all that it told has been heard."""
        await asyncio.shield(self._listeners[who])
        return await self._processes[who].wait()

    async def end(self) -> None:
        """End who still runs, and wait until all is heard."""
        for process in self._processes.values():
            if process.returncode is None:
                process.terminate()
        try:
            async with asyncio.timeout(END_SECONDS):
                await asyncio.gather(*(process.wait() for process in self._processes.values()))
        except TimeoutError:
            for process in self._processes.values():
                if process.returncode is None:
                    process.kill()
        await asyncio.gather(*self._listeners.values())

    async def _listen(self, who: str, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.hear(who, heard(line))


def _plain() -> dict[str, str]:
    """This environment without the stack's settings, which name the keys of everybody."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TASKSTATUS_")}
