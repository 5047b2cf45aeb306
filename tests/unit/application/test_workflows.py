"""Workflows as people and services read and follow them (P-4, A-2)."""

from __future__ import annotations

import pytest

from taskstatus.application.identity import Role, UserIdentity
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.realtime import Realtime
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import format_workflow_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import Grant
from taskstatus.domain.workflow_views import WorkflowScope, WorkflowView
from tests.unit.factories import OWNER, TENANT, UNIX_NOW, a_task_spec, a_workflow_command
from tests.unit.service_kit import a_service, drive
from tests.unit.workflow_kit import WorkflowKit, ids_of

from .test_queries import FakeTokens

VIEWER, ROLE = Grant("USER", "u-99", "VIEW"), Grant("ROLE", "audit", "VIEW")
PROJECT = Grant("PROJECT", "p-7", "OPERATE")


def a_person(user_id: str, tenant_id: str = TENANT, *, projects: str = "", roles: str = "") -> UserIdentity:
    """A verified person."""
    return UserIdentity(tenant_id, user_id, frozenset(projects.split()), frozenset(roles.split()), UNIX_NOW + 600)


@pytest.fixture
def kit() -> WorkflowKit:
    """A workflow that u-99 may see, with a common and a sensitive task, and one of p-7's own."""
    kit = WorkflowKit()
    tasks = (
        a_task_spec(key="common"),
        a_task_spec(key="secret", sensitive=True, grants=(ROLE,)),
        a_task_spec(key="shared", sensitive=True, grants=(PROJECT,)),
    )
    created = drive(kit.registration.create_workflow(a_workflow_command(*tasks, grants=(VIEWER,))))
    kit.workflow_id = created.workflow.workflow_id
    common, secret, shared = ids_of(created)
    kit.start(common, secret, shared)
    kit.complete(common, shared)
    kit.project()
    return kit


def view(kit: WorkflowKit, identity: object) -> WorkflowView:
    """What a reader sees."""
    return drive(kit.workflows.view(identity, format_workflow_id(kit.workflow_id)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("identity", "scope", "tasks", "lifecycle"),
    [
        (a_person(OWNER), WorkflowScope.FULL, 3, Lifecycle.RUNNING),
        (a_service("any", Role.WORKER), WorkflowScope.FULL, 3, Lifecycle.RUNNING),
        (a_person("u-99"), WorkflowScope.READER, 1, Lifecycle.SUCCEEDED),
        (a_person("u-5", projects="p-7"), WorkflowScope.READER, 1, Lifecycle.SUCCEEDED),
        (a_person("u-5", roles="audit"), WorkflowScope.READER, 1, Lifecycle.RUNNING),
        (a_person("u-99", projects="p-7 p-8", roles="audit"), WorkflowScope.READER, 3, Lifecycle.RUNNING),
    ],
)
def test_p4_each_reader_sees_the_aggregate_of_what_they_may_see(
    kit: WorkflowKit, identity: object, scope: WorkflowScope, tasks: int, lifecycle: Lifecycle
) -> None:
    shown = view(kit, identity)

    assert (shown.cut.scope, shown.cut.counts.total, shown.cut.lifecycle) == (scope, tasks, lifecycle)
    assert shown.workflow.version == kit.workflow.version


@pytest.mark.parametrize(
    "identity",
    [
        a_person("u-5"),
        a_person("u-5", projects="p-8", roles="p-7"),
        a_person(OWNER, "t-02"),
        a_service("any", Role.COORDINATOR, scope="other"),
        a_service("any", Role.ADMIN, tenant_id="t-02"),
    ],
)
def test_p4_what_a_reader_may_not_see_does_not_exist(kit: WorkflowKit, identity: object) -> None:
    with pytest.raises(RefusedError) as caught:
        view(kit, identity)
    assert caught.value.reason is Reason.WORKFLOW_NOT_FOUND


def test_p4_a_grant_on_the_workflow_shows_it_also_without_a_task_to_see() -> None:
    kit = WorkflowKit()
    kit.create(True, grants=(VIEWER,))

    shown = view(kit, a_person("u-99"))

    assert (shown.cut.counts.total, shown.cut.lifecycle) == (0, Lifecycle.PENDING)


@pytest.mark.parametrize("text", ["", "wf_", "task_0123", "wf_0191e0a27cf77d0d8cf01a2b3c4d5e6f"])
def test_p4_an_unknown_workflow_is_not_found(kit: WorkflowKit, text: str) -> None:
    with pytest.raises(RefusedError) as caught:
        drive(kit.workflows.view(a_person(OWNER), text))
    assert caught.value.reason is Reason.WORKFLOW_NOT_FOUND


def test_p4_an_unavailable_store_is_the_callers_to_know(kit: WorkflowKit) -> None:
    kit.store.unavailable = True
    with pytest.raises(StoreUnavailableError):
        view(kit, a_person(OWNER))


@pytest.mark.parametrize("user_id", [OWNER, "u-99"])
def test_a2_owner_and_grantees_of_the_workflow_may_follow_it(kit: WorkflowKit, user_id: str) -> None:
    realtime = Realtime(FakeTokens(), kit.queries, kit.workflows, "ws://public")

    token = drive(realtime.subscription(a_person(user_id), "", format_workflow_id(kit.workflow_id)))

    assert token.channel == f"workflow_summary:t-01/{format_workflow_id(kit.workflow_id)}"


@pytest.mark.parametrize("reader", [a_person("u-5", projects="p-7", roles="audit"), a_person(OWNER, "t-02")])
def test_p4_who_sees_only_some_tasks_may_not_follow_the_whole(kit: WorkflowKit, reader: UserIdentity) -> None:
    tokens = FakeTokens()
    realtime = Realtime(tokens, kit.queries, kit.workflows, "ws://public")

    with pytest.raises(RefusedError) as caught:
        drive(realtime.subscription(reader, "", format_workflow_id(kit.workflow_id)))

    assert (caught.value.reason, tokens.signed) == (Reason.WORKFLOW_NOT_FOUND, [])


@pytest.mark.parametrize("ids", [("", ""), ("task_1", "wf_1")])
def test_a2_exactly_one_object_is_named(kit: WorkflowKit, ids: tuple[str, str]) -> None:
    realtime = Realtime(FakeTokens(), kit.queries, kit.workflows, "ws://public")
    with pytest.raises(RefusedError) as caught:
        drive(realtime.subscription(a_person(OWNER), *ids))
    assert caught.value.reason is Reason.INVALID_ARGUMENT
