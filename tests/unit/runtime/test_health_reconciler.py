"""The reconciler's rounds: what it believes, when it holds back, whom it asks a second time (H-4, H-5, H-6, H-8)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pytest

from taskstatus.adapters.memory.health import MemoryStuckWork
from taskstatus.application.ports_health import HealthCandidate, StuckCause, WorkerProbe
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import StepState
from taskstatus.runtime.health_reconciler import HealthReconciler, ReconcilerConfig
from tests.unit.factories import EXECUTION_ID, a_step, an_id
from tests.unit.health_kit import HealthKit, until
from tests.unit.service_kit import CountingRandomness

SILENT, BEATING, LOST = HealthSign.SILENT, HealthSign.BEATING, HealthSign.LOST


def many(count: int) -> list[StepState]:
    """So many steps of one task."""
    return [a_step(step_id=f"{n:02d}_step", execution_id=an_id(700 + n), order=n) for n in range(count)]


class Watch:
    """A reconciler over a health kit; the clocks move together."""

    def __init__(self, *steps: StepState, probe: WorkerProbe | None = None, **config: float) -> None:
        self.kit = HealthKit(*steps)
        self.observer = self.kit.health_observer
        self.reconciler = HealthReconciler(
            self.kit.overdue_leases,
            self.kit.changes,
            MemoryStuckWork(self.kit.store),
            self.kit.clock,
            CountingRandomness(),
            self.observer,
            ReconcilerConfig(**config),  # type: ignore[arg-type]
            probe,
        )

    async def rounds_for(self, seconds: int) -> None:
        """A round every five seconds."""
        for _ in range(seconds // 5):
            self.kit.wait(5)
            await self.reconciler.run_once()

    @property
    def stale(self) -> int:
        """STALE steps."""
        return self.kit.only_task().stale_steps


@pytest.fixture
async def trusting() -> Watch:
    """One that believes silence at once."""
    return Watch(grace_seconds=0)


async def test_h4_round_records_what_is_overdue_and_counts_it(trusting: Watch) -> None:
    trusting.kit.wait(61)
    assert await trusting.reconciler.run_once() == 1
    assert await trusting.reconciler.run_once() == 0
    assert trusting.stale == 1
    assert trusting.observer.judged == [(SILENT, "accepted")]
    assert trusting.observer.scanned == [(1, 0), (0, 0)]


async def test_h4_second_replica_finds_it_recorded(trusting: Watch) -> None:
    kit = trusting.kit
    kit.wait(61)
    seen = await kit.overdue_leases.overdue(100, None)
    await trusting.reconciler.run_once()

    await kit.changes.record(seen)

    assert trusting.observer.judged == [(SILENT, "accepted"), (SILENT, "duplicate")]
    assert trusting.stale == 1


async def test_h5_silence_and_its_escalation_are_told_once_each(trusting: Watch) -> None:
    for _ in range(40):
        trusting.kit.wait(20)
        await trusting.reconciler.run_once()
    assert trusting.observer.accepted == {SILENT: 1, LOST: 1}


async def test_h5_beat_that_no_signal_told_of_ends_stale_instead_of_escalating(trusting: Watch) -> None:
    trusting.kit.wait(61)
    await trusting.reconciler.run_once()
    trusting.kit.wait(280)
    trusting.kit.beat(1)
    trusting.kit.wait(21)
    await trusting.reconciler.run_once()
    assert trusting.observer.accepted == {SILENT: 1, BEATING: 1}


async def test_h5_after_its_own_start_silence_is_held_back_for_the_grace() -> None:
    watch = Watch()
    watch.kit.wait(3600)  # while no service ran at all
    await watch.reconciler.run_once()
    await watch.rounds_for(55)
    assert (watch.stale, watch.observer.scanned[-1]) == (0, (1, 1))

    await watch.rounds_for(5)

    assert watch.stale == 1


async def test_h5_beats_in_the_grace_leave_nothing_to_tell() -> None:
    watch = Watch()
    watch.kit.wait(3600)
    await watch.reconciler.run_once()
    await watch.rounds_for(40)
    watch.kit.beat(1)
    await watch.rounds_for(55)
    assert watch.kit.health_events() == []


async def test_h5_worker_that_may_be_silent_for_longer_is_given_as_long_after_a_start() -> None:
    watch = Watch(a_step(heartbeat_timeout_seconds=300))
    watch.kit.wait(3600)
    await watch.reconciler.run_once()
    await watch.rounds_for(295)
    assert watch.stale == 0
    await watch.rounds_for(5)
    assert watch.stale == 1


async def test_h5_mass_silence_after_an_outage_of_the_store_is_held_back() -> None:
    watch = Watch(*many(20))
    await watch.reconciler.run_once()
    await watch.rounds_for(45)
    watch.kit.store.unavailable = True
    await watch.rounds_for(120)
    watch.kit.store.unavailable = False
    await watch.rounds_for(50)
    assert (watch.stale, watch.observer.scanned[-1]) == (0, (20, 20))

    await watch.rounds_for(10)

    assert watch.stale == 20


async def test_h5_failure_to_write_begins_the_grace_anew() -> None:
    watch = Watch(grace_seconds=60)
    await watch.reconciler.run_once()
    watch.kit.writer.refuse_with = Reason.UNAVAILABLE
    await watch.rounds_for(90)
    watch.kit.writer.refuse_with = None
    await watch.rounds_for(25)
    assert watch.stale == 0
    await watch.rounds_for(60)
    assert watch.stale == 1


async def test_h5_full_lanes_are_no_outage() -> None:
    watch = Watch()
    await watch.reconciler.run_once()
    await watch.rounds_for(55)
    watch.kit.writer.refuse_with = Reason.RATE_LIMITED
    await watch.rounds_for(10)
    watch.kit.writer.refuse_with = None
    await watch.rounds_for(5)
    assert watch.stale == 1


async def test_h5_stall_of_this_process_begins_the_grace_anew() -> None:
    watch = Watch()
    await watch.reconciler.run_once()
    await watch.rounds_for(40)
    watch.kit.wait(30)
    await watch.reconciler.run_once()
    assert (watch.stale, watch.observer.scanned[-1]) == (0, (1, 1))
    await watch.rounds_for(60)
    assert watch.stale == 1


async def test_h5_escalation_is_held_back_like_silence() -> None:
    watch = Watch()
    await watch.reconciler.run_once()
    await watch.rounds_for(65)
    watch.kit.wait(3600)
    await watch.reconciler.run_once()
    assert watch.observer.accepted == {SILENT: 1}
    await watch.rounds_for(60)
    assert watch.observer.accepted == {SILENT: 1, LOST: 1}


async def test_h5_recovery_is_never_held_back() -> None:
    watch = Watch()
    await watch.reconciler.run_once()
    await watch.rounds_for(65)
    watch.kit.wait(280)
    watch.kit.beat(1)
    watch.kit.wait(21)
    await watch.reconciler.run_once()
    assert watch.observer.accepted == {SILENT: 1, BEATING: 1}


async def test_h5_round_is_bounded_and_the_next_goes_on_behind_it() -> None:
    watch = Watch(*many(5), grace_seconds=0, batch=2)
    watch.kit.wait(61)
    assert [await watch.reconciler.run_once() for _ in range(4)] == [2, 2, 1, 0]


async def test_h5_leases_that_are_held_back_do_not_hide_others() -> None:
    """Two patient workers stand first in the order of deadlines, and fill a whole batch."""
    patient = [
        a_step(step_id=f"{n}_slow", execution_id=an_id(800 + n), order=n, heartbeat_timeout_seconds=240) for n in (1, 2)
    ]
    watch = Watch(*patient, batch=2)
    quick = a_step(step_id="9_quick", execution_id=an_id(899), order=9)
    watch.kit.wait(3600)
    await watch.reconciler.run_once()
    watch.kit.put_running(quick)
    watch.kit.wait(5)
    for _ in range(24):
        await watch.rounds_for(5)
    assert watch.kit.step("9_quick").stale
    assert not watch.kit.step("1_slow").stale


@dataclass
class Probe:
    """Finds some workers alive, or fails."""

    living: set[ExecutionId] = field(default_factory=set)
    fails: bool = False
    hangs: bool = False
    asked: list[ExecutionId] = field(default_factory=list)

    async def alive(self, candidates: Sequence[HealthCandidate]) -> Collection[ExecutionId]:
        """See the port."""
        self.asked += [candidate.execution_id for candidate in candidates]
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise ConnectionError("the second way is broken")
        return self.living


async def test_h6_worker_found_alive_by_the_second_check_is_not_stale() -> None:
    watch = Watch(grace_seconds=0, probe=Probe(living={EXECUTION_ID}))
    watch.kit.wait(61)

    assert await watch.reconciler.run_once() == 0

    assert watch.stale == 0
    assert watch.observer.probed == [(1, 0)]


async def test_h6_only_silence_is_asked_about() -> None:
    probe = Probe()
    watch = Watch(grace_seconds=0, probe=probe)
    watch.kit.wait(61)
    await watch.reconciler.run_once()
    watch.kit.wait(295)
    await watch.reconciler.run_once()
    watch.kit.wait(6)
    await watch.reconciler.run_once()
    assert watch.observer.accepted == {SILENT: 1, LOST: 1}
    assert probe.asked == [EXECUTION_ID]


async def test_h6_answer_about_somebody_else_keeps_nobody_from_being_stale() -> None:
    watch = Watch(grace_seconds=0, probe=Probe(living={ExecutionId(an_id(77))}))
    watch.kit.wait(61)
    await watch.reconciler.run_once()
    assert (watch.stale, watch.observer.probed) == (1, [(0, 1)])


@pytest.mark.parametrize("probe", [Probe(fails=True), Probe(hangs=True)], ids=["fails", "hangs"])
async def test_h6_second_check_without_an_answer_keeps_no_silence_from_being_told(probe: Probe) -> None:
    watch = Watch(grace_seconds=0, probe_seconds=0.01, probe=probe)
    watch.kit.wait(61)
    assert await watch.reconciler.run_once() == 1


async def test_h6_worker_in_the_grace_is_not_asked() -> None:
    probe = Probe()
    watch = Watch(probe=probe)
    watch.kit.wait(61)
    await watch.reconciler.run_once()
    assert probe.asked == []


async def test_h6_worker_is_asked_ahead_of_its_deadline_and_not_before_long_silence() -> None:
    probe = Probe()
    watch = Watch(grace_seconds=0, probe=probe)
    watch.kit.wait(49)
    await watch.reconciler.run_once()
    assert probe.asked == []
    watch.kit.wait(2)
    await watch.reconciler.run_once()
    assert (probe.asked, watch.stale) == ([EXECUTION_ID], 0)


async def test_h6_worker_of_a_short_timeout_is_asked_in_its_last_quarter_only() -> None:
    probe = Probe()
    watch = Watch(a_step(heartbeat_timeout_seconds=20), grace_seconds=0, probe=probe)
    watch.kit.wait(14)
    await watch.reconciler.run_once()
    assert probe.asked == []
    watch.kit.wait(2)
    await watch.reconciler.run_once()
    assert probe.asked == [EXECUTION_ID]


async def test_h6_asking_ahead_is_bounded_and_goes_on_behind_it() -> None:
    probe = Probe()
    watch = Watch(*many(5), grace_seconds=0, ask_ahead_batch=2, probe=probe)
    watch.kit.wait(51)
    for _ in range(3):
        await watch.reconciler.run_once()
    assert sorted(probe.asked) == [ExecutionId(an_id(700 + n)) for n in range(5)]


async def test_h6_store_that_cannot_tell_who_is_near_keeps_no_silence_from_being_told() -> None:
    watch = Watch(grace_seconds=0, probe=Probe())
    watch.kit.wait(61)

    async def unavailable(*_: object) -> Sequence[HealthCandidate]:
        raise StoreUnavailableError("gone between two reads")

    watch.kit.overdue_leases.nearly = unavailable  # type: ignore[assignment,method-assign]
    assert await watch.reconciler.run_once() == 1


async def test_h8_stuck_work_is_counted_by_cause() -> None:
    watch = Watch(a_step(max_run_seconds=10), grace_seconds=0)
    watch.kit.wait(20)
    await watch.reconciler.count_stuck()
    counts = watch.observer.stuck[-1]
    assert counts == {cause: int(cause is StuckCause.OVER_RUN_TIME) for cause in StuckCause}


async def test_h8_store_that_is_away_leaves_the_last_count(trusting: Watch) -> None:
    trusting.kit.store.unavailable = True
    await trusting.reconciler.count_stuck()
    assert trusting.observer.stuck == []


async def test_h4_loop_looks_counts_and_ends(trusting: Watch) -> None:
    trusting.kit.wait(61)
    trusting.reconciler.start()
    await until(lambda: trusting.observer.stuck)
    await trusting.reconciler.stop()
    await trusting.reconciler.stop()
    assert trusting.stale == 1


async def test_h4_loop_that_was_never_started_stops(trusting: Watch) -> None:
    await trusting.reconciler.stop()
    assert trusting.observer.scanned == []


async def test_n1_fault_in_a_round_does_not_end_the_loop(trusting: Watch, caplog: pytest.LogCaptureFixture) -> None:
    trusting.kit.wait(61)
    tables, trusting.kit.overdue_leases._tables = trusting.kit.overdue_leases._tables, None  # type: ignore[assignment]
    reconciler = HealthReconciler(
        trusting.kit.overdue_leases,
        trusting.kit.changes,
        MemoryStuckWork(trusting.kit.store),
        trusting.kit.clock,
        CountingRandomness(),
        trusting.observer,
        ReconcilerConfig(grace_seconds=0, idle_pause_seconds=1e-9, busy_pause_seconds=1e-9),
    )
    reconciler.start()
    await until(lambda: "a round of the health reconciler failed" in caplog.text)
    trusting.kit.overdue_leases._tables = tables
    await until(lambda: trusting.stale)
    await reconciler.stop()


@pytest.mark.parametrize(
    "config",
    [
        {"batch": 0},
        {"ask_ahead_batch": 0},
        {"grace_seconds": -1.0},
        {"idle_pause_seconds": 0.0},
        {"probe_seconds": 0.0},
        {"stall_seconds": 5.0},
    ],
)
def test_h5_config_that_cannot_work_is_refused(config: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ReconcilerConfig(**config)  # type: ignore[arg-type]
