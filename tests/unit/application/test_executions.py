"""Binding and renewing: who may, for how long, and what revocation does (R-11)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

import pytest

from taskstatus.application.executions import ExecutionDirectory, IssuedCredentials
from taskstatus.application.identity import ExecutionBinding, Role
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from tests.unit.factories import COORDINATOR, EXECUTOR, PARSER, an_id, step_event, task_event
from tests.unit.service_kit import TOKEN_SECONDS, Kit, a_service, drive, execution_of

from .reporting_kit import COORDINATOR_SERVICE, WORKER, ReportingKit


def refusal(call: object) -> Reason:
    """Why a call is refused."""
    with pytest.raises(RefusedError) as caught:
        drive(call)  # type: ignore[arg-type]
    return caught.value.reason


def renew(reporting: ReportingKit, caller: object = WORKER, token: str = "", handle: str = "") -> object:
    """RenewExecution of the execution."""
    execution_id = reporting.bound.binding.execution_id
    return reporting.kit.executions.renew(caller, execution_id, token, handle)  # type: ignore[arg-type]


def revoke(kit: Kit) -> None:
    """Raise the execution's generation, as a revocation does."""
    step = kit.step()
    kit.tables.steps[step.key] = replace(step, generation=2)


def started(reporting: ReportingKit) -> None:
    """The worker has reported twice."""
    reporting.report(reporting.by_token(EventType.STEP_STARTED, 1))


@pytest.mark.parametrize("form", ["token", "handle"])
def test_r4_bind_gives_handle_context_and_next_sequence(reporting: ReportingKit, form: str) -> None:
    started(reporting)
    before = dict(reporting.kit.tables.tasks)
    credential = {"token": "", "handle": "", form: getattr(reporting, form)}

    bound = drive(reporting.kit.executions.bind(WORKER, **credential))

    assert bound.binding == reporting.bound.binding
    assert (bound.next_source_seq, bound.created) == (2, False)
    assert bound.credentials.handle == reporting.handle
    assert reporting.kit.tables.tasks == before


def test_r11_bind_wants_a_live_token(reporting: ReportingKit) -> None:
    reporting.kit.clock.advance(TOKEN_SECONDS)
    executions = reporting.kit.executions
    assert refusal(executions.bind(WORKER, reporting.token, "")) is Reason.TOKEN_EXPIRED
    assert drive(executions.bind(WORKER, "", reporting.handle)).credentials.token != reporting.token


def test_r11_renewal_accepts_a_genuine_expired_token(reporting: ReportingKit) -> None:
    reporting.kit.clock.advance(10 * TOKEN_SECONDS)

    issued = drive(renew(reporting, token=reporting.token))  # type: ignore[arg-type]

    assert isinstance(issued, IssuedCredentials)
    assert issued.token_expires_at == reporting.kit.clock.unix + TOKEN_SECONDS
    assert issued.handle == reporting.handle


@pytest.mark.parametrize("producer", [COORDINATOR, EXECUTOR])
def test_r11_recorded_coordinator_renews_without_a_credential(reporting: ReportingKit, producer: str) -> None:
    issued = drive(renew(reporting, a_service(producer, Role.COORDINATOR)))  # type: ignore[arg-type]
    assert isinstance(issued, IssuedCredentials)
    assert reporting.kit.credentials.open_token(issued.token).binding == reporting.bound.binding


@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        (WORKER, Reason.PERMISSION_DENIED),
        (a_service("other", Role.COORDINATOR), Reason.PERMISSION_DENIED),
        (a_service(COORDINATOR, Role.COORDINATOR, tenant_id="t-02"), Reason.EXECUTION_NOT_FOUND),
        (a_service(COORDINATOR, Role.COORDINATOR, scope="other"), Reason.EXECUTION_NOT_FOUND),
    ],
)
def test_r11_nobody_else_renews_without_a_credential(reporting: ReportingKit, caller: object, reason: Reason) -> None:
    assert refusal(renew(reporting, caller)) is reason


@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        (a_service("other", Role.WORKER), Reason.PRODUCER_MISMATCH),
        (COORDINATOR_SERVICE, Reason.PRODUCER_MISMATCH),
        (a_service(PARSER, Role.WORKER, tenant_id="t-02"), Reason.TOKEN_MISMATCH),
        (a_service(PARSER, Role.WORKER, scope="other"), Reason.TOKEN_MISMATCH),
    ],
)
@pytest.mark.parametrize("form", ["token", "handle"])
def test_r11_credential_of_another_neither_binds_nor_renews(
    reporting: ReportingKit, caller: object, reason: Reason, form: str
) -> None:
    credential = {"token": "", "handle": "", form: getattr(reporting, form)}
    assert refusal(renew(reporting, caller, **credential)) is reason
    assert refusal(reporting.kit.executions.bind(caller, **credential)) is reason  # type: ignore[arg-type]


def test_r11_credential_of_another_execution_does_not_renew(reporting: ReportingKit) -> None:
    other = reporting.kit.executions.renew(WORKER, ExecutionId(an_id(90)), reporting.token, "")
    assert refusal(other) is Reason.TOKEN_MISMATCH


