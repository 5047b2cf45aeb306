"""Bounds of dynamic registration, and parents that register children themselves (R-2, R-4, R-5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.domain.commands import ActivateAttempt, ParentCredential
from taskstatus.domain.dynamic import DynamicLimits, count_registration
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import RunRecord
from taskstatus.domain.registration_terms import DynamicPolicy, RegistrationMode, RegistrationTerms, is_within
from taskstatus.domain.state import TaskState
from tests.unit.factories import (
    EXECUTION_ID,
    PARSER_CALLER,
    START,
    TASK_ID,
    UNIX_NOW,
    a_credential,
    a_registration,
    a_running_step,
    a_step,
    a_task_in,
    an_activation,
    step_event,
)
from tests.unit.service_kit import Kit, drive, execution_of

RUNNING = Lifecycle.RUNNING


def terms(mode: RegistrationMode = RegistrationMode.MIXED, **policy: Any) -> RegistrationTerms:
    """Terms with a policy of their own."""
    return RegistrationTerms(mode, DynamicPolicy(**policy))


def put(kit: Kit, of: RegistrationTerms | None = None, **parent: Any) -> None:
    """A running task whose parse step runs as EXECUTION_ID."""
    kit.put(a_task_in(RUNNING, terms=of or terms()), a_running_step(**parent))


def register(kit: Kit, key: str = "search", **changes: Any) -> Any:
    """The answer to a registration."""
    return drive(kit.registration.activate(a_registration(key=key, **changes)))


def refusal(kit: Kit, command: ActivateAttempt) -> RefusedError:
    """Why a registration is refused; checks that nothing was written."""
    tables = kit.tables
    before = [dict(part) for part in (tables.tasks, tables.steps, tables.runs, tables.events, tables.dedups)]
    with pytest.raises(RefusedError) as caught:
        drive(kit.registration.activate(command))
    assert [tables.tasks, tables.steps, tables.runs, tables.events, tables.dedups] == before
    return caught.value


def test_r2_fixed_manifest_takes_no_step_more(kit: Kit) -> None:
    put(kit, terms(RegistrationMode.FIXED))
    assert refusal(kit, a_registration()).reason is Reason.TRANSITION_NOT_ALLOWED


def test_r2_minimal_task_gets_its_steps_while_running(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, terms=terms(RegistrationMode.MINIMAL), open_steps=0))
    register(kit)
    assert (kit.only_task().open_steps, kit.only_task().open_dynamic) == (1, 1)


@pytest.mark.parametrize(("code", "allowed"), [("SEARCH.WEB", True), ("TOOL.RUN", False), ("SEARCHES.X", False)])
def test_r5_child_lies_in_an_allowed_namespace(kit: Kit, code: str, allowed: bool) -> None:
    put(kit, terms(child_operations=("SEARCH.*",)))
    command = a_registration(operation_code=code)
    if allowed:
        assert drive(kit.registration.activate(command)).created
    else:
        assert refusal(kit, command).reason is Reason.PERMISSION_DENIED


@pytest.mark.parametrize(("patterns", "allowed"), [(("DOCUMENT.*",), True), (("AGENT.RUN",), False), ((), True)])
def test_r5_parent_named_by_the_coordinator_is_an_allowed_one(
    kit: Kit, patterns: tuple[str, ...], allowed: bool
) -> None:
    put(kit, terms(parent_operations=patterns))
    command = a_registration(parent_execution_id=EXECUTION_ID)
    if allowed:
        assert drive(kit.registration.activate(command)).created
    else:
        assert refusal(kit, command).reason is Reason.PERMISSION_DENIED


def test_r5_depth_is_counted_below_the_manifest(kit: Kit) -> None:
    put(kit, terms(max_depth=2))
    first = register(kit, "a", parent_execution_id=EXECUTION_ID)
    second = register(kit, "b", parent_execution_id=first.binding.execution_id)
    third = a_registration(key="c", parent_execution_id=second.binding.execution_id)

    assert (kit.step("dyn_a").definition.depth, kit.step("dyn_b").definition.depth) == (1, 2)
    refused = refusal(kit, third)
    assert (refused.reason, refused.retry_after_seconds) == (Reason.DYNAMIC_LIMIT_REACHED, None)


def test_r5_number_of_dynamic_steps_is_bounded(kit: Kit) -> None:
    put(kit, terms(max_steps=2))
    register(kit, "a")
    register(kit, "b")
    assert refusal(kit, a_registration(key="c")).reason is Reason.DYNAMIC_LIMIT_REACHED
    assert register(kit, "b", attempt=2).created, "another attempt of a known step is no further step"


def test_r5_open_executions_are_bounded_and_free_themselves(kit: Kit) -> None:
    put(kit, terms(max_parallel=1))
    register(kit, "a")
    refused = refusal(kit, a_registration(key="b"))
    assert (refused.reason, refused.retry_after_seconds) == (Reason.DYNAMIC_LIMIT_REACHED, 1.0)
    assert register(kit, "a", attempt=2).created, "the superseded execution is open no longer"

    step = kit.step("dyn_a", 2)
    kit.report(step_event(EventType.STEP_STARTED, of=step), step_event(EventType.STEP_COMPLETED, 2, of=step))

    assert kit.only_task().open_dynamic == 0
    assert register(kit, "b").created


def test_r5_registrations_per_minute_are_exact_and_say_when_to_come_again(kit: Kit) -> None:
    put(kit, terms(max_per_minute=2))
    register(kit, "a")
    kit.store.clock.advance(20)
    register(kit, "b")
    kit.store.clock.advance(39)
    refused = refusal(kit, a_registration(key="c"))
    assert refused.reason is Reason.DYNAMIC_LIMIT_REACHED
    assert refused.retry_after_seconds is not None
    assert 0 < refused.retry_after_seconds <= 1.0
    kit.store.clock.advance(1)
    assert register(kit, "c").created


def test_r4_repeat_is_no_registration(kit: Kit) -> None:
    put(kit, terms(max_steps=1, max_per_minute=1))
    first = register(kit)
    again = register(kit)
    assert (again.created, again.binding) == (False, first.binding)
    assert kit.tables.runs[(TASK_ID, 1)].run.dynamic_steps == 1


@given(
    limit=st.integers(1, 8),
    waits=st.lists(st.integers(0, 30), min_size=1, max_size=60),
)
def test_r5_never_more_registrations_in_any_sixty_seconds(limit: int, waits: list[int]) -> None:
    run, now = RunRecord(TASK_ID, 0, 1, "", 0, START), START
    task: TaskState = a_task_in(RUNNING)
    limits = DynamicLimits(max_steps=1_000, max_per_minute=limit)
    accepted: list[datetime] = []
    for wait in waits:
        now += timedelta(seconds=wait)
        try:
            run = count_registration(task, run, limits, is_new_step=True, depth=1, now=now)
        except RefusedError as refused:
            assert refused.retry_after_seconds is not None
            now += timedelta(seconds=refused.retry_after_seconds)
            run = count_registration(task, run, limits, is_new_step=True, depth=1, now=now)
        accepted.append(now)
        assert len([moment for moment in accepted if moment > now - timedelta(seconds=60)]) <= limit
    assert run.dynamic_steps == len(waits)
    assert len(run.registered_at) <= limit


@given(code=st.text("AB.", min_size=1, max_size=6), prefix=st.text("AB", min_size=1, max_size=3))
def test_r5_namespace_holds_what_begins_with_it(code: str, prefix: str) -> None:
    assert is_within(code, (f"{prefix}.*",)) == code.startswith(f"{prefix}.")
    assert is_within(code, (code,))


# A parent that registers its child itself.

AGENT = terms(parent_operations=("DOCUMENT.PARSE",))


def by_parent(key: str = "search", **changes: Any) -> ActivateAttempt:
    """A registration by the parse step's own execution."""
    credential = ParentCredential(a_credential(), grants_children=True, received_unix=UNIX_NOW)
    credential = replace(credential, **changes)
    command: ActivateAttempt = a_registration(
        key=key, parent_execution_id=EXECUTION_ID, caller=PARSER_CALLER, parent=credential
    )
    return command


