"""What became of each claimed row, and how that is written down under the claim's fence (O-1, O-2)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, assert_never

from relay.config import RelayConfig
from relay.metrics import RelayMetrics
from relay.pacing import Pacing
from relay.publisher import Outcome, Permanent, Published, Retryable
from relay.rows import Claim, ClaimedRow, Outbox, OutboxUnavailableError
from relay.tracing import span_context
from taskstatus.domain.ids import format_task_id, format_workflow_id
from taskstatus.domain.records import AggregateType

_logger = logging.getLogger(__name__)

MARK_ATTEMPTS: Final = 3
"""A mark that fails makes its rows be published again after the lease, so it is tried again at once."""
MARK_RETRY_SECONDS: Final = 0.05

Pause = Callable[[float], Awaitable[None]]
Mark = Callable[[], Awaitable[int]]


@dataclass(slots=True)
class Settlement:
    """The fates collected in one turn; every claimed row is in exactly one list when the turn ends."""

    published: list[ClaimedRow] = field(default_factory=list)
    failed: list[tuple[ClaimedRow, Outcome]] = field(default_factory=list)
    released: list[ClaimedRow] = field(default_factory=list)

    def add(self, rows: Iterable[ClaimedRow], outcome: Outcome) -> None:
        """Note one outcome for some rows."""
        match outcome:
            case Published():
                self.published.extend(rows)
            case Retryable() | Permanent():
                self.failed.extend((row, outcome) for row in rows)
            case _:
                assert_never(outcome)


class Settler:
    """Writes a settlement: published, released, resting after a failure, or DEAD."""

    def __init__(
        self, outbox: Outbox, config: RelayConfig, pacing: Pacing, metrics: RelayMetrics, pause: Pause
    ) -> None:
        self._outbox = outbox
        self._config = config
        self._pacing = pacing
        self._metrics = metrics
        self._pause = pause

    async def settle(self, claim: Claim, settlement: Settlement) -> None:
        """Mark every row, the published ones first. Raises OutboxUnavailableError when marking keeps failing."""
        token, outbox = claim.token, self._outbox
        published, released = settlement.published, settlement.released
        await self._mark(published, lambda: outbox.mark_published(token, published))
        await self._mark(released, lambda: outbox.release(token, released, self._pacing.wait_seconds))
        retry, dead = self._sort_failures(settlement.failed)
        for (failures, cause), rows in retry.items():
            await self._mark_failed(token, rows, failures, cause)
        for cause, rows in dead.items():
            await self._mark_dead(token, rows, cause)

    def _sort_failures(
        self, failed: Iterable[tuple[ClaimedRow, Outcome]]
    ) -> tuple[dict[tuple[int, str], list[ClaimedRow]], dict[str, list[ClaimedRow]]]:
        """Rows that rest, by (failures so far, cause), and rows that die, by cause: one statement for each group."""
        retry: defaultdict[tuple[int, str], list[ClaimedRow]] = defaultdict(list)
        dead: defaultdict[str, list[ClaimedRow]] = defaultdict(list)
        for row, outcome in failed:
            failures = row.failures + 1
            if isinstance(outcome, Permanent):
                self._metrics.failures.labels("permanent").inc()
                dead[outcome.cause].append(row)
            elif isinstance(outcome, Retryable) and failures >= self._config.failure_budget:
                self._metrics.failures.labels("exhausted").inc()
                dead[f"gave up after {failures} failures: {outcome.cause}"].append(row)
            elif isinstance(outcome, Retryable):
                self._metrics.failures.labels("retryable").inc()
                retry[failures, outcome.cause].append(row)
        return retry, dead

    async def _mark_failed(self, token: bytes, rows: list[ClaimedRow], failures: int, cause: str) -> None:
        delay = self._pacing.backoff(failures)
        await self._mark(rows, lambda: self._outbox.mark_failed(token, rows, delay, cause))
        for row in rows:
            _logger.warning(
                "not published, will be tried again", extra=log_fields(row) | {"cause": cause, "failures": failures}
            )

    async def _mark_dead(self, token: bytes, rows: list[ClaimedRow], cause: str) -> None:
        await self._mark(rows, lambda: self._outbox.mark_dead(token, rows, cause))
        for row in rows:
            _logger.error("DEAD: will not be published", extra=log_fields(row) | {"cause": cause})

    async def _mark(self, rows: list[ClaimedRow], mark: Mark) -> None:
        if not rows:
            return
        fenced = len(rows) - await self._persistently(mark)
        if fenced > 0:
            self._metrics.fenced.inc(fenced)
            _logger.warning("rows were taken by another relay after our lease", extra={"rows": fenced})

    async def _persistently(self, mark: Mark) -> int:
        for attempt in range(1, MARK_ATTEMPTS):
            try:
                return await mark()
            except OutboxUnavailableError as error:
                _logger.warning("marking failed, trying again", extra={"attempt": attempt, "cause": str(error)})
                await self._pause(MARK_RETRY_SECONDS * attempt)
        return await mark()


def log_fields(row: ClaimedRow) -> dict[str, object]:
    """The fields by which a row is found in the logs (names.md *Logs*)."""
    context = span_context(row.traceparent)
    fields: dict[str, object] = {"outboxId": row.outbox_id.hex(), "projection": row.projection}
    if context is not None:
        fields["traceId"] = f"{context.trace_id:032x}"
    if row.aggregate_type == AggregateType.TASK:
        return fields | {"taskId": format_task_id(row.aggregate_id), "taskVersion": row.aggregate_version}
    return fields | {"workflowId": format_workflow_id(row.aggregate_id), "workflowVersion": row.aggregate_version}
