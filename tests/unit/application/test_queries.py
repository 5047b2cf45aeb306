"""Who may see a task, and that what one may not see does not exist (Q-1, P-4, A-2)."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from taskstatus.application.identity import Identity, Role, UserIdentity
from taskstatus.application.query import TIMELINE_LIMIT_MAX
from taskstatus.application.realtime import Realtime
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import format_task_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import Grant
from tests.unit.factories import COORDINATOR, OWNER, TASK_ID, TENANT, a_step, a_task, a_task_in, step_event, task_event
from tests.unit.service_kit import Kit, a_service, drive

TASK = format_task_id(TASK_ID)


def a_person(user_id: str = "u-99", *, tenant_id: str = TENANT, projects: str = "", roles: str = "") -> UserIdentity:
    """A verified person."""
    return UserIdentity(tenant_id, user_id, frozenset(projects.split()), frozenset(roles.split()), 0.0)


def grant(kit: Kit, *grants: Grant) -> None:
    """Give access to the task."""
    for given in grants:
        kit.tables.grants[(TASK_ID, given.principal_type, given.principal_id)] = given


def sees(kit: Kit, identity: Identity) -> bool:
    """Whether the caller gets the task, in every way of reading it alike."""
    refusals = []
    reads: list[Coroutine[Any, Any, object]] = [
        kit.queries.task(identity, TASK),
        kit.queries.timeline(identity, TASK, 0, 0),
    ]
    for read in reads:
        try:
            drive(read)
        except RefusedError as refusal:
            refusals.append((refusal.reason, refusal.message))
    assert refusals in ([], [(Reason.TASK_NOT_FOUND, "no such task")] * 2)
    return not refusals


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (a_service(COORDINATOR, Role.COORDINATOR), True),
        (a_service("anyone", Role.WORKER), True),
        (a_service(COORDINATOR, Role.COORDINATOR, tenant_id="t-02"), False),
        (a_service(COORDINATOR, Role.COORDINATOR, scope="other"), False),
        (a_person(OWNER), True),
        (a_person(OWNER, tenant_id="t-02"), False),
        (a_person("u-99"), False),
        (a_person(OWNER.upper()), False),
        (a_person(OWNER + " "), False),
    ],
)
def test_p4_who_sees_a_task_without_grants(kit: Kit, identity: Identity, expected: bool) -> None:
    kit.put(a_task())
    assert sees(kit, identity) is expected


@pytest.mark.parametrize(
    ("given", "identity", "expected"),
    [
        (Grant("USER", "u-99", "VIEW"), a_person("u-99"), True),
        (Grant("USER", "u-99", "OPERATE"), a_person("u-99"), True),
        (Grant("USER", "u-99", "ADMIN"), a_person("u-99"), True),
        (Grant("USER", "u-99", "VIEW"), a_person("u-77"), False),
        (Grant("USER", "u-99", "VIEW"), a_person("u-99", tenant_id="t-02"), False),
        (Grant("USER", "p-7", "VIEW"), a_person("u-77", projects="p-7", roles="p-7"), False),
        (Grant("PROJECT", "p-7", "VIEW"), a_person("u-77", projects="p-1 p-7"), True),
        (Grant("PROJECT", "p-7", "VIEW"), a_person("p-7"), False),
        (Grant("ROLE", "audit", "VIEW"), a_person("u-77", roles="audit"), True),
        (Grant("ROLE", "audit", "VIEW"), a_person("u-77", projects="audit"), False),
        (Grant("GROUP", "u-99", "VIEW"), a_person("u-99"), False),
    ],
)
def test_p4_grant_shows_the_task_to_its_principal(kit: Kit, given: Grant, identity: Identity, expected: bool) -> None:
    kit.put(a_task())
    grant(kit, given)
    assert sees(kit, identity) is expected


@pytest.mark.parametrize("odd", ["", "nonsense", TASK.upper(), f"wf_{TASK_ID.hex()}", TASK + " ", f"task_{'0' * 32}"])
def test_id4_odd_task_id_is_not_found(kit: Kit, odd: str) -> None:
    kit.put(a_task())
    with pytest.raises(RefusedError) as caught:
        drive(kit.queries.task(a_person(OWNER), odd))
    assert caught.value.reason is Reason.TASK_NOT_FOUND


def test_q1_bare_uuid_is_a_task_id_too(kit: Kit) -> None:
    kit.put(a_task())
    assert drive(kit.queries.task(a_person(OWNER), TASK_ID.hex())).task == kit.only_task()


def test_q2_snapshot_holds_every_attempt_of_the_current_run(kit: Kit) -> None:
    kit.put(a_task_in(Lifecycle.RUNNING, attempt=2), a_step(task_attempt=1), a_step(task_attempt=2, attempt=1))
    view = drive(kit.queries.task(a_person(OWNER), TASK))
    assert [step.task_attempt for step in view.steps] == [2]


def test_q1_timeline_pages_by_version(kit: Kit) -> None:
    kit.put(a_task(), a_step())
    kit.report(step_event(EventType.STEP_STARTED, 1), step_event(EventType.STEP_COMPLETED, 2))
    kit.report(task_event(EventType.TASK_COMPLETED))
    owner = a_person(OWNER)

    page = drive(kit.queries.timeline(owner, TASK, 2, 1))

    assert [event.task_version for event in page.events] == [3]
    assert (page.has_more, page.task_version) == (True, 4)
    assert not drive(kit.queries.timeline(owner, TASK, 3, TIMELINE_LIMIT_MAX)).has_more


def test_q1_limit_beyond_the_most_is_invalid(kit: Kit) -> None:
    kit.put(a_task())
    with pytest.raises(RefusedError) as caught:
        drive(kit.queries.timeline(a_person(OWNER), TASK, 0, TIMELINE_LIMIT_MAX + 1))
    assert [violation.field for violation in caught.value.violations] == ["limit"]


@dataclass
class FakeTokens:
    """Keeps what it was asked to sign."""

    signed: list[tuple[str, object]] = field(default_factory=list)

    def connection_token(self, user: str, channels: list[str]) -> tuple[str, float]:
        """Sign."""
        self.signed.append((user, channels))
        return "connection", 300.0

    def subscription_token(self, user: str, channel: str) -> tuple[str, float]:
        """Sign."""
        self.signed.append((user, channel))
        return "subscription", 300.0


def test_a1_session_subscribes_the_callers_own_channel_only(kit: Kit) -> None:
    tokens = FakeTokens()
    session = Realtime(tokens, kit.queries, kit.workflows, "ws://public").session(a_person("auth0|x"))
    assert (session.url, session.token, session.user_channel) == (
        "ws://public",
        "connection",
        "task_user:t-01/auth0%7Cx",
    )
    assert tokens.signed == [("t-01/auth0%7Cx", ["task_user:t-01/auth0%7Cx"])]


def test_a2_subscription_token_is_for_a_task_that_the_caller_may_see(kit: Kit) -> None:
    kit.put(a_task())
    tokens = FakeTokens()
    realtime = Realtime(tokens, kit.queries, kit.workflows, "ws://public")

    token = drive(realtime.subscription(a_person(OWNER), TASK_ID.hex()))

    assert token.channel == f"task_detail:t-01/{TASK}"
    with pytest.raises(RefusedError) as caught:
        drive(realtime.subscription(a_person("u-99"), TASK))
    assert caught.value.reason is Reason.TASK_NOT_FOUND
    assert len(tokens.signed) == 1