def test_r4_running_parent_registers_a_child_under_itself(kit: Kit) -> None:
    put(kit, AGENT)

    bound = drive(kit.registration.activate(by_parent()))

    event = kit.tables.events[(TASK_ID, 2)]
    assert (bound.step.definition.parent_execution_id, bound.step.definition.depth) == (EXECUTION_ID, 1)
    assert (event.event_type, event.actor) == (EventType.EXECUTION_REGISTERED, "service:document-parser")


def test_r5_binding_grants_children_by_the_tasks_policy(kit: Kit) -> None:
    kit.put(a_task_in(RUNNING, terms=AGENT), a_step(activated=False))
    bound = drive(kit.registration.activate(an_activation()))
    assert bound.binding.may_register_children
    assert not register(kit).binding.may_register_children


@pytest.mark.parametrize(
    ("parent", "credential", "reason"),
    [
        ({}, {"grants_children": False}, Reason.PERMISSION_DENIED),
        ({}, {"received_unix": UNIX_NOW + 901}, Reason.TOKEN_EXPIRED),
        ({"generation": 2}, {}, Reason.TOKEN_REVOKED),
        ({"superseded": True}, {}, Reason.STALE_ATTEMPT),
        ({"lifecycle": Lifecycle.SUCCEEDED}, {}, Reason.TERMINAL),
        ({"lifecycle": Lifecycle.PENDING}, {}, Reason.TRANSITION_NOT_ALLOWED),
    ],
)
def test_r4_parent_that_may_not_is_refused(
    kit: Kit, parent: dict[str, Any], credential: dict[str, Any], reason: Reason
) -> None:
    put(kit, AGENT, **parent)
    assert refusal(kit, by_parent(**credential)).reason is reason


