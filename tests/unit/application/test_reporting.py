"""From a decoded event to the one command that every form leads to (E-1, E-2, E-9, E-10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskstatus.application.identity import Role
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.report import UndecodedEvent
from taskstatus.domain.commands import StatedFields
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import REPORTABLE_EVENTS, TASK_EVENTS, EventType
from taskstatus.domain.ids import format_execution_id, format_task_id
from taskstatus.domain.progress import Progress
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Refused
from tests.unit.factories import MONOTONIC_NOW, PARSER
from tests.unit.service_kit import a_service, kinds_of, reason_of

from .reporting_kit import COORDINATOR_SERVICE, WORKER, ReportingKit


def task_text(reporting: ReportingKit) -> str:
    """The id of the only task."""
    return format_task_id(reporting.kit.only_task().envelope.task_id)


def test_e9_token_and_handle_lead_to_the_same_command(reporting: ReportingKit) -> None:
    reporting.report(reporting.by_token(), reporting.by_handle())

    full, compact = reporting.writer.submitted
    assert full.canonical == compact.canonical
    assert full.digest == compact.digest
    assert replace(full, credential=None) == replace(compact, credential=None)
    assert full.credential is not None
    assert compact.credential is not None
    assert (full.credential.expires_at is None, compact.credential.expires_at) == (False, None)


def test_e9_full_form_then_handle_is_a_duplicate(reporting: ReportingKit) -> None:
    binding = reporting.bound.binding
    stated = StatedFields(
        task_id=task_text(reporting),
        step_id="02_parse",
        step_attempt=1,
        execution_id=format_execution_id(binding.execution_id),
        producer_id=PARSER,
    )
    verdicts = reporting.report(reporting.by_token(stated=stated), reporting.by_handle())
    assert kinds_of(verdicts) == ["Accepted", "Duplicate"]


def test_e2_command_is_bound_by_its_credential_not_by_its_body(reporting: ReportingKit) -> None:
    reporting.report(reporting.by_handle())
    (command,) = reporting.writer.submitted
    binding = reporting.bound.binding
    assert (command.task_id, command.step_id, command.step_attempt) == (binding.task_id, "02_parse", 1)
    assert (command.execution_id, command.operation_code) == (binding.execution_id, "DOCUMENT.PARSE")
    assert command.caller == command.bound
    assert (command.trace_id, command.traceparent) == (bytes(range(16)), "00-trace")


@pytest.mark.parametrize("form", ["token", "handle"])
def test_e2_forged_credential_is_unauthenticated(reporting: ReportingKit, form: str) -> None:
    (verdict,) = reporting.report(reporting.draft(**{form: "forged"}))
    assert reason_of(verdict) is Reason.UNAUTHENTICATED
    assert not reporting.writer.submitted


def test_e2_token_and_handle_together_are_invalid(reporting: ReportingKit) -> None:
    (verdict,) = reporting.report(reporting.draft(token=reporting.token, handle=reporting.handle))
    assert reason_of(verdict) is Reason.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        (a_service("other", Role.WORKER), Reason.PRODUCER_MISMATCH),
        (a_service(PARSER, Role.WORKER, tenant_id="t-02"), Reason.TOKEN_MISMATCH),
        (a_service(PARSER, Role.WORKER, scope="other"), Reason.TOKEN_MISMATCH),
    ],
)
def test_r11_credential_of_another_is_not_enough(reporting: ReportingKit, caller: object, reason: Reason) -> None:
    drafts = [reporting.by_token(caller=caller), reporting.by_handle(caller=caller)]
    assert [reason_of(verdict) for verdict in reporting.report(*drafts)] == [reason, reason]


def test_r11_expired_token_is_refused_and_the_handle_still_good(reporting: ReportingKit) -> None:
    later = reporting.by_token()
    expired = replace(later, received_unix=later.received_unix + 900)
    handle = replace(reporting.by_handle(), received_unix=expired.received_unix)
    assert [reason_of(verdict) for verdict in reporting.report(expired, handle)] == [Reason.TOKEN_EXPIRED, None]


@pytest.mark.parametrize("event_type", sorted(TASK_EVENTS))
def test_e1_task_event_needs_the_service_identity_only(reporting: ReportingKit, event_type: EventType) -> None:
    stated = StatedFields(task_id=task_text(reporting))
    (verdict,) = reporting.report(reporting.draft(event_type, caller=COORDINATOR_SERVICE, stated=stated))
    assert kinds_of([verdict]) == ["Accepted"]
    (command,) = reporting.writer.submitted
    assert (command.execution_id, command.step_id, command.operation_code, command.credential) == (None, "", "", None)


@pytest.mark.parametrize("event_type", [EventType.STEP_CANCELLED, EventType.STEP_TIMED_OUT])
def test_e1_coordinator_ends_a_step_by_naming_it(reporting: ReportingKit, event_type: EventType) -> None:
    stated = StatedFields(task_id=task_text(reporting), step_id="02_parse")
    (verdict,) = reporting.report(reporting.draft(event_type, caller=COORDINATOR_SERVICE, stated=stated))
    assert kinds_of([verdict]) == ["Accepted"]


def test_e1_own_events_of_the_service_are_refused(reporting: ReportingKit) -> None:
    stated = StatedFields(task_id=task_text(reporting))
    for event_type in set(EventType) - REPORTABLE_EVENTS:
        bare = reporting.draft(event_type, caller=COORDINATOR_SERVICE, stated=stated)
        verdicts = reporting.report(bare, reporting.by_token(event_type), reporting.by_handle(event_type))
        assert [reason_of(verdict) for verdict in verdicts] == [Reason.EVENT_TYPE_NOT_ALLOWED] * 3, event_type


def test_e2_execution_event_without_credential_is_unauthenticated(reporting: ReportingKit) -> None:
    (verdict,) = reporting.report(reporting.draft(EventType.STEP_STARTED))
    assert reason_of(verdict) is Reason.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("event_type", "stated", "field"),
    [
        (EventType.TASK_STARTED, StatedFields(), "taskId"),
        (EventType.STEP_CANCELLED, StatedFields(task_id=format_task_id(bytes(16))), "stepId"),
    ],
)
def test_e1_coordinator_must_say_what_it_means(
    reporting: ReportingKit, event_type: EventType, stated: StatedFields, field: str
) -> None:
    if stated.task_id:
        stated = replace(stated, task_id=task_text(reporting))
    (verdict,) = reporting.report(reporting.draft(event_type, caller=COORDINATOR_SERVICE, stated=stated))
    assert isinstance(verdict, Refused)
    assert [violation.field for violation in verdict.error.violations] == [field]


def test_id4_task_id_that_cannot_exist_is_not_found(reporting: ReportingKit) -> None:
    stated = StatedFields(task_id="task_nonsense")
    (verdict,) = reporting.report(reporting.draft(EventType.TASK_STARTED, caller=COORDINATOR_SERVICE, stated=stated))
    assert reason_of(verdict) is Reason.TASK_NOT_FOUND


def test_e10_one_result_for_each_item_in_order(reporting: ReportingKit) -> None:
    verdicts = reporting.report(
        reporting.by_token(EventType.STEP_STARTED, 1),
        UndecodedEvent(WORKER, "grpc", "", invalid("eventId", "is required"), 1.0, None),
        reporting.draft(token="forged"),
        reporting.by_handle(EventType.STEP_COMPLETED, 2),
    )
    assert [reason_of(verdict) for verdict in verdicts] == [None, Reason.INVALID_ARGUMENT, Reason.UNAUTHENTICATED, None]
    assert [transport for transport, _ in reporting.kit.observer.judged] == ["grpc"] * 4
    assert reporting.kit.only_task().version == 3


def test_e10_items_of_one_call_share_their_group(reporting: ReportingKit) -> None:
    reporting.report(reporting.by_token(), reporting.by_token(EventType.STEP_COMPLETED, 2))
    reporting.report(reporting.by_token(EventType.STEP_FAILED, 3))
    first, second, third = reporting.writer.groups
    assert first is second
    assert first is not third


@pytest.fixture
def no_lookup(reporting: ReportingKit, monkeypatch: pytest.MonkeyPatch) -> ReportingKit:
    """The store cannot tell what an execution is bound to."""

    async def unavailable(_: object) -> None:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(reporting.kit.reader, "execution_bindings", unavailable)
    return reporting


def test_e10_execution_that_cannot_be_looked_up_fails_its_own_item(no_lookup: ReportingKit) -> None:
    verdicts = no_lookup.report(no_lookup.by_token(), no_lookup.by_handle(EventType.STEP_COMPLETED, 2))

    assert [reason_of(verdict) for verdict in verdicts] == [None, Reason.UNAVAILABLE]


def test_e10_items_after_a_failed_look_up_of_their_execution_wait(no_lookup: ReportingKit) -> None:
    verdicts = no_lookup.report(no_lookup.by_handle(), no_lookup.by_token(EventType.STEP_COMPLETED, 2))

    assert [reason_of(verdict) for verdict in verdicts] == [Reason.UNAVAILABLE] * 2
    assert no_lookup.kit.only_task().version == 1


def test_r11_handle_of_no_execution_is_not_found(reporting: ReportingKit) -> None:
    stranger = replace(reporting.bound.binding, execution_id=bytes(16))
    handle = reporting.kit.credentials.make_handle(stranger, 1)
    (verdict,) = reporting.report(reporting.draft(handle=handle))
    assert reason_of(verdict) is Reason.EXECUTION_NOT_FOUND


def test_e10_refusal_given_as_an_item_is_its_verdict(reporting: ReportingKit) -> None:
    refusal = RefusedError(Reason.PAYLOAD_TOO_LARGE, "too large")
    undecoded = UndecodedEvent(WORKER, "rest", "evt-1", refusal, 1.0, None)
    (verdict,) = reporting.report(undecoded)
    assert isinstance(verdict, Refused)
    assert verdict.error is refusal
    assert WORKER.producer_id == PARSER


def test_n4_a_refused_report_is_kept_without_its_content_or_credential(reporting: ReportingKit) -> None:
    reporting.report(reporting.draft(EventType.STEP_STARTED))
    (record,) = reporting.audit.records
    assert (record.reason, record.producer_id, record.event_type) == (Reason.UNAUTHENTICATED, PARSER, "STEP_STARTED")
    assert (record.transport, record.trace_id) == ("grpc", bytes(range(16)))


def test_n4_accepted_late_and_unavailable_reports_are_not_in_the_audit(no_lookup: ReportingKit) -> None:
    no_lookup.report(no_lookup.by_token(), no_lookup.by_handle(EventType.STEP_COMPLETED, 2))
    no_lookup.report(no_lookup.by_token())
    assert no_lookup.audit.records == []


def test_t2_a_bound_credential_leads_to_the_command_of_its_token(reporting: ReportingKit) -> None:
    grant = reporting.kit.credentials.open_token(reporting.token)
    reporting.report(reporting.by_token(), replace(reporting.draft(), grant=grant))

    by_token, bound = reporting.writer.submitted
    assert by_token == bound


def test_h7_accepted_progress_is_a_sign_of_life(reporting: ReportingKit) -> None:
    execution_id = reporting.bound.binding.execution_id
    halfway = Progress(5, 10, "page")
    reporting.report(reporting.by_handle(EventType.STEP_PROGRESS, 1, progress=halfway))
    reporting.report(reporting.by_handle())
    assert reporting.leases.renewed == {}

    reporting.report(reporting.by_handle(EventType.STEP_PROGRESS, 2, progress=halfway))
    assert reporting.leases.renewed == {execution_id: MONOTONIC_NOW}


def test_h7_progress_that_says_nothing_new_is_a_sign_of_life_and_a_repeat_is_none(reporting: ReportingKit) -> None:
    first = reporting.by_handle(EventType.STEP_PROGRESS, 2, event_id="evt-2", progress=Progress(5, 10, "page"))
    reporting.report(reporting.by_handle(), first)
    reporting.leases.renewed.clear()

    reporting.report(first)
    assert reporting.leases.renewed == {}

    reporting.report(reporting.by_handle(EventType.STEP_PROGRESS, 3, progress=Progress(5, 10, "page"), progress_seq=0))
    assert len(reporting.leases.renewed) == 1
