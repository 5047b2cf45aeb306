"""The coordinator's own ``sourceSeq``, one per task and run (E-5): counted here, restored from the timeline."""

from __future__ import annotations

import asyncio

from taskstatus_pb.v1 import query_service_pb2

from taskstatus.sdk.connection import Connection

PAGE = 500


class TaskSequences:
    """Next numbers of the task events of one producer."""

    def __init__(self, connection: Connection, producer_id: str) -> None:
        self._connection = connection
        self._producer_id = producer_id
        self._last: dict[str, int] = {}
        self._reading = asyncio.Lock()

    async def next(self, task_id: str) -> int:
        """The next number; the first time in this process the timeline tells the last one. Raises TaskStatusError."""
        async with self._reading:
            if task_id not in self._last:
                self._last[task_id] = await self._last_committed(task_id)
            self._last[task_id] += 1
            return self._last[task_id]

    def give_back(self, task_id: str, number: int) -> None:
        """The number was surely not taken; it is given out again unless a later one is in use."""
        if self._last.get(task_id) == number:
            self._last[task_id] = number - 1

    def forget(self, task_id: str) -> None:
        """Nothing more will be reported for the task."""
        self._last.pop(task_id, None)

    async def _last_committed(self, task_id: str) -> int:
        # Of every run: a number that a later run used again would make the same deterministic event id name two facts.
        last, after, more = 0, 0, True
        while more:
            request = query_service_pb2.ListTaskEventsRequest(task_id=task_id, after_task_version=after, limit=PAGE)
            page = await self._connection.call(self._connection.query.ListTaskEvents, request)
            for event in page.events:
                after = event.task_version
                if event.producer_id == self._producer_id and not event.execution_id:
                    last = max(last, event.source_seq)
            more = page.has_more and bool(page.events)
        return last
