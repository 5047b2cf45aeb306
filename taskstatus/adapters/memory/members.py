"""Members of a workflow as the in-memory store counts them."""

from __future__ import annotations

from collections.abc import Iterable

from taskstatus.domain.state import TaskState
from taskstatus.domain.workflow_aggregate import NOBODY, MemberStanding, MemberTally, with_standing


def tally_of(tasks: Iterable[TaskState]) -> MemberTally:
    """Where they stand."""
    tally = NOBODY
    for task in tasks:
        tally = with_standing(tally, standing_of(task))
    return tally


def standing_of(task: TaskState) -> MemberStanding:
    """Where a task stands for its workflow."""
    return MemberStanding(
        task.lifecycle,
        sensitive=task.envelope.sensitive,
        stale=task.stale_steps > 0,
        degraded=task.degraded_steps > 0,
        runs_again=task.attempt > 1,
    )
