"""The audit of rejected reports: bounded, in batches, never in the way (N-4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from taskstatus.application.ports_audit import RejectedReport
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.reasons import Reason
from taskstatus.runtime.audit_writer import AuditConfig, AuditWriter
from tests.unit.service_kit import FakeClock

REPORT = RejectedReport("t", "s", "p", "grpc", Reason.TOKEN_MISMATCH, "evt-1", "STEP_STARTED", None, "", None, 1.0)


@dataclass
class AuditTableFake:
    """Keeps batches, or is down."""

    batches: list[int] = field(default_factory=list)
    cleaned_before: list[float] = field(default_factory=list)
    down: bool = False

    async def append(self, reports: Sequence[RejectedReport]) -> None:
        if self.down:
            raise StoreUnavailableError("down")
        self.batches.append(len(reports))

    async def clean(self, before_unix: float, limit: int) -> int:
        self.cleaned_before.append(before_unix)
        return 0


@pytest.fixture
def table() -> AuditTableFake:
    return AuditTableFake()


def writer(table: AuditTableFake, dropped: list[int], **sizes: int) -> AuditWriter:
    return AuditWriter(table, FakeClock(), dropped.append, AuditConfig(**sizes))  # type: ignore[arg-type]


async def test_n4_records_are_written_in_batches_in_order(table: AuditTableFake) -> None:
    audit = writer(table, [], batch=2)
    for _ in range(3):
        audit.record(REPORT)
    assert [await audit.run_once(), await audit.run_once(), await audit.run_once()] == [2, 1, 0]
    assert table.batches == [2, 1]


async def test_n4_a_full_queue_drops_and_counts(table: AuditTableFake) -> None:
    dropped: list[int] = []
    audit = writer(table, dropped, max_queued=1)
    audit.record(REPORT)
    audit.record(REPORT)
    assert dropped == [1]
    assert await audit.run_once() == 1


async def test_n4_a_store_that_is_down_costs_the_batch_and_nothing_else(table: AuditTableFake) -> None:
    dropped: list[int] = []
    audit = writer(table, dropped)
    audit.record(REPORT)
    table.down = True
    assert await audit.run_once() == 0
    table.down = False
    audit.record(REPORT)
    assert await audit.run_once() == 1
    assert dropped == [1]


async def test_n4_stop_writes_what_is_queued_and_may_be_called_twice(table: AuditTableFake) -> None:
    audit = writer(table, [])
    audit.start()
    audit.record(REPORT)
    await audit.stop()
    await audit.stop()
    assert table.batches == [1]


async def test_n4_old_records_are_cleaned_by_the_retention(table: AuditTableFake) -> None:
    audit = AuditWriter(table, FakeClock(), [].append, AuditConfig(retention_seconds=60.0))
    await audit.run_once()
    assert table.cleaned_before == [FakeClock().unix_seconds() - 60.0]
