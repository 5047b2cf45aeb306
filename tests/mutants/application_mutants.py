"""Mutants of named rules of the application and the lanes: who sees what, credentials, data, batches, limits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, replace
from functools import partial
from typing import Any

from taskstatus.adapters.canonical import canonicalize
from taskstatus.application import call_group, executions, query, register
from taskstatus.application.access import check_access, roles_of
from taskstatus.application.call_group import CallGroup, StreamGroup
from taskstatus.application.data_rules import DataRules
from taskstatus.application.definition_binding import DefinitionBinding
from taskstatus.application.executions import ExecutionCommands
from taskstatus.application.identity import Identity, ServiceIdentity, UserIdentity
from taskstatus.application.query import Queries
from taskstatus.application.rate_limit import RateLimiter
from taskstatus.application.register import Registration
from taskstatus.domain import permissions
from taskstatus.domain.channels import check_user_channel
from taskstatus.domain.commands import EventContent, TaskEventCommand
from taskstatus.domain.definitions import DataSchema, OperationDefinition
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import Grant, StepState, TaskState
from taskstatus.domain.verdicts import settle_as_first
from taskstatus.entrypoints.wire import decode, values
from taskstatus.runtime import batch_commit, lanes

from .mutant import NAMES, Mutant
from .patching import Apply, always, around, instead_of, method, set_member

VIEWING, CREDENTIALS, DATA, CREATION, CALLS, LIMITS = "viewing", "credentials", "data", "creation", "calls", "limits"
DIGEST = "digest"
BEYOND_ANY = 2**31

Change = Callable[..., Any]


def application_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)
    for field in fields(EventContent):
        if field.default is not MISSING:
            yield Mutant(DIGEST, f"{field.name} is left out", "E-3", around(canonicalize, partial(_left_out, field)))


def _left_out(field: Field[Any], original: Change, command: TaskEventCommand) -> Any:
    return original(replace(command, content=replace(command.content, **{field.name: field.default})))


def _with(target: Any, **parts: Any) -> Any:
    """A shallow copy of an object with other parts."""
    other = copy.copy(target)
    for name, value in parts.items():
        setattr(other, name, value)
    return other


async def _any_tenants_person(original: Change, self: Queries, identity: Identity, task: TaskState) -> Any:
    if isinstance(identity, UserIdentity):
        identity = replace(identity, tenant_id=task.envelope.tenant_id)
    return await original(self, identity, task)


def _service_of_any(name: str) -> Change:
    async def change(original: Change, self: Queries, identity: Identity, task: TaskState) -> Any:
        if isinstance(identity, ServiceIdentity):
            identity = replace(identity, **{name: getattr(task.envelope, name)})
        return await original(self, identity, task)

    return change


async def _owner_forgotten(original: Change, self: Queries, identity: Identity, task: TaskState) -> Any:
    return await original(self, identity, replace(task, envelope=replace(task.envelope, owner_id="")))


async def _everybody_sees(*_: Any) -> bool:
    return True


def _no_grants_to(principal_type: str) -> Change:
    def change(original: Change, grant: Grant, user: UserIdentity) -> Any:
        return grant.principal_type != principal_type and original(grant, user)

    return change


def _whatever_the_type(grant: Grant, user: UserIdentity) -> bool:
    return grant.principal_id in {user.user_id, *user.projects, *user.roles}


def _any_limit(original: Change, self: Queries, identity: Identity, task_id: str, after: int, limit: int) -> Any:
    return original(self, identity, task_id, after, min(limit, query.TIMELINE_LIMIT_MAX))


def _own_whatever(*names: str) -> Change:
    def change(original: Change, caller: ServiceIdentity, binding: Any) -> None:
        original(replace(caller, **{name: getattr(binding, name) for name in names}), binding)

    return change


async def _revocation_ignored(original: Change, self: Any, grant: Any) -> Any:
    return await original(self, replace(grant, generation=BEYOND_ANY))


def _supersession_ignored(original: Change, self: Any, binding: Any, task: TaskState, step: StepState) -> Any:
    return original(self, binding, task, replace(step, superseded=False))


def _end_of_task_ignored(original: Change, self: Any, binding: Any, task: TaskState, step: StepState) -> Any:
    return original(self, binding, replace(task, lifecycle=Lifecycle.RUNNING), step)


def _end_of_step_ignored(original: Change, self: Any, binding: Any, task: TaskState, step: StepState) -> Any:
    return original(self, binding, task, replace(step, lifecycle=Lifecycle.RUNNING))


class _StoppedClock:
    def unix_seconds(self) -> float:
        return 0.0


async def _bind_expired(original: Change, self: Any, *args: Any, **named: Any) -> Any:
    return await original(_with(self, _clock=_StoppedClock()), *args, **named)


async def _renew_any(original: Change, self: Any, caller: Any, execution_id: Any, token: str, handle: str) -> Any:
    return await original(self, caller, self.execution_of(token, handle) or execution_id, token, handle)


async def _anybody_renews(original: Change, self: Any, caller: ServiceIdentity, execution_id: Any) -> Any:
    task, _ = await self._state(execution_id)
    return await original(self, replace(caller, producer_id=task.envelope.coordinator_producer), execution_id)


async def _any_tenant_renews(original: Change, self: Any, caller: ServiceIdentity, execution_id: Any) -> Any:
    binding = await self._directory.binding(execution_id)
    own = replace(caller, tenant_id=binding.tenant_id, authority_scope=binding.authority_scope)
    return await original(self, own, execution_id)


async def _token_first(original: Change, self: Any, token: str, handle: str) -> Any:
    return await original(self, token, "" if token else handle)


def _judged_by(change_schema: Callable[[DataSchema], DataSchema]) -> Apply:
    """Judge data as if every schema of the definition were another."""

    def change(
        original: Change, self: Any, content: EventContent, data: Any, definition: OperationDefinition | None
    ) -> Any:
        if definition is not None:
            definition = replace(definition, schemas=tuple(map(change_schema, definition.schemas)))
        return original(self, content, data, definition)

    return method(DataRules, "_judged", change)


class _NoValidator:
    def violation(self, *_: Any) -> None:
        return None


def _unvalidated(original: Change, self: Any, *args: Any) -> Any:
    return original(_with(self, _validator=_NoValidator()), *args)


async def _every_event(original: Change, self: Any, binding: Any) -> Any:
    return replace(await original(self, binding), events=EXECUTION_EVENTS)


async def _newest_definition(_: Change, self: Any, binding: Any) -> Any:
    return self._definitions.latest(
        binding.tenant_id, binding.authority_scope, binding.definition_task_type, binding.operation_code
    )


async def _same_workflow_whatever(original: Change, self: Any, tx: Any, command: Any, existing: Any, ours: Any) -> Any:
    return await original(self, tx, replace(command, digest=existing.creation_digest), existing, ours)


async def _workflow_not_ours(original: Change, self: Any, tx: Any, command: Any, existing: Any, _: Any) -> Any:
    return await original(self, tx, command, existing, b"")


def _same_task_whatever(original: Change, command: Any, workflow: Any, existing: TaskState, ours: Any) -> Any:
    task = replace(command.task, digest=existing.envelope.creation_digest)
    return original(replace(command, task=task), workflow, existing, ours)


def _task_not_ours(original: Change, command: Any, workflow: Any, existing: TaskState, _: Any) -> Any:
    return original(command, workflow, existing, b"")


def _without_policy(_: Change, self: Any, tenant_id: str, authority_scope: str, spec: Any, step: Any) -> Any:
    return step


def _own_roles(original: Change, caller: Identity) -> Any:
    return caller.roles if isinstance(caller, ServiceIdentity) else original(caller)


def _only_open_failures(_: Change, self: Any, position: int) -> bool:
    return self.failed_at is not None and position > self.failed_at


def _whole_call_broken(_: Change, self: Any, stream: bytes, position: int | None = None) -> bool:
    return bool(self._broken_at)


def _settle_all(_: Any, verdicts: Any) -> Any:
    return [settle_as_first(verdict) for verdict in verdicts]


def _settle_none(_: Any, verdicts: Any) -> Any:
    return list(verdicts)


def _shared_bucket(original: Change, self: Any, identity: ServiceIdentity) -> Any:
    return original(self, replace(identity, tenant_id="", authority_scope="", producer_id=""))


def _never_full(original: Change, self: Any, submission: Any) -> Any:
    self._config = replace(self._config, max_queued_commands=BEYOND_ANY)
    return original(self, submission)


def _short_timeouts(request: Any) -> tuple[int, int]:
    return request.heartbeat_interval_seconds or 15, request.heartbeat_timeout_seconds or 60


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    VIEWING: {
        "people see another tenant's tasks": ("P-4", method(Queries, "_may_view", _any_tenants_person)),
        "services see another tenant's tasks": ("P-4", method(Queries, "_may_view", _service_of_any("tenant_id"))),
        "services see another scope's tasks": ("P-4", method(Queries, "_may_view", _service_of_any("authority_scope"))),
        "owners see nothing": ("P-4", method(Queries, "_may_view", _owner_forgotten)),
        "everybody sees everything": ("P-4", method(Queries, "_may_view", lambda *_: _everybody_sees())),
        "any grant shows to anybody": ("P-4", instead_of(permissions.names, always(True))),
        "grants to a USER show nothing": ("P-4", around(permissions.names, _no_grants_to("USER"))),
        "grants to a PROJECT show nothing": ("P-4", around(permissions.names, _no_grants_to("PROJECT"))),
        "grants to a ROLE show nothing": ("P-4", around(permissions.names, _no_grants_to("ROLE"))),
        "a grant's kind of principal is ignored": ("P-4", instead_of(permissions.names, _whatever_the_type)),
        "a detail token for any task": ("A-2", method(Queries, "_may_view", lambda *_: _everybody_sees())),
        "a timeline of any length": ("Q-1", method(Queries, "timeline", _any_limit)),
    },
    CREDENTIALS: {
        "any tenant's credential": ("R-11", around(executions.check_own, _own_whatever("tenant_id"))),
        "any scope's credential": ("R-11", around(executions.check_own, _own_whatever("authority_scope"))),
        "any producer's credential": ("R-11", around(executions.check_own, _own_whatever("producer_id"))),
        "a revoked credential binds": ("R-11", method(ExecutionCommands, "_current", _revocation_ignored)),
        "a superseded execution renews": ("R-11", method(ExecutionCommands, "_if_current", _supersession_ignored)),
        "an ended task's execution renews": ("R-11", method(ExecutionCommands, "_if_current", _end_of_task_ignored)),
        "an ended execution renews": ("R-11", method(ExecutionCommands, "_if_current", _end_of_step_ignored)),
        "an expired token binds": ("R-11", method(ExecutionCommands, "bind", _bind_expired)),
        "any execution's credential renews": ("R-11", method(ExecutionCommands, "renew", _renew_any)),
        "anybody renews": ("R-11", method(ExecutionCommands, "_renew_as_coordinator", _anybody_renews)),
        "any tenant renews": ("R-11", method(ExecutionCommands, "_renew_as_coordinator", _any_tenant_renews)),
        "token and handle may disagree": ("E-2", method(ExecutionCommands, "open", _token_first)),
    },
    DATA: {
        "a schema on any event": ("L-5", _judged_by(lambda schema: replace(schema, events=frozenset(EventType)))),
        "data of any size": ("E-2", _judged_by(lambda schema: replace(schema, max_bytes=BEYOND_ANY))),
        "summaries show what details may": (
            "P-2",
            _judged_by(lambda schema: replace(schema, summary_fields=schema.detail_fields)),
        ),
        "values are not validated": ("E-2", method(DataRules, "_judged", _unvalidated)),
        "a definition forbids no event": ("L-5", method(DataRules, "definition", _every_event)),
        "the newest definition judges": ("L-5", method(DataRules, "definition", _newest_definition)),
        "any value of data": ("E-13", instead_of(values.find_data_fault, always(None))),
        "any number": ("E-13", instead_of(values._fault_in_number, always(None))),
    },
    CREATION: {
        "a workflow key with other content": (
            "ID-3",
            method(Registration, "_repeat_workflow", _same_workflow_whatever),
        ),
        "a workflow is never ours": ("ID-3", method(Registration, "_repeat_workflow", _workflow_not_ours)),
        "a task key with other content": ("ID-3", around(register._repeat_task, _same_task_whatever)),
        "a task is never ours": ("ID-3", around(register._repeat_task, _task_not_ours)),
        "another tenant's workflow": ("ID-1", instead_of(register._is_callers, always(True))),
        "operations give no policy": ("L-5", method(DefinitionBinding, "_with_policy", _without_policy)),
        "grantees of any length": ("P-1", instead_of(register._check_grantees, always(None))),
        "owners of any length": ("P-1", instead_of(check_user_channel, always(None))),
    },
    CALLS: {
        "the role matrix is not asked": ("E-2", instead_of(check_access, always(None))),
        "a service may be a user": (NAMES, around(roles_of, _own_roles)),
        "items go on after a failure": ("E-10", method(CallGroup, "is_broken", always(False))),
        "a failure is not kept": ("E-10", method(CallGroup, "break_stream", always(None))),
        "a stream's items go on after a failure": ("E-10", method(StreamGroup, "is_broken", always(False))),
        "a stream is never mended": ("E-10", method(StreamGroup, "resume", always(None))),
        "a stream forgets what still waits": ("E-10", method(call_group._Damage, "covers", _only_open_failures)),
        "a failure stops the whole call": ("E-10", method(CallGroup, "is_broken", _whole_call_broken)),
        **{
            f"whether {reason} stops the execution": ("E-10", set_member(lanes._BREAKING, reason))
            for reason in (
                Reason.UNAVAILABLE,
                Reason.INTERNAL,
                Reason.RATE_LIMITED,
                Reason.BUSINESS_STATUS_NOT_REGISTERED,
            )
        },
        "a lost COMMIT reply makes duplicates": ("N-1", instead_of(batch_commit._settle, _settle_none)),
        "a lost COMMIT reply makes firsts of all": ("N-1", instead_of(batch_commit._settle, _settle_all)),
    },
    LIMITS: {
        "any rate": ("N-4", method(RateLimiter, "admit", always(None))),
        "one rate for all": ("N-4", method(RateLimiter, "_bucket", _shared_bucket)),
        "any queue": ("N-4", method(lanes._Lane, "offer", _never_full)),
        "any heartbeat timeout": ("H-2", instead_of(decode._heartbeat, _short_timeouts)),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
