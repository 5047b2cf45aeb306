"""Verified caller identities and what their credentials bind; nothing here is read from a request body (ID-1)."""

from __future__ import annotations

from enum import StrEnum

from taskstatus.domain.events import EventType
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId
from taskstatus.domain.quick_dataclasses import dataclass


class Role(StrEnum):
    """Roles that a service credential can carry, and USER for people."""

    BUSINESS = "business"
    COORDINATOR = "coordinator"
    WORKER = "worker"
    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, slots=True)
class ServiceIdentity:
    """A service as its verified JWT names it."""

    tenant_id: str
    authority_scope: str
    producer_id: str
    roles: frozenset[Role]
    subject: str
    expires_at: float
    """Unix seconds; the credential's own ``exp``."""


@dataclass(frozen=True, slots=True)
class UserIdentity:
    """A person as the verified JWT of their own issuer names them."""

    tenant_id: str
    user_id: str
    projects: frozenset[str]
    roles: frozenset[str]
    expires_at: float
    """Unix seconds; the credential's own ``exp``."""


Identity = ServiceIdentity | UserIdentity


@dataclass(frozen=True, slots=True)
class ExecutionBinding:
    """Everything that one execution is bound to for life; the content of an execution token (R-4)."""

    tenant_id: str
    authority_scope: str
    workflow_id: WorkflowId
    task_id: TaskId
    task_attempt: int
    step_id: str
    step_attempt: int
    operation_code: str
    execution_id: ExecutionId
    producer_id: str
    definition_version: int = 0
    """The operation definition that it is bound to; 0 is the generic profile."""
    definition_task_type: str = "*"
    may_register_children: bool = False
    """REGISTER_CHILD_EXECUTION: whether it may register dynamic children under itself (R-4, R-5)."""


@dataclass(frozen=True, slots=True)
class ExecutionGrant:
    """A verified execution token: genuine, but possibly expired (RenewExecution accepts that, reporting does not)."""

    binding: ExecutionBinding
    allowed_events: frozenset[EventType]
    generation: int
    """The credential generation at issue; revocation moves the execution's own past it (R-11)."""
    expires_at: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class HandleClaim:
    """A genuine ``executionHandle``: its MAC was right. It has no expiry of its own."""

    execution_id: ExecutionId
    generation: int