def test_r5_policy_of_the_task_goes_before_the_credential(kit: Kit) -> None:
    put(kit, terms(parent_operations=("AGENT.RUN",)))
    assert refusal(kit, by_parent()).reason is Reason.PERMISSION_DENIED


def test_r4_worker_without_a_parents_credential_registers_nothing(kit: Kit) -> None:
    put(kit, AGENT)
    command = a_registration(parent_execution_id=EXECUTION_ID, caller=PARSER_CALLER)
    assert refusal(kit, command).reason is Reason.PERMISSION_DENIED


def test_r5_dynamic_child_never_ends_the_task(kit: Kit) -> None:
    put(kit, AGENT)
    drive(kit.registration.activate(by_parent()))
    child = kit.step("dyn_search")
    assert execution_of(child)
    event = step_event(EventType.TASK_COMPLETED, of=child)
    assert kit.reason(event) is Reason.EVENT_TYPE_NOT_ALLOWED


def test_e6_version_of_a_dynamic_step_goes_on_in_a_later_run(kit: Kit) -> None:
    put(kit)
    register(kit, "search")
    register(kit, "search", attempt=2)
    last = kit.step("dyn_search", 2).version
    kit.tables.tasks[TASK_ID] = replace(kit.only_task(), attempt=2, open_dynamic=0)
    kit.tables.runs[(TASK_ID, 2)] = replace(
        kit.tables.runs[(TASK_ID, 1)], run=RunRecord(TASK_ID, 0, 2, "", 0, START), outcome=None
    )

    bound = drive(kit.registration.activate(a_registration(command_id="cmd-run-2")))

    assert (bound.step.task_attempt, bound.step.version) == (2, last + 1)