def test_r11_unknown_execution_is_not_found(reporting: ReportingKit) -> None:
    unknown = reporting.kit.executions.renew(COORDINATOR_SERVICE, ExecutionId(an_id(90)), "", "")
    assert refusal(unknown) is Reason.EXECUTION_NOT_FOUND


def test_r11_superseded_execution_is_told_to_stop(reporting: ReportingKit) -> None:
    reporting.activate(attempt=2)
    assert refusal(renew(reporting, token=reporting.token)) is Reason.STALE_ATTEMPT
    assert refusal(renew(reporting, COORDINATOR_SERVICE)) is Reason.STALE_ATTEMPT
    assert refusal(reporting.kit.executions.bind(WORKER, "", reporting.handle)) is Reason.STALE_ATTEMPT


@pytest.mark.parametrize("event_type", [EventType.STEP_COMPLETED, EventType.TASK_COMPLETED])
def test_r11_ended_execution_is_told_so(reporting: ReportingKit, event_type: EventType) -> None:
    kit = reporting.kit
    task_id = kit.only_task().envelope.task_id
    if event_type is EventType.TASK_COMPLETED:
        kit.report(task_event(event_type, task_id=task_id))
    else:
        workflow_id = kit.only_task().envelope.workflow_id
        kit.report(step_event(event_type, of=kit.step(), workflow_id=workflow_id))

    assert refusal(renew(reporting, token=reporting.token)) is Reason.TERMINAL
    assert refusal(kit.executions.bind(WORKER, reporting.token, "")) is Reason.TERMINAL


def test_r11_execution_of_an_ended_task_is_told_so_whatever_its_own_state(reporting: ReportingKit) -> None:
    tables = reporting.kit.tables
    task = reporting.kit.only_task()
    tables.tasks[task.envelope.task_id] = replace(task, lifecycle=Lifecycle.TIMED_OUT)

    assert refusal(renew(reporting, token=reporting.token)) is Reason.TERMINAL


def test_r11_revocation_is_immediate_for_every_credential(reporting: ReportingKit) -> None:
    revoke(reporting.kit)
    executions = reporting.kit.executions
    assert refusal(executions.bind(WORKER, reporting.token, "")) is Reason.TOKEN_REVOKED
    assert refusal(executions.bind(WORKER, "", reporting.handle)) is Reason.TOKEN_REVOKED
    assert refusal(renew(reporting, token=reporting.token)) is Reason.TOKEN_REVOKED


def test_r11_coordinators_renewal_after_a_revocation_is_of_the_new_generation(reporting: ReportingKit) -> None:
    revoke(reporting.kit)
    issued = drive(renew(reporting, COORDINATOR_SERVICE))  # type: ignore[arg-type]
    assert isinstance(issued, IssuedCredentials)
    assert reporting.kit.credentials.open_token(issued.token).generation == 2
    assert drive(reporting.kit.executions.bind(WORKER, issued.token, "")).step.generation == 2


@pytest.mark.parametrize("event_type", [EventType.STEP_STARTED, EventType.STEP_COMPLETED])
def test_r11_only_revocation_moves_the_generation(reporting: ReportingKit, event_type: EventType) -> None:
    reporting.report(reporting.by_token(event_type))
    drive(renew(reporting, COORDINATOR_SERVICE)) if event_type is EventType.STEP_STARTED else None  # type: ignore[arg-type]
    assert reporting.kit.step().generation == 1


def test_r11_supersession_does_not_move_the_generation(reporting: ReportingKit) -> None:
    reporting.activate(attempt=2)
    assert [reporting.kit.step(attempt=number).generation for number in (1, 2)] == [1, 1]


def test_r4_looking_executions_up_never_walks_through_all_that_are_known(reporting: ReportingKit) -> None:
    class Unwalkable(OrderedDict[ExecutionId, ExecutionBinding]):
        def __iter__(self) -> Iterator[ExecutionId]:
            raise AssertionError("a call must cost the same whatever is cached")

        keys = __iter__  # type: ignore[assignment]

    directory = ExecutionDirectory(reporting.kit.reader)
    known = drive(directory.binding(execution_of(reporting.kit.step())))
    directory._cache = Unwalkable({known.execution_id: known})

    drive(directory.prefetch([known.execution_id]))
    assert drive(directory.binding(known.execution_id)) == known


def test_r11_missing_credential_is_unauthenticated(reporting: ReportingKit) -> None:
    assert refusal(reporting.kit.executions.bind(WORKER, "", "")) is Reason.UNAUTHENTICATED


def test_r4_directory_is_bounded_and_keeps_what_is_used(reporting: ReportingKit) -> None:
    kit = reporting.kit
    directory = ExecutionDirectory(kit.reader, size=1)
    first = execution_of(kit.step())
    second = reporting.activate(attempt=2).binding.execution_id

    for execution_id in (first, second, first):
        assert drive(directory.binding(execution_id)).execution_id == execution_id
    kit.tables.execution_keys.clear()

    assert drive(directory.binding(first)).step_id == "02_parse"
    assert refusal(directory.binding(second)) is Reason.EXECUTION_NOT_FOUND
