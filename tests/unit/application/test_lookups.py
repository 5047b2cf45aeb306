"""From a number, an event or a trace to what the caller may see (Q-3, ID-5)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import pytest

from taskstatus.adapters.memory.lists import MemoryTaskLists
from taskstatus.application.identity import Identity, Role, UserIdentity
from taskstatus.application.lookups import EVENTS_MAX, TRACE_EVENTS_MAX, Lookups
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import TaskId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.records import ExternalRefRecord
from taskstatus.domain.state import ExternalRef, Grant
from tests.unit.factories import BUCKET, OWNER, SCOPE, START, TENANT, a_step, a_task, an_id, step_event
from tests.unit.service_kit import Kit, a_service, drive

REF = ExternalRef("ORDER_ID", "4711")
TRACE = bytes(range(16))
SERVICE = a_service("any", Role.WORKER)


def a_person(user_id: str = OWNER, tenant_id: str = TENANT) -> UserIdentity:
    """A verified person."""
    return UserIdentity(tenant_id, user_id, frozenset(), frozenset(), 0.0)


@pytest.fixture
def lookups(kit: Kit) -> Lookups:
    """Over the kit's store."""
    return Lookups(MemoryTaskLists(kit.store))


def put_numbered(kit: Kit) -> None:
    """The same number in two scopes; the second task is another person's."""
    for number, (scope, owner) in enumerate(((SCOPE, OWNER), ("billing", "u-99"))):
        task_id = TaskId(an_id(500 + number))
        kit.put(a_task(task_id=task_id, authority_scope=scope, owner_id=owner, client_task_key=scope))
        row = ExternalRefRecord(BUCKET, TENANT, scope, REF, task_id, START)
        kit.tables.external_refs[(TENANT, scope, REF)] = row


def found(read: Awaitable[object]) -> object:
    """The keys of the tasks found, or why there are none."""
    try:
        named = drive(read)  # type: ignore[arg-type, var-annotated]
    except RefusedError as refusal:
        return refusal.reason
    return [task.envelope.client_task_key for task in named.tasks]


@pytest.mark.parametrize(
    ("caller", "scope", "expected"),
    [
        (SERVICE, "", [SCOPE]),
        (SERVICE, SCOPE, [SCOPE]),
        (SERVICE, "billing", Reason.TASK_NOT_FOUND),
        (a_service("any", Role.ADMIN, scope="billing"), "", ["billing"]),
        (a_service("any", Role.ADMIN, tenant_id="t-02"), "", Reason.TASK_NOT_FOUND),
        (a_person(), "", [SCOPE]),
        (a_person(), "billing", Reason.TASK_NOT_FOUND),
        (a_person("u-99"), "", ["billing"]),
        (a_person("u-1"), "", Reason.TASK_NOT_FOUND),
        (a_person(tenant_id="t-02"), "", Reason.TASK_NOT_FOUND),
    ],
)
def test_id5_number_leads_to_the_tasks_that_the_caller_may_see(
    kit: Kit, lookups: Lookups, caller: Identity, scope: str, expected: object
) -> None:
    put_numbered(kit)
    assert found(lookups.external_ref(caller, REF, scope)) == expected


def test_id5_number_in_two_scopes_shows_both_to_who_sees_both(kit: Kit, lookups: Lookups) -> None:
    put_numbered(kit)
    kit.tables.grants[(TaskId(an_id(501)), "USER", OWNER)] = Grant("USER", OWNER, "VIEW")
    assert found(lookups.external_ref(a_person(), REF, "")) == ["billing", SCOPE]
    assert found(lookups.external_ref(a_person(), ExternalRef("ORDER_ID", "4712"), "")) is Reason.TASK_NOT_FOUND


def test_q3_event_and_trace_lead_to_version_and_notifications(kit: Kit, lookups: Lookups) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(EventType.STEP_STARTED, 1, event_id="evt-1", trace_id=TRACE))
    kit.report(step_event(EventType.STEP_COMPLETED, 2, event_id="evt-2", trace_id=TRACE))

    (event,) = drive(lookups.event(SERVICE, "evt-2"))
    trace = drive(lookups.trace(SERVICE, TRACE.hex()))

    assert (event.task_version, event.event_type, len(event.notifications)) == (3, EventType.STEP_COMPLETED, 2)
    assert [e.event_id for e in trace.events] == ["evt-1", "evt-2"]
    assert trace.events[1] == event
    assert not trace.truncated


@pytest.mark.parametrize("other", [{"scope": "other"}, {"tenant_id": "t-02"}])
def test_q3_other_scopes_and_tenants_find_nothing(kit: Kit, lookups: Lookups, other: dict[str, str]) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(EventType.STEP_STARTED, 1, event_id="evt-1", trace_id=TRACE))
    caller = a_service("any", Role.ADMIN, **other)
    assert list(drive(lookups.event(caller, "evt-1"))) == []
    assert list(drive(lookups.trace(caller, TRACE.hex())).events) == []
    assert list(drive(lookups.event(SERVICE, "evt-unknown"))) == []


def test_q3_long_lists_are_cut_and_a_trace_says_so(kit: Kit, lookups: Lookups) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(EventType.STEP_STARTED, 1, event_id="evt-1", trace_id=TRACE))
    (event,) = kit.tables.events.values()
    for number in range(TRACE_EVENTS_MAX):
        task_id = TaskId(an_id(1000 + number))
        kit.put(a_task(task_id=task_id, client_task_key=f"t-{number}"))
        kit.tables.events[(task_id, 2)] = replace(event, task_id=task_id)

    trace = drive(lookups.trace(SERVICE, TRACE.hex()))

    assert (len(trace.events), trace.truncated) == (TRACE_EVENTS_MAX, True)
    assert len(drive(lookups.event(SERVICE, "evt-1"))) == EVENTS_MAX


@pytest.mark.parametrize("odd", ["", "0" * 32, "A" * 32, "a" * 31, "a" * 33, "g" * 32, "a" * 31 + "\n", "٣" * 32])
def test_q3_odd_trace_id_is_refused(lookups: Lookups, odd: str) -> None:
    with pytest.raises(RefusedError) as caught:
        drive(lookups.trace(SERVICE, odd))
    assert [violation.field for violation in caught.value.violations] == ["traceId"]


@pytest.mark.parametrize("odd", ["", "with space", "x" * 65, "é"])
def test_q3_odd_event_id_is_refused(lookups: Lookups, odd: str) -> None:
    with pytest.raises(RefusedError) as caught:
        drive(lookups.event(SERVICE, odd))
    assert [violation.field for violation in caught.value.violations] == ["eventId"]
