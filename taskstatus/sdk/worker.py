"""The worker's side: one execution from its start to its end.

Leaving ``execution`` reports the outcome: an exception is reported as the step's failure and goes on to the caller, a
normal end as its completion. A body that is cancelled reports nothing: the process is going away, and whether the work
is lost is for the coordinator to rule.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from taskstatus.sdk.answers import ReportAnswer
from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.credential import ExecutionCredential
from taskstatus.sdk.errors import PreconditionFailedError, TaskStatusError
from taskstatus.sdk.event_ids import EventIds, random_event_ids
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
        credential = ExecutionCredential(self._connection, context)
        return Reporter(self._connection, context, credential, await credential.bind(), self._event_ids)

    @asynccontextmanager
    async def execution(self, context: ExecutionContext) -> AsyncIterator[Reporter]:
        """Bind, report the start, and on leaving report how it ended, unless the body did.

        Raises as :meth:`bind`, also when the execution ends between the two.
        """
        reporter = await self.bind(context)
        _require_wanted(await reporter.started())
        try:
            yield reporter
        except Exception as error:
            if not reporter.ended:
                await _report_failure(reporter, error)
            raise
        if not reporter.ended:
            await reporter.completed()


def _require_wanted(answer: ReportAnswer) -> None:
    if answer.must_stop:
        raise PreconditionFailedError(answer.reason, "the execution is over")


async def _report_failure(reporter: Reporter, error: Exception) -> None:
    """Report, and leave the work's own exception the one that the caller sees."""
    try:
        await reporter.failed(error)
    except TaskStatusError as undelivered:
        logger.warning("the failure of %s was not delivered: %s", reporter.context.execution_id, undelivered)
        error.add_note(f"taskstatus: this failure was not delivered: {undelivered}")
