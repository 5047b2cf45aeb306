"""The work's own way between coordinator and workers: JSON lines on a Unix socket. No status travels here (design 3.4).

A worker says hello with its operation; then the coordinator asks and the worker answers, one at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

LINE_MAX_BYTES: Final = 1024 * 1024

Message = dict[str, Any]
Answerer = Callable[[Message], Awaitable[Message]]


class HandoverError(Exception):
    """The other side went away or spoke nonsense."""


@dataclass
class Exchange:
    """The coordinator's end: one line to each worker, by operation."""

    _lines: dict[str, _Line] = field(default_factory=dict)
    _arrival: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def listen(self, socket: Path) -> asyncio.Server:
        """Take workers in."""
        return await asyncio.start_unix_server(self._greet, socket, limit=LINE_MAX_BYTES)

    async def complete(self, operations: set[str]) -> None:
        """Return when a worker of each operation is here."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: operations <= self._lines.keys())

    async def ask(self, operation: str, question: Message) -> Message:
        """The worker's answer. Raises HandoverError when it goes away."""
        line = self._lines[operation]
        await line.send(question)
        return await line.receive()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = _Line(reader, writer)
        hello = await line.receive()
        async with self._arrival:
            self._lines[hello["operation"]] = line
            self._arrival.notify_all()


async def serve_work(socket: Path, operation: str, answer: Answerer) -> None:
    """The worker's end: answer questions until the coordinator goes away."""
    line = _Line(*await asyncio.open_unix_connection(socket, limit=LINE_MAX_BYTES))
    await line.send({"operation": operation})
    while True:
        try:
            question = await line.receive()
        except HandoverError:
            return
        await line.send(await answer(question))


@dataclass
class _Line:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, message: Message) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")
        try:
            await self.writer.drain()
        except ConnectionError as error:
            raise HandoverError("the other side has gone") from error

    async def receive(self) -> Message:
        try:
            line = await self.reader.readline()
        except (ConnectionError, ValueError) as error:
            raise HandoverError(str(error)) from error
        if not line:
            raise HandoverError("the other side has gone")
        message: Message = json.loads(line)
        return message
