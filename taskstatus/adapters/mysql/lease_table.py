"""``task_execution_lease`` as heartbeats see it (port ``LeaseStore``): a few statements per persist period (H-2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from taskstatus.adapters.mysql import hot_sql, rows_standing
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.session import Row, Session
from taskstatus.adapters.mysql.statements import Parameters, cut_keys, filled_up, flatten
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.application.ports_heartbeats import MAX_PERSISTED_BEATS, Beat
from taskstatus.application.ports_store import TransactionAttempt
from taskstatus.domain.ids import ExecutionId, bucket_of_id
from taskstatus.domain.standing import ExecutionStanding

MICROSECONDS = 1_000_000


class LeaseTable:
    """Writes by the store's transactions, of one statement each, and reads by the reader, without locks.

    A transaction locks leases only, sorted, so that it has its place in ``LOCK_ORDER`` and waits for no task. As with
    ``MySqlTaskStore``, callers shield it from their cancellation.
    """

    def __init__(self, store: MySqlTaskStore, reader: MySqlTaskReader) -> None:
        self._store = store
        self._reader = reader

    async def standings(self, execution_ids: Sequence[ExecutionId]) -> Mapping[ExecutionId, ExecutionStanding]:
        """See the port."""
        ids = sorted(set(execution_ids))

        async def read(session: Session) -> list[Row]:
            rows: list[Row] = []
            for group in cut_keys(ids):
                parameters = (*group, *map(bucket_of_id, group))
                rows.extend(await session.rows(hot_sql.standings(len(group)), parameters))
            return rows

        found = map(rows_standing.from_row, await self._reader.read(read)) if ids else ()
        return {standing.execution_id: standing for standing in found}

    async def persist(
        self, beats: Sequence[Beat], monotonic_now: Callable[[], float]
    ) -> Mapping[ExecutionId, ExecutionStanding]:
        """See the port."""
        latest = sorted({beat.execution_id: beat for beat in beats}.values(), key=_execution_of)
        for first in range(0, len(latest), MAX_PERSISTED_BEATS):
            await self._write(latest[first : first + MAX_PERSISTED_BEATS], monotonic_now)
        return await self.standings([beat.execution_id for beat in latest])

    async def _write(self, beats: Sequence[Beat], monotonic_now: Callable[[], float]) -> None:
        beats = filled_up(beats)
        statement = hot_sql.persist_beats(len(beats))

        async def write(session: Session, _attempt: TransactionAttempt) -> None:
            # Read in every attempt: a beat that had to wait for the next one has waited longer.
            now = monotonic_now()
            await session.change(statement, flatten([_row(beat, now) for beat in beats]))

        await self._store.run(write)


def _row(beat: Beat, now: float) -> Parameters:
    waited = max(0, round((now - beat.received_monotonic) * MICROSECONDS))
    return (
        bucket_of_id(beat.execution_id),
        beat.execution_id,
        beat.heartbeat_seq,
        waited,
        beat.interval_seconds,
        beat.timeout_seconds,
    )


def _execution_of(beat: Beat) -> ExecutionId:
    return beat.execution_id
