"""The role × method matrix as data (names.md, *Services, methods, routes*): who may call what, before any guard runs.

A method that is not listed is closed to everyone. What a caller may do with one task (recorded coordinator, own
producer, ACL) is judged later, against the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from taskstatus.application.identity import Identity, Role, ServiceIdentity
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

_CREATORS = frozenset({Role.BUSINESS, Role.COORDINATOR})
_COORDINATORS = frozenset({Role.COORDINATOR})
_REPORTERS = frozenset({Role.WORKER, Role.COORDINATOR})
_WORKERS = frozenset({Role.WORKER})
_READERS = frozenset(Role)
_PEOPLE = frozenset({Role.USER})
_ADMINS = frozenset({Role.ADMIN})
_SERVICES = _READERS - _PEOPLE

METHOD_ROLES: Final[Mapping[str, frozenset[Role]]] = MappingProxyType(
    {
        "taskstatus.v1.RegisterService/CreateWorkflow": _CREATORS,
        "taskstatus.v1.RegisterService/CreateTask": _CREATORS,
        "taskstatus.v1.RegisterService/ActivateStep": _COORDINATORS,
        "taskstatus.v1.RegisterService/RegisterExecution": _REPORTERS,
        "taskstatus.v1.RegisterService/RenewExecution": _REPORTERS,
        "taskstatus.v1.RegisterService/RequestCancel": _COORDINATORS | _PEOPLE,
        "taskstatus.v1.RegisterService/RerunTask": _COORDINATORS | _PEOPLE,
        "taskstatus.v1.RegisterService/ClassifyTask": _COORDINATORS,
        "taskstatus.v1.RegisterService/UpdateTaskMetadata": _COORDINATORS,
        "taskstatus.v1.RegisterService/AttachExternalRef": _CREATORS,
        "taskstatus.v1.RegisterService/RevokeExecution": _COORDINATORS | _ADMINS,
        "taskstatus.v1.RegisterService/UpdateWorkflow": _COORDINATORS,
        "taskstatus.v1.ReportService/ReportEvent": _REPORTERS,
        "taskstatus.v1.ReportService/BatchReportEvents": _REPORTERS,
        "taskstatus.v1.ReportService/BatchReportCompactEvents": _REPORTERS,
        "taskstatus.v1.HeartbeatService/BatchHeartbeat": _WORKERS,
        "taskstatus.v1.BindExecutionService/BindExecution": _WORKERS,
        "taskstatus.v1.BindExecutionService/StreamExecutions": _WORKERS,
        "taskstatus.v1.QueryService/GetTask": _READERS,
        "taskstatus.v1.QueryService/ListTaskEvents": _READERS,
        "taskstatus.v1.QueryService/ListMyTasks": _PEOPLE,
        "taskstatus.v1.QueryService/ListWorkflowTasks": _READERS,
        "taskstatus.v1.QueryService/BatchGetTaskStatus": _READERS,
        "taskstatus.v1.QueryService/LookupExternalRef": _READERS,
        "taskstatus.v1.QueryService/LookupEvent": _SERVICES,
        "taskstatus.v1.QueryService/ListTraceEvents": _SERVICES,
        "taskstatus.v1.QueryService/GetWorkflow": _READERS,
        "taskstatus.v1.RealtimeService/GetSession": _PEOPLE,
        "taskstatus.v1.RealtimeService/CreateSubscriptionToken": _PEOPLE,
        "taskstatus.v1.AdminService/ListStuckTasks": _ADMINS,
        "taskstatus.v1.QueryService/GetStatusDefinition": _READERS,
        "taskstatus.v1.AdminService/CorrectTask": _ADMINS,
        "taskstatus.v1.AdminService/PublishDefinitions": _ADMINS,
        "taskstatus.v1.AdminService/ListDefinitions": _ADMINS,
        "taskstatus.v1.AdminService/RetireDefinition": _ADMINS,
    }
)
"""The roles that may call each method, by its full gRPC name without the leading slash."""


def roles_of(identity: Identity) -> frozenset[Role]:
    """A service's verified roles; USER for a person, whatever role names their own issuer gives them."""
    if isinstance(identity, ServiceIdentity):
        return identity.roles - _PEOPLE
    return _PEOPLE


def check_access(method: str, identity: Identity) -> None:
    """Raises RefusedError PERMISSION_DENIED unless one of the caller's roles may call the method."""
    if METHOD_ROLES.get(method, frozenset()).isdisjoint(roles_of(identity)):
        name = method.rpartition("/")[2]
        raise RefusedError(Reason.PERMISSION_DENIED, f"This caller may not use {name}.", metadata={"method": name})
