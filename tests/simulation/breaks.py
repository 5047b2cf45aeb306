"""Ways to break the product, one at a time, each with the validator that must tell it: is the simulation any good?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from relay import rendering
from relay.publisher import Publication
from relay.rows import Claim
from relay.settling import Settlement, Settler
from taskstatus.adapters.memory import lease_store
from taskstatus.adapters.memory.lease_store import MemoryLeaseStore
from taskstatus.adapters.memory.tables import Tables
from taskstatus.application import health
from taskstatus.application.call_group import CallGroup
from taskstatus.application.ports_heartbeats import Beat
from taskstatus.domain import activation, batch, decide, guards, health_changes, health_guards, heartbeat
from taskstatus.domain.commands import TaskEventCommand
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.evolve import with_step_counted, with_version
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.notifications import OutboxTools, aggregate_trigger, task_notifications
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet, OutboxRecord
from taskstatus.domain.state import StepState, TaskState
from taskstatus.domain.verdicts import Refused, Verdict
from taskstatus.runtime import batch_commit
from taskstatus.runtime.health_reconciler import HealthReconciler
from taskstatus.runtime.heartbeat_coalescer import HeartbeatCoalescer
from taskstatus.runtime.recoveries import Recoveries
from tests.simulation import command_breaks
from tests.simulation.outbox import OutboxTable


@dataclass(frozen=True, slots=True)
class Break:
    """One damage and the validator that must speak."""

    damage: Callable[[pytest.MonkeyPatch], None]
    validator: str
    seeds: int = 40
    """Within so many it must be found."""


def _without_guards(patch: pytest.MonkeyPatch, *names: str) -> None:
    patch.setattr(guards, "GUARDS", tuple(guard for guard in guards.GUARDS if guard.name not in names))


def forget_event_ids(patch: pytest.MonkeyPatch) -> None:
    """E-3: the dedup guard is gone."""
    _without_guards(patch, "event id is new")


def take_events_twice(patch: pytest.MonkeyPatch) -> None:
    """E-3, E-5: neither the id nor the sequence is looked at, and the tables take what comes."""
    _without_guards(patch, "event id is new", "source sequence rises", "lifecycle allows", "progress rises")
    patch.setattr(Tables, "check", lambda self, changes: None)


def bump_the_version_twice(patch: pytest.MonkeyPatch) -> None:
    """E-6: an event takes two versions."""
    patch.setattr(decide, "with_version", lambda task, now: with_version(with_version(task, now), now))


def let_the_dead_speak(patch: pytest.MonkeyPatch) -> None:
    """L-1: terminal is not terminal."""
    _without_guards(patch, "lifecycle allows")


def keep_old_attempts_alive(patch: pytest.MonkeyPatch) -> None:
    """R-6: a retry leaves the attempt before it as it is."""

    def unchanged(last: StepState, at: object, version: int) -> StepState:
        return last

    patch.setattr(activation, "_supersede", unchanged)


def absorb_everything(patch: pytest.MonkeyPatch) -> None:
    """E-8: any event of the task absorbs the one before it."""

    def chain(self: Any, command: TaskEventCommand) -> list[int]:
        return list(self._last_of_task.get(command.task_id, []))

    patch.setattr(batch._Batch, "_absorbable", chain)


def go_on_after_a_failure(patch: pytest.MonkeyPatch) -> None:
    """E-10: a failed item does not stop the later ones of its execution."""
    patch.setattr(CallGroup, "is_broken", lambda self, stream, position=None: False)


def answer_without_a_commit(patch: pytest.MonkeyPatch) -> None:
    """B-3: one transaction in four is rolled back, and its value returned all the same."""
    kept = Tables.apply
    count = 0

    def apply(self: Tables, changes: ChangeSet, now: Any) -> None:
        nonlocal count
        count += 1
        if count % 4 or changes.new_workflows or changes.new_tasks:
            kept(self, changes, now)

    patch.setattr(Tables, "apply", apply)


def guess_after_an_ambiguous_commit(patch: pytest.MonkeyPatch) -> None:
    """Pitfall 1: a COMMIT whose reply was lost is answered as if it had failed for good."""

    def lost(earlier: object, verdicts: Sequence[Verdict]) -> list[Verdict]:
        return [Refused(RefusedError(Reason.TRANSITION_NOT_ALLOWED, "lost")) for _ in verdicts]

    patch.setattr(batch_commit, "_settle", lost)


def mark_what_failed(patch: pytest.MonkeyPatch) -> None:
    """O-1: rows that Centrifugo refused are marked PUBLISHED."""
    honest = Settler.settle

    async def settle(self: Settler, claim: Any, settlement: Settlement) -> None:
        settlement.published.extend(row for row, _ in settlement.failed)
        settlement.failed.clear()
        await honest(self, claim, settlement)

    patch.setattr(Settler, "settle", settle)


def forget_what_was_claimed(patch: pytest.MonkeyPatch) -> None:
    """O-1: a claim never runs out, so that the rows of a dead relay wait for ever."""
    claim = OutboxTable.claim

    def for_ever(self: OutboxTable, token: bytes, limit: int, lease_seconds: float) -> Claim:
        return claim(self, token, limit, 1e9)

    patch.setattr(OutboxTable, "claim", for_ever)


def drop_the_gate(patch: pytest.MonkeyPatch) -> None:
    """architecture.md *Relay*: detail messages go out without their version."""

    def ungated(channels: tuple[str, ...], data: bytes, key: str, **_: object) -> Publication:
        return Publication(channels, data, key)

    patch.setattr(rendering, "Publication", ungated)


def lose_a_notification(patch: pytest.MonkeyPatch) -> None:
    """E-6: a failure leaves no row for its summary."""

    def fewer(*arguments: Any, **named: Any) -> tuple[OutboxRecord, ...]:
        rows = task_notifications(*arguments, **named)
        return rows[1:] if rows[0].event_type == "STEP_FAILED" else rows

    patch.setattr(batch, "task_notifications", fewer)


def count_a_retry_twice(patch: pytest.MonkeyPatch) -> None:
    """E-8: a new attempt is counted as if there had been none before it."""

    def recounted(task: TaskState, before: StepState | None, after: StepState) -> TaskState:
        return with_step_counted(task, None if after.attempt > 1 and before else before, after)

    patch.setattr(activation, "with_step_counted", recounted)


def write_stale_twice(patch: pytest.MonkeyPatch) -> None:
    """H-4: each replica records the silence that it saw, under an id of its own, whatever was recorded meanwhile."""
    numbers = count()
    blind = ("health would change", "times say so still")
    kept = tuple(guard for guard in health_guards.HEALTH_GUARDS if guard.name not in blind)
    patch.setattr(health_guards, "HEALTH_GUARDS", kept)
    patch.setattr(health, "observation_id", lambda sign, execution_id, moment: f"{sign.lower()}-{next(numbers)}")


def reopen_closed_leases(patch: pytest.MonkeyPatch) -> None:
    """H-2: a beat that was still in memory brings the lease of an ended execution back to life."""
    persist = MemoryLeaseStore._persist

    def upsert(self: MemoryLeaseStore, beat: Beat, waited_seconds: float) -> None:
        row = self._tables.leases.get(beat.execution_id)
        if row is not None and not row.state.is_open:
            self._tables.leases[beat.execution_id] = replace(row, state=replace(row.state, closed_at=None))
        persist(self, beat, waited_seconds)

    patch.setattr(MemoryLeaseStore, "_persist", upsert)


def lose_recoveries(patch: pytest.MonkeyPatch) -> None:
    """H-4: nobody hears that a STALE execution beats again."""
    patch.setattr(Recoveries, "beating", lambda self, standing: None)


def forgive_flapping(patch: pytest.MonkeyPatch) -> None:
    """H-5: an execution that came back is given no more time than before."""
    for module in (health_changes, lease_store):
        patch.setattr(module, "patience_seconds", lambda timeout_seconds, recoveries: timeout_seconds)


def believe_no_silence(patch: pytest.MonkeyPatch) -> None:
    """H-4: the grace never ends."""
    patch.setattr(HealthReconciler, "_is_believed", lambda self, candidate: False)


def forget_beats(patch: pytest.MonkeyPatch) -> None:
    """H-2: every other flush is taken for done without being written."""
    persist = HeartbeatCoalescer._persist
    numbers = count()

    async def forget(self: HeartbeatCoalescer, execution_ids: Iterable[ExecutionId]) -> bool:
        if next(numbers) % 2:
            return await persist(self, execution_ids)
        self._pending.discard()
        return True

    patch.setattr(HeartbeatCoalescer, "_persist", forget)


def let_the_dead_beat(patch: pytest.MonkeyPatch) -> None:
    """H-3: ended executions beat on."""
    kept = tuple(guard for guard in heartbeat.BEAT_GUARDS if guard.name != "execution is current and runs")
    patch.setattr(heartbeat, "BEAT_GUARDS", kept)


def lose_triggers(patch: pytest.MonkeyPatch) -> None:
    """L-7: the workflow is not told that a task has ended."""

    def of_the_living(
        tools: OutboxTools, before: TaskState, after: TaskState, event_type: EventType
    ) -> OutboxRecord | None:
        return None if after.lifecycle.is_terminal else aggregate_trigger(tools, before, after, event_type)

    patch.setattr(batch, "aggregate_trigger", of_the_living)


BREAKS: tuple[Break, ...] = (
    Break(forget_event_ids, "committed_event_is_answered_with_its_first_result"),
    Break(take_events_twice, "one_effect_per_event_id"),
    Break(bump_the_version_twice, "versions_are_gapless"),
    Break(let_the_dead_speak, "terminal_never_reverts"),
    Break(keep_old_attempts_alive, "retries_supersede"),
    Break(absorb_everything, "acknowledged_exists_once_with_its_version"),
    Break(go_on_after_a_failure, "broken_stream_waits"),
    Break(answer_without_a_commit, "acknowledged_exists_once_with_its_version"),
    Break(guess_after_an_ambiguous_commit, "rejected_left_nothing"),
    Break(mark_what_failed, "outbox_reaches_every_channel"),
    Break(forget_what_was_claimed, "outbox_is_drained"),
    Break(drop_the_gate, "detail_never_goes_back"),
    Break(lose_a_notification, "every_version_has_its_rows"),
    Break(count_a_retry_twice, "counters_are_the_sum_of_the_steps"),
    Break(write_stale_twice, "health_alternates"),
    Break(reopen_closed_leases, "leases_follow_steps"),
    Break(lose_recoveries, "signs_of_life_end_stale"),
    Break(forgive_flapping, "stale_is_true"),
    Break(believe_no_silence, "silence_is_told"),
    Break(forget_beats, "acknowledged_beats_are_kept"),
    Break(forget_beats, "stale_is_true"),
    Break(let_the_dead_beat, "beats_are_answered_truly"),
    Break(lose_triggers, "workflows_follow_their_tasks"),
    Break(command_breaks.let_the_cancelled_succeed, "cancelling_never_succeeds", seeds=200),
    Break(command_breaks.leave_out_a_run, "runs_follow_one_another"),
    Break(command_breaks.begin_step_versions_anew, "versions_are_gapless"),
    Break(command_breaks.skip_for_nothing, "skips_name_a_result", seeds=200),
    Break(command_breaks.misremember_ends, "ended_runs_keep_their_outcome"),
    Break(command_breaks.honour_revoked_credentials, "revoked_credentials_are_dead"),
    Break(command_breaks.tell_labels_backwards, "labels_follow_their_facts"),
    Break(command_breaks.audit_nobody, "changes_are_audited"),
)
