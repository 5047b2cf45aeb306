"""The workflow's own axis beside its tasks (L-7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.workflow_commands import UpdateWorkflow
from tests.model.execution_machine import ExecutionMachine
from tests.model.machine import TASKS
from tests.model.model import Task
from tests.model.parts import ENDED
from tests.unit.factories import COORDINATOR_CALLER, a_digest, a_task_command, a_task_spec

MOST_ADDED = 3

Shown = tuple[str, str, tuple[str, ...]]
"""(lifecycle, health, where the tasks stand)."""


@dataclass
class Workflow:
    """What the model knows of it."""

    version: int = 1
    title: str = "Import"
    ruling: str = ""
    followed: Shown = ("PENDING", "HEALTHY", ("PENDING",) * TASKS)
    added: int = 0
    """Tasks that were added later; they wait."""

    def follow(self, tasks: list[Task]) -> None:
        """The tasks are counted: a version only when somebody sees a difference."""
        standings = tuple(sorted([*(task.lifecycle for task in tasks), *["PENDING"] * self.added]))
        runs_again = any(task.run > 1 for task in tasks)
        lifecycle = self.ruling or _lifecycle(standings, runs_again)
        self.show((lifecycle, _health(lifecycle, standings), standings))

    def add(self, runs_again: bool) -> None:
        """One more task that waits: a version of its own, whatever the others do meanwhile."""
        self.added += 1
        standings = tuple(sorted([*self.followed[2], "PENDING"]))
        lifecycle = self.ruling or _lifecycle(standings, runs_again)
        self.version += 1
        self.followed = (lifecycle, _health(lifecycle, standings), standings)

    def show(self, shown: Shown) -> None:
        """What everybody sees from now on."""
        self.version += shown != self.followed
        self.followed = shown


def _lifecycle(standings: tuple[str, ...], runs_again: bool) -> str:
    if set(standings) == {"PENDING"}:
        return "RUNNING" if runs_again else "PENDING"
    if not set(standings) <= set(ENDED):
        return "RUNNING"
    if set(standings) == {"SUCCEEDED"}:
        return "SUCCEEDED"
    return next(name for name in ("FAILED", "TIMED_OUT", "CANCELLED") if name in standings)


def _health(lifecycle: str, standings: tuple[str, ...]) -> str:
    if lifecycle in ENDED:
        return "HEALTHY"
    return "DEGRADED" if {"FAILED", "TIMED_OUT"} & set(standings) else "HEALTHY"


class WorkflowMachine(ExecutionMachine):
    """The projector runs at any moment, and the coordinator renames and rules."""

    @initialize()
    def follow_from_the_beginning(self) -> None:
        """A workflow of two tasks that wait."""
        self.workflow = Workflow()

    @rule()
    def follow(self) -> None:
        """A round of the projector."""
        self.workflow.follow(self.models)
        self.product.follow(self.workflow_id)

    @precondition(lambda self: self.workflow.added < MOST_ADDED)
    @rule()
    def add_task(self) -> None:
        """CreateTask; the same key with the same content is the same task, with other content a conflict."""
        spec = a_task_spec(key=self.new_id("more"), task_type="")
        command = a_task_command(self.workflow_id, spec, command_id=self.new_id("add"))
        self.workflow.add(self._ran_again())
        created = self.product.run(self.product.registration.create_task(command))
        again = self.product.run(self.product.registration.create_task(command))
        assert (created.created, created.workflow.version) == (True, self.workflow.version)
        assert (again.created, again.task.envelope.task_id) == (False, created.task.envelope.task_id)
        with pytest.raises(RefusedError) as caught:
            self.product.run(
                self.product.registration.create_task(replace(command, task=replace(spec, digest=a_digest("other"))))
            )
        assert caught.value.reason is Reason.IDEMPOTENCY_CONFLICT

    @precondition(lambda self: self.models)
    @rule(title=st.sampled_from(("Import", "Import 2")))
    def rename(self, title: str) -> None:
        """UpdateWorkflow with a title."""
        changed = title != self.workflow.title
        self.workflow.title, self.workflow.version = title, self.workflow.version + changed
        self._update(title=title)

    @rule(ruling=st.sampled_from(("", "RUNNING", "SUCCEEDED", "FAILED")))
    def rule_on(self, ruling: str) -> None:
        """A ruling, or its end; the tasks are as the projector saw them last."""
        model = self.workflow
        _, _, standings = model.followed
        was = model.ruling
        model.ruling = ruling
        lifecycle = ruling or _lifecycle(standings, self._ran_again())
        before = model.version
        model.show((lifecycle, _health(lifecycle, standings), standings))
        model.version = before + (model.version > before or was != ruling)
        self._update(ruling=ruling, withdraw=not ruling)

    def _ran_again(self) -> bool:
        """Whether the projector's last count knew of a second run."""
        return self.product.workflow(self.workflow_id).counts.reopened > 0

    def _update(self, title: str | None = None, ruling: str = "", withdraw: bool = False) -> None:
        command = UpdateWorkflow(
            COORDINATOR_CALLER,
            self.new_id("wfc"),
            self.workflow_id,
            0,
            title,
            Lifecycle(ruling) if ruling else None,
            withdraw,
            "model" if ruling else "",
            a_digest(f"{title} {ruling}"),
        )
        outcome = self.product.run(self.product.workflows.update(command))
        assert outcome.workflow.version == self.workflow.version

    @invariant()
    def workflow_reads_as_the_model_says(self) -> None:
        """Version, title, status and counts."""
        if not self.models:
            return
        read, model = self.product.workflow(self.workflow_id), self.workflow
        lifecycle, health, standings = model.followed
        counts = tuple(
            sorted(
                name for name in (*ENDED, "PENDING", "RUNNING", "CANCELLING") for _ in range(_count(read.counts, name))
            )
        )
        assert (read.version, read.title, read.ruled) == (model.version, model.title, bool(model.ruling))
        assert (read.lifecycle, read.health, counts) == (lifecycle, health, standings)


def _count(counts: object, name: str) -> int:
    return int(getattr(counts, name.lower()))
