"""A small true history of commands, made by the pure domain: revoked, relabelled, cancelled, corrected, run again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from taskstatus.domain.cancellation import request_cancel
from taskstatus.domain.commands import Actor
from taskstatus.domain.correction import correct
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.metadata import update_metadata
from taskstatus.domain.records import EventRecord
from taskstatus.domain.rerun import RerunRows, rerun
from taskstatus.domain.revocation import revoke
from taskstatus.domain.task_commands import (
    CommandHead,
    CommandOutcome,
    CommandRows,
    CorrectTask,
    RequestCancel,
    RerunTask,
    RevokeExecution,
    SkippedStep,
    UpdateMetadata,
)
from tests.history.building import FIRST, SECOND, STEP, TASK, Story, of_step, of_task
from tests.history.model import History, Outcome

ADMIN = Actor("t-01", "documents", "admin-tool", is_admin=True)
RESULT = f"2.{STEP}.1.2"
"""The event that completed the step in run 2."""
RERUN, SKIPPING = 10, 15
"""Versions at which runs 2 and 3 begin; the skip of run 3 follows."""

Decide = Callable[[CommandHead, CommandRows], CommandOutcome]


class CommandedStory(Story):
    """A story whose administrator gives commands too."""

    def order(self, command_id: str, decide: Decide) -> None:
        """One command, acknowledged."""
        head = CommandHead(ADMIN, command_id, TASK, command_id.encode(), hashlib.sha256(command_id.encode()).digest())
        call = self.invocation(command_id, TASK, command_id)
        outcome = decide(head, CommandRows(self.tables.tasks[TASK], (), None, self.now()))
        self.commit(outcome.changes)
        self.invocations.append(replace(call, outcome=Outcome.OK, version=outcome.result.task_version))

    def cancel(self, command_id: str) -> None:
        """RequestCancel."""
        self.order(command_id, lambda head, rows: request_cancel(RequestCancel(head, "late"), rows, self.tools()))

    def relabel(self, command_id: str, title: str) -> None:
        """UpdateTaskMetadata."""
        self.order(
            command_id,
            lambda head, rows: update_metadata(UpdateMetadata(head, None, title, None, "moved"), rows, self.tools()),
        )

    def correct(self, command_id: str, lifecycle: Lifecycle) -> None:
        """CorrectTask."""
        self.order(
            command_id,
            lambda head, rows: correct(
                CorrectTask(head, lifecycle, "", None, STEP if lifecycle is Lifecycle.FAILED else "", "seen"),
                rows,
                None,
                self.tools(),
            ),
        )

    def revoke(self, command_id: str, execution_id: ExecutionId) -> None:
        """RevokeExecution."""
        step = next(s for s in self.tables.steps.values() if s.terms and s.terms.execution_id == execution_id)
        self.order(
            command_id,
            lambda head, rows: revoke(RevokeExecution(head, execution_id, "leaked"), rows, step, self.tools()),
        )

    def rerun(self, command_id: str, *skipped: SkippedStep) -> None:
        """RerunTask."""
        run = RerunRows(list(self.tables.steps_in(TASK, self.run)), self._events())
        self.order(command_id, lambda head, rows: rerun(RerunTask(head, 0, "again", skipped), rows, run, self.tools()))

    def _events(self) -> Mapping[str, EventRecord]:
        return {event.event_id: event for event in self.tables.events.values()}


def a_commanded_history() -> History:
    """Run 1 is revoked, cancelled and corrected, run 2 succeeds, run 3 skips its step: versions 1 to 16."""
    story = CommandedStory()
    story.create()
    story.activate(1, FIRST)
    story.report(of_step(FIRST, 1, EventType.STEP_STARTED, 1))
    story.relabel("label-1", "Report 2")
    story.revoke("revoke-1", FIRST)
    story.cancel("cancel-1")
    story.report(of_task(EventType.TASK_CANCELLED, 1))
    story.correct("correct-1", Lifecycle.FAILED)
    story.correct("correct-2", Lifecycle.TIMED_OUT)
    story.relabel("label-2", "Report 3")
    story.rerun("rerun-1")
    story.activate(1, SECOND)
    story.report(of_step(SECOND, 1, EventType.STEP_STARTED, 1, 2))
    story.report(of_step(SECOND, 1, EventType.STEP_COMPLETED, 2, 2))
    story.report(of_task(EventType.TASK_COMPLETED, 1, 2))
    story.correct("correct-3", Lifecycle.FAILED)
    story.rerun("rerun-2", SkippedStep(STEP, "good still", RESULT))
    story.follow()
    return story.history()
