"""Recoveries: each is recorded once, in the background, and none is lost while the store is away (H-4)."""

from __future__ import annotations

import pytest

from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.standing import ExecutionStanding
from taskstatus.runtime.recoveries import Recoveries, RecoveriesConfig
from tests.unit.factories import a_step, an_id
from tests.unit.health_kit import HealthKit, until
from tests.unit.service_kit import drive, execution_of

BEATING = HealthSign.BEATING


class Back:
    """STALE executions of one task, and what is told of them."""

    def __init__(self, count: int = 1, **config: float) -> None:
        steps = [a_step(step_id=f"{n:02d}_step", execution_id=an_id(700 + n), order=n) for n in range(count)]
        self.kit = HealthKit(*steps)
        self.ids = [execution_of(step) for step in steps]
        self.recoveries = Recoveries(self.kit.overdue_leases, self.kit.changes, RecoveriesConfig(**config))  # type: ignore[arg-type]

    async def all_stale(self) -> None:
        """Silence of a timeout, recorded."""
        self.kit.wait(61)
        await self.kit.changes.record(await self.kit.overdue_leases.overdue(1_000, None))
        assert self.stale == len(self.ids)

    async def beat(self, *executions: ExecutionId) -> None:
        """A beat of each is persisted, and its signal given."""
        standings = await self.kit.persist_beats(*executions)
        for execution_id in executions:
            self.recoveries.beating(standings[execution_id])

    @property
    def stale(self) -> int:
        """STALE steps."""
        return self.kit.only_task().stale_steps

    @property
    def recorded(self) -> int:
        """Recoveries that became facts."""
        return self.kit.health_observer.accepted[BEATING]


async def test_h4_beat_of_a_stale_execution_is_recorded_once_however_often_it_is_told() -> None:
    back = Back()
    await back.all_stale()
    await back.beat(*back.ids)
    await back.beat(*back.ids)
    assert await back.recoveries.run_once() == 1
    await back.beat(*back.ids)
    assert await back.recoveries.run_once() == 0
    assert (back.stale, back.recorded, back.recoveries.waiting) == (0, 1, 0)


async def test_h4_only_those_that_beat_come_back() -> None:
    back = Back(3)
    await back.all_stale()
    await back.beat(back.ids[1])
    await back.recoveries.run_once()
    assert back.stale == 2
    assert not back.kit.step("01_step").stale


async def test_h4_signal_of_a_healthy_or_closed_execution_is_nothing() -> None:
    back = Back(2)
    await back.beat(*back.ids)
    assert await back.recoveries.run_once() == 0
    assert back.kit.health_observer.judged == []


async def test_h4_signal_whose_beat_has_grown_old_is_nothing() -> None:
    back = Back()
    await back.all_stale()
    await back.beat(*back.ids)
    back.kit.wait(61)
    assert await back.recoveries.run_once() == 0
    assert (back.stale, back.recoveries.waiting) == (1, 0)


async def test_h4_recovery_waits_while_the_store_is_away() -> None:
    back = Back()
    await back.all_stale()
    await back.beat(*back.ids)
    back.kit.store.unavailable = True
    assert await back.recoveries.run_once() == 0
    back.kit.store.unavailable = False
    assert back.recoveries.waiting == 1
    assert await back.recoveries.run_once() == 1


@pytest.mark.parametrize("reason", [Reason.UNAVAILABLE, Reason.RATE_LIMITED, Reason.INTERNAL])
async def test_h4_recovery_that_was_not_judged_is_submitted_again(reason: Reason) -> None:
    back = Back()
    await back.all_stale()
    await back.beat(*back.ids)
    back.kit.writer.refuse_with = reason
    assert await back.recoveries.run_once() == 0
    back.kit.writer.refuse_with = None
    assert await back.recoveries.run_once() == 1


async def test_h5_recoveries_go_by_the_batch_and_memory_is_bounded() -> None:
    back = Back(5, batch=2, max_waiting=4)
    await back.all_stale()
    await back.beat(*back.ids)
    assert back.recoveries.waiting == 4
    assert [await back.recoveries.run_once() for _ in range(3)] == [2, 2, 0]
    await back.beat(back.ids[4])
    assert await back.recoveries.run_once() == 1
    assert back.stale == 0


async def test_h4_loop_records_more_than_one_batch_and_ends() -> None:
    back = Back(5, batch=2)
    await back.all_stale()
    back.recoveries.start()
    await back.beat(*back.ids)
    await until(lambda: back.stale == 0)
    await back.recoveries.stop()
    await back.recoveries.stop()
    assert back.recorded == 5


async def test_h4_loop_goes_on_after_an_outage() -> None:
    back = Back(retry_seconds=1e-6)
    await back.all_stale()
    await back.beat(*back.ids)
    back.kit.writer.refuse_with = Reason.UNAVAILABLE
    back.recoveries.start()
    await until(lambda: len(back.kit.writer.commands) > 3)
    back.kit.writer.refuse_with = None
    await until(lambda: back.stale == 0)
    await back.recoveries.stop()


async def test_h4_what_is_told_before_the_end_is_recorded_by_it() -> None:
    back = Back()
    await back.all_stale()
    back.recoveries.start()
    await back.beat(*back.ids)
    await back.recoveries.stop()
    assert back.recorded == 1


async def test_n1_fault_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    back = Back()
    await back.all_stale()
    tables, back.kit.overdue_leases._tables = back.kit.overdue_leases._tables, None  # type: ignore[assignment]
    back.recoveries.start()
    back.recoveries.beating(_standing(back))
    await until(lambda: "recoveries could not be recorded" in caplog.text)
    back.kit.overdue_leases._tables = tables
    await back.beat(*back.ids)
    await until(lambda: back.stale == 0)
    await back.recoveries.stop()


def _standing(back: Back) -> ExecutionStanding:
    return drive(back.kit.lease_store.standings(back.ids))[back.ids[0]]


@pytest.mark.parametrize("config", [{"max_waiting": 0}, {"batch": 0}, {"retry_seconds": 0.0}])
def test_h4_config_that_cannot_work_is_refused(config: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        RecoveriesConfig(**config)  # type: ignore[arg-type]
