"""The role × method matrix, written out once more by hand (issue 3 point 4)."""

from __future__ import annotations

import pytest

from taskstatus.application.access import METHOD_ROLES, check_access, roles_of
from taskstatus.application.identity import Identity, Role, ServiceIdentity, UserIdentity
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

COLUMNS = (Role.BUSINESS, Role.COORDINATOR, Role.WORKER, Role.ADMIN, Role.USER)
EXPECTED = {
    #                                                         business  coordin.  worker  admin  user
    "taskstatus.v1.RegisterService/CreateWorkflow":           (True,    True,     False,  False, False),
    "taskstatus.v1.RegisterService/CreateTask":               (True,    True,     False,  False, False),
    "taskstatus.v1.RegisterService/ActivateStep":             (False,   True,     False,  False, False),
    "taskstatus.v1.RegisterService/RegisterExecution":        (False,   True,     True,   False, False),
    "taskstatus.v1.RegisterService/RenewExecution":           (False,   True,     True,   False, False),
    "taskstatus.v1.RegisterService/RequestCancel":            (False,   True,     False,  False, True),
    "taskstatus.v1.RegisterService/RerunTask":                (False,   True,     False,  False, True),
    "taskstatus.v1.RegisterService/ClassifyTask":             (False,   True,     False,  False, False),
    "taskstatus.v1.RegisterService/UpdateTaskMetadata":       (False,   True,     False,  False, False),
    "taskstatus.v1.RegisterService/AttachExternalRef":        (True,    True,     False,  False, False),
    "taskstatus.v1.RegisterService/RevokeExecution":          (False,   True,     False,  True,  False),
    "taskstatus.v1.RegisterService/UpdateWorkflow":           (False,   True,     False,  False, False),
    "taskstatus.v1.ReportService/ReportEvent":                (False,   True,     True,   False, False),
    "taskstatus.v1.ReportService/BatchReportEvents":          (False,   True,     True,   False, False),
    "taskstatus.v1.ReportService/BatchReportCompactEvents":   (False,   True,     True,   False, False),
    "taskstatus.v1.HeartbeatService/BatchHeartbeat":          (False,   False,    True,   False, False),
    "taskstatus.v1.BindExecutionService/BindExecution":       (False,   False,    True,   False, False),
    "taskstatus.v1.BindExecutionService/StreamExecutions":    (False,   False,    True,   False, False),
    "taskstatus.v1.QueryService/GetTask":                     (True,    True,     True,   True,  True),
    "taskstatus.v1.QueryService/ListTaskEvents":              (True,    True,     True,   True,  True),
    "taskstatus.v1.QueryService/ListMyTasks":                 (False,   False,    False,  False, True),
    "taskstatus.v1.QueryService/ListWorkflowTasks":           (True,    True,     True,   True,  True),
    "taskstatus.v1.QueryService/BatchGetTaskStatus":          (True,    True,     True,   True,  True),
    "taskstatus.v1.QueryService/LookupExternalRef":           (True,    True,     True,   True,  True),
    "taskstatus.v1.QueryService/LookupEvent":                 (True,    True,     True,   True,  False),
    "taskstatus.v1.QueryService/ListTraceEvents":             (True,    True,     True,   True,  False),
    "taskstatus.v1.QueryService/GetWorkflow":                 (True,    True,     True,   True,  True),
    "taskstatus.v1.QueryService/GetStatusDefinition":         (True,    True,     True,   True,  True),
    "taskstatus.v1.RealtimeService/GetSession":               (False,   False,    False,  False, True),
    "taskstatus.v1.RealtimeService/CreateSubscriptionToken":  (False,   False,    False,  False, True),
    "taskstatus.v1.AdminService/ListStuckTasks":              (False,   False,    False,  True,  False),
    "taskstatus.v1.AdminService/CorrectTask":                 (False,   False,    False,  True,  False),
    "taskstatus.v1.AdminService/PublishDefinitions":          (False,   False,    False,  True,  False),
    "taskstatus.v1.AdminService/ListDefinitions":             (False,   False,    False,  True,  False),
    "taskstatus.v1.AdminService/RetireDefinition":            (False,   False,    False,  True,  False),
}  # fmt: skip
CELLS = [(method, role, row[i]) for method, row in EXPECTED.items() for i, role in enumerate(COLUMNS)]


def service(*roles: Role) -> ServiceIdentity:
    return ServiceIdentity("t-01", "documents", "parser", frozenset(roles), "parser", 0.0)


def person(*roles: str) -> UserIdentity:
    return UserIdentity("t-01", "u-88", frozenset(), frozenset(roles), 0.0)


def allowed(method: str, identity: Identity) -> bool:
    try:
        check_access(method, identity)
    except RefusedError as error:
        assert error.reason is Reason.PERMISSION_DENIED
        return False
    return True


def test_names_matrix_covers_every_method_and_role() -> None:
    assert set(METHOD_ROLES) == set(EXPECTED)
    assert set(COLUMNS) == set(Role)


@pytest.mark.parametrize(("method", "role", "expected"), CELLS)
def test_names_role_may_call_method(method: str, role: Role, expected: bool) -> None:
    identity = person() if role is Role.USER else service(role)
    assert allowed(method, identity) is expected


@pytest.mark.parametrize("method", EXPECTED)
def test_names_service_without_roles_may_call_nothing(method: str) -> None:
    assert not allowed(method, service())


@pytest.mark.parametrize("method", EXPECTED)
def test_names_person_gets_no_service_role_from_their_own_issuer(method: str) -> None:
    named = person("admin", "coordinator", "worker", "business")
    assert allowed(method, named) is EXPECTED[method][COLUMNS.index(Role.USER)]


@pytest.mark.parametrize("method", EXPECTED)
def test_names_service_never_counts_as_a_user(method: str) -> None:
    assert roles_of(service(Role.USER)) == frozenset()
    assert not allowed(method, service(Role.USER))


def test_names_any_one_of_several_roles_is_enough() -> None:
    assert allowed("taskstatus.v1.RegisterService/ActivateStep", service(Role.WORKER, Role.COORDINATOR))


@pytest.mark.parametrize(
    "method", ["", "CreateWorkflow", "/taskstatus.v1.RegisterService/CreateWorkflow", "taskstatus.v1.Other/Any"]
)
def test_names_unlisted_method_is_closed_to_everyone(method: str) -> None:
    assert not allowed(method, service(*Role))
    assert not allowed(method, person())


def test_refusal_names_the_method_in_text_and_metadata() -> None:
    with pytest.raises(RefusedError) as caught:
        check_access("taskstatus.v1.RegisterService/ActivateStep", service(Role.WORKER))
    assert caught.value.message == "This caller may not use ActivateStep."
    assert dict(caught.value.metadata) == {"method": "ActivateStep"}
