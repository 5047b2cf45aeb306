"""Ways to break the commands on a task, each with the validator that must tell it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from taskstatus.adapters.memory.tables import Tables
from taskstatus.domain import guards, lifecycle, metadata, rerun
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.records import AuditRecord, EndedRun
from taskstatus.domain.state import StepState, TaskState
from taskstatus.domain.task_commands import CommandOutcome, Fact, RerunTask, SkippedStep, audited, recorded


def let_the_cancelled_succeed(patch: pytest.MonkeyPatch) -> None:
    """L-1: a request to cancel binds nobody."""
    moves = {**lifecycle.TRANSITIONS, Lifecycle.CANCELLING: lifecycle.TRANSITIONS[Lifecycle.RUNNING]}
    patch.setattr(lifecycle, "TRANSITIONS", moves)


def leave_out_a_run(patch: pytest.MonkeyPatch) -> None:
    """R-7: a rerun opens the run after the next."""
    first_state = rerun._first_state

    def skipping(task: TaskState, open_steps: int) -> TaskState:
        return first_state(replace(task, attempt=task.attempt + 1), open_steps)

    patch.setattr(rerun, "_first_state", skipping)


def begin_step_versions_anew(patch: pytest.MonkeyPatch) -> None:
    """E-6: the steps of a rerun begin at version 1."""
    first_attempt = rerun._first_attempt

    def at_one(task: TaskState, last: StepState, skipped: SkippedStep | None) -> StepState:
        return replace(first_attempt(task, last, skipped), version=1)

    patch.setattr(rerun, "_first_attempt", at_one)


def skip_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """X-3: nobody asks for the result that a skip names."""

    def unchecked(command: RerunTask, manifest: Any, sources: Any) -> dict[str, SkippedStep]:
        return {skipped.step_id: skipped for skipped in command.skipped}

    patch.setattr(rerun, "_checked_skips", unchecked)


def misremember_ends(patch: pytest.MonkeyPatch) -> None:
    """R-7: every run's row says that it was cancelled."""
    end_run = Tables._end_run

    def cancelled(self: Tables, ended: EndedRun) -> None:
        end_run(self, replace(ended, state=replace(ended.state, lifecycle=Lifecycle.CANCELLED)))

    patch.setattr(Tables, "_end_run", cancelled)


def honour_revoked_credentials(patch: pytest.MonkeyPatch) -> None:
    """R-11: the generation is not looked at."""
    kept = tuple(guard for guard in guards.GUARDS if guard.name != "credential is live")
    assert len(kept) < len(guards.GUARDS)
    patch.setattr(guards, "GUARDS", kept)


def tell_labels_backwards(patch: pytest.MonkeyPatch) -> None:
    """R-8: the timeline shows old for new."""

    def backwards(head: Any, before: Any, after: Any, step: Any, fact: Fact, *args: Any) -> CommandOutcome:
        schema, told = fact.shown
        value = orjson.loads(told)
        turned = orjson.dumps({"old": value["new"], "new": value["old"]})
        return recorded(head, before, after, step, replace(fact, shown=(schema, turned)), *args)

    patch.setattr(metadata, "recorded", backwards)


def audit_nobody(patch: pytest.MonkeyPatch) -> None:
    """L-3, R-8: the audit does not say who it was."""

    def anonymous(*args: Any) -> AuditRecord:
        return replace(audited(*args), actor="")

    patch.setattr(metadata, "audited", anonymous)
