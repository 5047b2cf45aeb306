"""The worker's side: one execution from its start to its end.

Leaving ``execution`` reports the outcome: an exception is reported as the step's failure and goes on to the caller, a
normal end as its completion. A body that stops because of ``cancel_requested`` says so by ``cancelled()`` before it
leaves. A body that is cancelled itself reports nothing: the process is going away, and whether the work is lost is for
the coordinator to rule.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from taskstatus.sdk.answers import ReportAnswer
from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.credential import ExecutionCredential
from taskstatus.sdk.errors import PreconditionFailedError, TaskStatusError
from taskstatus.sdk.event_ids import EventIds, random_event_ids
from taskstatus.sdk.heartbeats import Heartbeats
from taskstatus.sdk.reporter import Reporter

logger = logging.getLogger(__name__)


class Worker:
    """Binds executions over one connection; any number of them may run at the same time."""

    def __init__(self, connection: Connection, *, event_ids: EventIds = random_event_ids) -> None:
        self._connection = connection
        self._event_ids = event_ids

    async def bind(self, context: ExecutionContext) -> Reporter:
        """A reporter that has told nothing yet; after a restart it goes on in the execution's own sequence.

        Raises PreconditionFailedError STALE_ATTEMPT or TERMINAL when the execution is over: do not start the work.
        """
        return (await self._bind(context))[0]

    async def _bind(self, context: ExecutionContext) -> tuple[Reporter, Heartbeats]:
        credential = ExecutionCredential(self._connection, context)
        position = await credential.bind()
        heartbeats = Heartbeats(self._connection, context, credential)
        return Reporter(self._connection, context, credential, position, self._event_ids, heartbeats), heartbeats

    @asynccontextmanager
    async def execution(self, context: ExecutionContext) -> AsyncIterator[Reporter]:
        """Bind, report the start, beat while the body runs, and on leaving report how it ended, unless the body did.

        The beats go on until the end is answered. Raises as :meth:`bind`, also when the execution ends between the two.
        """
        reporter, heartbeats = await self._bind(context)
        require_wanted(await reporter.started())
        heartbeats.start()
        try:
            async with ending(reporter):
                yield reporter
        finally:
            await heartbeats.stop()


class Facts(Protocol):
    """How an execution's end is told, by calls or by a stream."""

    context: ExecutionContext

    @property
    def ended(self) -> bool:
        """Whether its end was reported."""
        ...

    async def completed(self) -> ReportAnswer:
        """It succeeded."""
        ...

    async def failed(self, error: BaseException) -> ReportAnswer:
        """It failed."""
        ...


@asynccontextmanager
async def ending(reporter: Facts) -> AsyncIterator[None]:
    """On leaving report how it ended, unless the body did."""
    try:
        yield
    except Exception as error:
        if not reporter.ended:
            await _report_failure(reporter, error)
        raise
    if not reporter.ended:
        await reporter.completed()


def require_wanted(answer: ReportAnswer) -> None:
    """Raises PreconditionFailedError when the answer says that the execution is over."""
    if answer.must_stop:
        raise PreconditionFailedError(answer.reason, "the execution is over")


async def _report_failure(reporter: Facts, error: Exception) -> None:
    """Report, and leave the work's own exception the one that the caller sees."""
    try:
        await reporter.failed(error)
    except TaskStatusError as undelivered:
        logger.warning("the failure of %s was not delivered: %s", reporter.context.execution_id, undelivered)
        error.add_note(f"taskstatus: this failure was not delivered: {undelivered}")
