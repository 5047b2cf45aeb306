"""Activation and registration: repeats, retries, supersession and refusals (R-4, R-6, R-10, ID-3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from taskstatus.application.executions import BoundExecution
from taskstatus.domain.commands import ActivateAttempt
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId, bucket_of_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import FailurePolicy
from taskstatus.domain.task_commands import RerunTask
from tests.unit.factories import (
    COORDINATOR_CALLER,
    EXECUTOR,
    PARSER,
    TASK_ID,
    a_digest,
    a_head,
    a_registration,
    a_running_step,
    a_step,
    a_task,
    a_task_in,
    an_activation,
    an_id,
    an_operation,
    step_event,
    task_event,
)
from tests.unit.service_kit import Kit, drive, execution_of

RUNNING = Lifecycle.RUNNING


def activate(kit: Kit, command: ActivateAttempt) -> BoundExecution:
    """The answer to one command."""
    return drive(kit.registration.activate(command))


def refusal(kit: Kit, command: ActivateAttempt) -> Reason:
    """Why it is refused; checks that nothing was written."""
    before = (dict(kit.tables.tasks), dict(kit.tables.steps), dict(kit.tables.events), dict(kit.tables.dedups))
    with pytest.raises(RefusedError) as caught:
        activate(kit, command)
    after = (kit.tables.tasks, kit.tables.steps, kit.tables.events, kit.tables.dedups)
    assert after == before
    return caught.value.reason


def test_r4_activation_answers_with_the_whole_context(kit: Kit) -> None:
    kit.put(a_task(), a_step(activated=False))

    bound = activate(kit, an_activation(input_ref="input://pages"))

    binding = bound.binding
    assert (binding.step_id, binding.step_attempt, binding.task_attempt) == ("02_parse", 1, 1)
    assert (binding.operation_code, binding.producer_id) == ("DOCUMENT.PARSE", PARSER)
    assert binding.execution_id == execution_of(kit.step())
    assert bucket_of_id(binding.execution_id) == kit.only_task().envelope.bucket
    assert (bound.created, bound.next_source_seq, bound.task.version) == (True, 1, 1)
    assert kit.credentials.open_token(bound.credentials.token).binding == binding
    assert kit.credentials.open_handle(bound.credentials.handle).execution_id == binding.execution_id
    terms = kit.step().terms
    assert terms is not None
    assert (terms.input_ref, terms.heartbeat_interval_seconds, terms.heartbeat_timeout_seconds) == (
        "input://pages",
        15,
        60,
    )


def test_r4_execution_without_input_of_its_own_has_the_tasks(kit: Kit) -> None:
    kit.put(a_task(input_ref="input://task"), a_step(activated=False))
    activate(kit, an_activation())
    terms = kit.step().terms
    assert terms is not None
    assert terms.input_ref == "input://task"


@pytest.mark.parametrize("make", [an_activation, a_registration])
def test_id3_same_activation_again_gives_the_same_execution(kit: Kit, make: Any) -> None:
    kit.put(a_task(), a_step(activated=False))
    first = activate(kit, make())
    before = kit.only_task()

    again = activate(kit, make(command_id="another-command"))

    assert again.binding == first.binding
    assert (first.created, again.created) == (True, False)
    assert kit.only_task() == before


def test_r6_registration_sent_again_gives_the_first_version(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())
    first = activate(kit, a_registration())
    kit.result(task_event(EventType.TASK_COMPLETED))

    again = activate(kit, a_registration())

    assert kit.only_task().version > first.task.version
    assert again.task.version == first.task.version


def test_r6_activation_again_after_the_end_gives_the_first_execution(kit: Kit) -> None:
    kit.put(a_task(), a_step(activated=False))
    first = activate(kit, an_activation())
    kit.report(task_event(EventType.TASK_FAILED))

    assert activate(kit, an_activation()).binding == first.binding


@pytest.mark.parametrize("make", [an_activation, a_registration])
def test_r6_lost_reply_is_settled_even_when_the_task_has_run_again_meanwhile(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    kit.put(a_task(), a_step(activated=False))
    commit = kit.store._commit

    def commit_and_run_again(changes: Sequence[ChangeSet]) -> bool:
        arrived = commit(changes)
        if not arrived:
            first = kit.tables.steps[(TASK_ID, 1, "02_parse", 1)]
            kit.tables.tasks[TASK_ID] = replace(kit.only_task(), attempt=2, version=9)
            kit.tables.steps[(TASK_ID, 2, "02_parse", 1)] = replace(first, task_attempt=2, terms=None)
        return arrived

    monkeypatch.setattr(kit.store, "_commit", commit_and_run_again)
    kit.store.lose_next_commit_reply(committed=True)

    bound = activate(kit, make())

    (activated,) = [step for step in kit.tables.steps.values() if step.terms]
    assert (bound.created, bound.binding.execution_id) == (True, execution_of(activated))
    assert (bound.binding.task_attempt, activated.task_attempt) == (1, 1)
    assert bound.task.version == (2 if make is a_registration else 9)


@pytest.mark.parametrize("named_run", [0, 1])
def test_r6_registration_sent_again_after_a_rerun_gets_its_first_execution(kit: Kit, named_run: int) -> None:
    kit.put(a_task_in(RUNNING), a_running_step())
    first = activate(kit, a_registration(task_attempt=named_run))
    kit.report(task_event(EventType.TASK_FAILED))
    drive(kit.commands.rerun(RerunTask(a_head("cmd-rerun"), 0, "", ())))
    written = (dict(kit.tables.tasks), dict(kit.tables.steps), dict(kit.tables.events))

    again = activate(kit, a_registration(task_attempt=named_run))

    assert (again.created, again.binding, again.task.version) == (False, first.binding, first.task.version)
    assert (kit.tables.tasks, kit.tables.steps, kit.tables.events) == written
    assert refusal(kit, a_registration(digest=a_digest("other"))) is Reason.IDEMPOTENCY_CONFLICT


def test_id3_same_attempt_with_other_content_is_a_conflict(kit: Kit) -> None:
    kit.put(a_task(), a_step(activated=False))
    activate(kit, an_activation())
    assert refusal(kit, an_activation(digest=a_digest("other"))) is Reason.IDEMPOTENCY_CONFLICT


def test_r6_command_id_of_something_else_is_a_conflict(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.report(task_event(EventType.TASK_STARTED, event_id="cmd-1"))
    assert refusal(kit, an_activation(attempt=2, command_id="cmd-1")) is Reason.IDEMPOTENCY_CONFLICT


def test_r6_retry_supersedes_in_one_version(kit: Kit) -> None:
    old = a_running_step(version=6, source_seq=4)
    kit.put(a_task_in(RUNNING, version=5), old)

    bound = activate(kit, an_activation(attempt=2))

    ended, fresh, task = kit.step(), kit.step(attempt=2), kit.only_task()
    assert (ended.lifecycle, ended.end_reason, ended.superseded) == (Lifecycle.CANCELLED, "SUPERSEDED", True)
    assert ended.finished_at == task.committed_at
    assert (fresh.lifecycle, fresh.superseded, fresh.source_seq, fresh.version) == (Lifecycle.PENDING, False, 0, 7)
    assert execution_of(fresh) != execution_of(ended)
    assert (task.version, task.open_steps, bound.task.version) == (6, 1, 6)
    ((_, event),) = kit.tables.events.items()
    assert (event.event_type, event.event_id) == (EventType.STEP_ATTEMPT_ACTIVATED, "cmd-02_parse-2")
    assert event.execution_id == execution_of(fresh)
    assert event.superseded_execution_id == execution_of(ended)
    assert len(kit.tables.outbox) == 2
    assert kit.only_task().lifecycle is RUNNING


def test_r6_supersession_closes_the_lease(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(EventType.STEP_STARTED))

    activate(kit, an_activation(attempt=2))

    ((_, lease),) = kit.tables.leases.items()
    assert lease.closed_at is not None


def test_r6_finished_attempt_keeps_its_outcome_when_retried(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, open_steps=0), a_step(lifecycle=Lifecycle.FAILED, version=4))

    activate(kit, an_activation(attempt=2))

    old = kit.step()
    assert (old.lifecycle, old.end_reason, old.superseded, old.version) == (Lifecycle.FAILED, "", True, 4)
    assert kit.only_task().open_steps == 1


@pytest.mark.parametrize(
    ("attempt", "reason"),
    [(3, Reason.TRANSITION_NOT_ALLOWED), (9, Reason.TRANSITION_NOT_ALLOWED)],
)
def test_r6_attempt_is_exactly_the_last_plus_one(kit: Kit, attempt: int, reason: Reason) -> None:
    kit.put(a_task(), a_step())
    assert refusal(kit, an_activation(attempt=attempt)) is reason


def test_r10_first_attempt_of_an_unactivated_step_is_one(kit: Kit) -> None:
    kit.put(a_task(), a_step(activated=False))
    assert refusal(kit, an_activation(attempt=2)) is Reason.TRANSITION_NOT_ALLOWED


def test_r6_no_new_attempt_after_success(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING), a_step(lifecycle=Lifecycle.SUCCEEDED))
    assert refusal(kit, an_activation(attempt=2)) is Reason.TRANSITION_NOT_ALLOWED


@pytest.mark.parametrize("lifecycle", [Lifecycle.FAILED, Lifecycle.CANCELLED, Lifecycle.TIMED_OUT])
def test_r6_new_attempt_after_any_other_end(kit: Kit, lifecycle: Lifecycle) -> None:
    kit.put(a_task_in(RUNNING), a_step(lifecycle=lifecycle))
    assert activate(kit, an_activation(attempt=2)).created


def test_l1_ended_task_takes_no_new_execution(kit: Kit) -> None:
    kit.put(a_task_in(Lifecycle.FAILED), a_step(lifecycle=Lifecycle.CANCELLED))
    assert refusal(kit, an_activation(attempt=2)) is Reason.TERMINAL
    assert refusal(kit, a_registration()) is Reason.TERMINAL


def test_r6_step_that_has_ended_is_not_handed_out(kit: Kit) -> None:
    kit.put(a_task(), a_step(activated=False))
    kit.report(task_event(EventType.STEP_CANCELLED, step_id="02_parse"))

    assert refusal(kit, an_activation(attempt=1)) in (Reason.TERMINAL, Reason.TRANSITION_NOT_ALLOWED)


def test_r10_unknown_step_is_not_found(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    assert refusal(kit, an_activation(step_id="09_nope")) is Reason.STEP_NOT_FOUND


def test_r6_another_run_is_not_current(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    assert refusal(kit, an_activation(attempt=2, task_attempt=2)) is Reason.STALE_ATTEMPT


@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        (replace(COORDINATOR_CALLER, tenant_id="t-02"), Reason.TASK_NOT_FOUND),
        (replace(COORDINATOR_CALLER, authority_scope="other"), Reason.TASK_NOT_FOUND),
        (replace(COORDINATOR_CALLER, producer_id="other"), Reason.PERMISSION_DENIED),
        (replace(COORDINATOR_CALLER, producer_id=PARSER), Reason.PERMISSION_DENIED),
    ],
)
def test_r10_only_the_recorded_coordinator_activates(kit: Kit, caller: Any, reason: Reason) -> None:
    kit.put(a_task(), a_step())
    assert refusal(kit, an_activation(attempt=2, caller=caller)) is reason


def test_r10_unknown_task_is_as_another_tenants(kit: Kit) -> None:
    assert refusal(kit, an_activation(TaskId(an_id(70)))) is Reason.TASK_NOT_FOUND


def test_e1_listed_policy_executor_may_retry(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    executor = replace(COORDINATOR_CALLER, producer_id=EXECUTOR)
    assert activate(kit, an_activation(attempt=2, caller=executor)).created


def test_r4_registration_adds_a_step_an_event_and_a_version(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, version=5, weight_total=4), a_running_step(weight=4))
    parent = execution_of(kit.step())

    bound = activate(kit, a_registration(parent_execution_id=parent, failure_policy=FailurePolicy.WAIT_FOR_USER))

    step = kit.step("dyn_search")
    assert (step.definition.dynamic, step.definition.parent_execution_id) == (True, parent)
    assert (step.definition.weight, step.definition.failure_policy) == (0, FailurePolicy.WAIT_FOR_USER)
    assert (bound.created, bound.task.version) == (True, 6)
    assert (kit.only_task().open_steps, kit.only_task().weight_total) == (2, 4)
    ((_, event),) = kit.tables.events.items()
    assert event.event_type is EventType.EXECUTION_REGISTERED
    assert event.superseded_execution_id is None
    assert [row.event_type for row in kit.tables.outbox.values()] == [EventType.EXECUTION_REGISTERED] * 2


def test_r6_dynamic_step_is_retried_like_any_other(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    first = activate(kit, a_registration())
    second = activate(kit, a_registration(attempt=2))

    assert first.binding.execution_id != second.binding.execution_id
    assert kit.step("dyn_search").superseded


@pytest.mark.parametrize("changes", [{"operation_code": "SEARCH.FILES"}, {"producer_id": "other"}])
def test_r4_registration_never_redefines_a_step(kit: Kit, changes: dict[str, str]) -> None:
    kit.put(a_task(), a_step())
    activate(kit, a_registration())
    assert refusal(kit, a_registration(attempt=2, **changes)) is Reason.IDEMPOTENCY_CONFLICT


def test_r4_parent_is_an_execution_of_this_run(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    foreign = a_step(task_id=TaskId(an_id(50)), execution_id=ExecutionId(an_id(51)))
    kit.put(a_task(task_id=TaskId(an_id(50)), client_task_key="task-2"), foreign)
    first_task = TaskId(an_id(2))

    for parent in (an_id(51), an_id(99)):
        command = a_registration(first_task, parent_execution_id=ExecutionId(parent))
        assert refusal(kit, command) is Reason.EXECUTION_NOT_FOUND


def test_l5_execution_is_bound_to_the_newest_definition_for_life(kit: Kit) -> None:
    kit.put(a_task(), a_step(activated=False))
    kit.definitions.add(an_operation(version=1))
    bound = activate(kit, an_activation()).binding
    kit.definitions.add(an_operation(version=2))

    assert (bound.definition_version, bound.definition_task_type) == (1, "*")
    assert activate(kit, an_activation()).binding == bound


def test_l5_operation_without_a_definition_runs_under_the_generic_profile(kit: Kit) -> None:
    kit.put(a_task(), a_step(activated=False))
    assert activate(kit, an_activation()).binding.definition_version == 0


@pytest.mark.parametrize("make", [an_activation, a_registration])
def test_r5_producer_that_the_definition_does_not_admit_is_refused(kit: Kit, make: Any) -> None:
    kit.put(a_task(), a_step(activated=False))
    for operation in ("DOCUMENT.PARSE", "SEARCH.WEB"):
        kit.definitions.add(an_operation(operation, producers=("other-*",)))
    assert refusal(kit, make()) is Reason.PRODUCER_MISMATCH


@pytest.mark.parametrize(
    ("pattern", "admitted"),
    [
        ("*", True),
        ("document-*", True),
        (PARSER, True),
        ("Document-*", False),
        ("document", False),
        ("*-pars?r", False),
    ],
)
def test_l5_producer_pattern_knows_the_star_only(pattern: str, admitted: bool) -> None:
    assert an_operation(producers=(pattern,)).admits_producer(PARSER) is admitted


@pytest.mark.parametrize(
    ("named", "expected"), [(None, FailurePolicy.WAIT_FOR_USER), (FailurePolicy.FAIL_TASK, FailurePolicy.FAIL_TASK)]
)
def test_l5_dynamic_step_without_a_policy_takes_its_operations(
    kit: Kit, named: FailurePolicy | None, expected: FailurePolicy
) -> None:
    kit.put(a_task())
    kit.definitions.add(an_operation("SEARCH.WEB", failure_policy=FailurePolicy.WAIT_FOR_USER))
    activate(kit, a_registration(failure_policy=named))
    assert kit.step("dyn_search").definition.failure_policy is expected
