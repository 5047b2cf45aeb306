"""What an execution is bound to: the directory behind handles, BindExecution and RenewExecution (R-4, R-11)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taskstatus.application.identity import ExecutionBinding, ExecutionGrant, ServiceIdentity
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_credentials import ExecutionCredentials
from taskstatus.application.ports_store import StoreUnavailableError, TaskReader
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import EXECUTION_EVENTS
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.reasons import Reason
from taskstatus.domain.state import StepState, TaskState

DIRECTORY_SIZE = 50_000
SIGNED_AT_ONCE = 16


class ExecutionDirectory:
    """Bindings by execution id; they never change, so a bounded cache needs no invalidation."""

    def __init__(self, reader: TaskReader, size: int = DIRECTORY_SIZE) -> None:
        self._reader = reader
        self._size = size
        self._cache: OrderedDict[ExecutionId, ExecutionBinding] = OrderedDict()

    async def binding(self, execution_id: ExecutionId) -> ExecutionBinding:
        """The binding. Raises RefusedError EXECUTION_NOT_FOUND."""
        if execution_id in self._cache:
            self._cache.move_to_end(execution_id)
            return self._cache[execution_id]
        found = (await self._reader.execution_bindings([execution_id])).get(execution_id)
        if found is None:
            raise execution_not_found()
        self.remember(found)
        return found

    async def prefetch(self, execution_ids: Iterable[ExecutionId]) -> None:
        """Read those that are not known yet in one go, so that a batch does not ask one by one."""
        # One look-up each: a set less the cache's keys would walk through the whole cache.
        missing = sorted({execution_id for execution_id in execution_ids if execution_id not in self._cache})
        if len(missing) > 1:
            for found in (await self._reader.execution_bindings(missing)).values():
                self.remember(found)

    def remember(self, binding: ExecutionBinding) -> None:
        """Keep a binding; the least recently used one is forgotten."""
        self._cache[binding.execution_id] = binding
        if len(self._cache) > self._size:
            self._cache.popitem(last=False)


@dataclass(frozen=True, slots=True)
class IssuedCredentials:
    """An execution's token, its expiry in Unix seconds, and its handle."""

    token: str
    token_expires_at: float
    handle: str


@dataclass(frozen=True, slots=True)
class BoundExecution:
    """What BindExecution and the activating commands answer with."""

    binding: ExecutionBinding
    task: TaskState
    step: StepState
    credentials: IssuedCredentials
    created: bool

    @property
    def next_source_seq(self) -> int:
        """The next number that will be accepted as new."""
        return self.step.source_seq + 1


class ExecutionCommands:
    """Binds and renews; writes nothing."""

    def __init__(
        self, credentials: ExecutionCredentials, directory: ExecutionDirectory, reader: TaskReader, clock: Clock
    ) -> None:
        self._credentials = credentials
        self._directory = directory
        self._reader = reader
        self._clock = clock

    async def open(self, token: str, handle: str) -> ExecutionGrant:
        """The grant behind a token or a handle, genuine but perhaps expired.

        Raises RefusedError UNAUTHENTICATED (missing or forged) and EXECUTION_NOT_FOUND.
        """
        if token and handle:
            raise invalid("executionHandle", "give the execution's token or its handle, not both")
        if token:
            return self._credentials.open_token(token)
        if handle:
            claim = self._credentials.open_handle(handle)
            binding = await self._directory.binding(claim.execution_id)
            return ExecutionGrant(binding, EXECUTION_EVENTS, claim.generation, float("inf"))
        raise RefusedError(Reason.UNAUTHENTICATED, "an execution token or handle is required")

    async def prefetch(self, handles: Iterable[str]) -> None:
        """Read the bindings behind genuine handles in one go; a store that is down is met again item by item."""
        ids = [self.execution_of("", handle) for handle in handles if handle]
        with contextlib.suppress(StoreUnavailableError):
            await self._directory.prefetch(execution_id for execution_id in ids if execution_id is not None)

    def execution_of(self, token: str, handle: str) -> ExecutionId | None:
        """The execution that a genuine credential names, without asking the store; None for anything else."""
        try:
            if token:
                return self._credentials.open_token(token).binding.execution_id
            return self._credentials.open_handle(handle).execution_id if handle else None
        except RefusedError:
            return None

    def issue(self, binding: ExecutionBinding, generation: int) -> IssuedCredentials:
        """A token and a handle for an execution."""
        token, expires_at = self._credentials.issue_token(binding, generation)
        return IssuedCredentials(token, expires_at, self._credentials.make_handle(binding, generation))

    async def open_parent(self, caller: ServiceIdentity, token: str, handle: str) -> ExecutionGrant | None:
        """The grant of an execution that registers a child under itself; None where neither is given.

        Raises RefusedError UNAUTHENTICATED, EXECUTION_NOT_FOUND, TOKEN_MISMATCH, PRODUCER_MISMATCH.
        """
        if not token and not handle:
            return None
        grant = await self.open(token, handle)
        check_own(caller, grant.binding)
        return grant

    async def bind(self, caller: ServiceIdentity, token: str, handle: str) -> BoundExecution:
        """BindExecution: the context, a handle and the next sequence number of a live execution."""
        grant = await self.open(token, handle)
        check_own(caller, grant.binding)
        if grant.expires_at <= self._clock.unix_seconds():
            raise RefusedError(Reason.TOKEN_EXPIRED, "the execution token has expired; renew it")
        return await self._current(grant)

    async def open_all(
        self, caller: ServiceIdentity, credentials: Sequence[tuple[str, str]]
    ) -> list[ExecutionGrant | RefusedError]:
        """What BindExecution makes of each (token, handle): the caller's own grant, unexpired, or the refusal.

        Raises StoreUnavailableError.
        """
        await self.prefetch(handle for _, handle in credentials)
        return [await self._open_own(caller, token, handle) for token, handle in credentials]

    async def _open_own(self, caller: ServiceIdentity, token: str, handle: str) -> ExecutionGrant | RefusedError:
        try:
            grant = await self.open(token, handle)
            check_own(caller, grant.binding)
        except RefusedError as refusal:
            return refusal
        if grant.expires_at <= self._clock.unix_seconds():
            return RefusedError(Reason.TOKEN_EXPIRED, "the execution token has expired; renew it")
        return grant

    async def bind_all(self, grants: Sequence[ExecutionGrant]) -> list[BoundExecution | RefusedError]:
        """BindExecution of many by one read; a renewal passes expired grants. Raises StoreUnavailableError."""
        states = await self._reader.execution_states([grant.binding.execution_id for grant in grants])
        found: list[BoundExecution | RefusedError] = []
        for grant in grants:
            found.append(self._bound_or_refused(grant, states.get(grant.binding.execution_id)))
            if len(found) % SIGNED_AT_ONCE == 0:
                # Each has a token to sign: others shall not wait for hundreds of signatures.
                await asyncio.sleep(0)
        return found

    def _bound_or_refused(
        self, grant: ExecutionGrant, state: tuple[TaskState, StepState] | None
    ) -> BoundExecution | RefusedError:
        try:
            if state is None:
                raise execution_not_found()
            return self._current_of(grant, *state)
        except RefusedError as refusal:
            return refusal

    async def renew(
        self, caller: ServiceIdentity, execution_id: ExecutionId, token: str, handle: str
    ) -> IssuedCredentials:
        """RenewExecution: the next token, for the execution itself or for the task's recorded coordinator."""
        if not token and not handle:
            return (await self._renew_as_coordinator(caller, execution_id)).credentials
        grant = await self.open(token, handle)
        check_own(caller, grant.binding)
        if grant.binding.execution_id != execution_id:
            raise RefusedError(Reason.TOKEN_MISMATCH, "the credential is another execution's")
        return (await self._current(grant)).credentials

    async def _renew_as_coordinator(self, caller: ServiceIdentity, execution_id: ExecutionId) -> BoundExecution:
        binding = await self._directory.binding(execution_id)
        if (binding.tenant_id, binding.authority_scope) != (caller.tenant_id, caller.authority_scope):
            raise execution_not_found()
        task, step = await self._state(execution_id)
        if not task.envelope.may_rule(caller.producer_id):
            raise RefusedError(Reason.PERMISSION_DENIED, "only the execution itself or its coordinator may renew it")
        return self._if_current(binding, task, step)

    async def _current(self, grant: ExecutionGrant) -> BoundExecution:
        return self._current_of(grant, *await self._state(grant.binding.execution_id))

    def _current_of(self, grant: ExecutionGrant, task: TaskState, step: StepState) -> BoundExecution:
        if grant.generation < step.generation:
            raise RefusedError(Reason.TOKEN_REVOKED, "the execution's credentials were revoked")
        return self._if_current(grant.binding, task, step)

    def _if_current(self, binding: ExecutionBinding, task: TaskState, step: StepState) -> BoundExecution:
        if step.superseded or step.task_attempt != task.attempt:
            raise RefusedError(Reason.STALE_ATTEMPT, "a later attempt is current")
        if step.lifecycle.is_terminal or task.lifecycle.is_terminal:
            raise RefusedError(Reason.TERMINAL, "the execution has ended")
        return BoundExecution(binding, task, step, self.issue(binding, step.generation), created=False)

    async def _state(self, execution_id: ExecutionId) -> tuple[TaskState, StepState]:
        found = await self._reader.execution_state(execution_id)
        if found is None:
            raise execution_not_found()
        return found


def execution_not_found() -> RefusedError:
    """The one answer for an unknown execution and for another tenant's."""
    return RefusedError(Reason.EXECUTION_NOT_FOUND, "no such execution")


def check_own(caller: ServiceIdentity, binding: ExecutionBinding) -> None:
    """The second guard of E-2, for commands that are no events."""
    if (caller.tenant_id, caller.authority_scope) != (binding.tenant_id, binding.authority_scope):
        raise RefusedError(Reason.TOKEN_MISMATCH, "the credential belongs to another tenant or scope")
    if caller.producer_id != binding.producer_id:
        raise RefusedError(Reason.PRODUCER_MISMATCH, "the credential is bound to another producer")


def binding_of(task: TaskState, step: StepState) -> ExecutionBinding:
    """The binding of an activated attempt."""
    assert step.terms is not None
    envelope, definition = task.envelope, step.definition
    return ExecutionBinding(
        tenant_id=envelope.tenant_id,
        authority_scope=envelope.authority_scope,
        workflow_id=envelope.workflow_id,
        task_id=envelope.task_id,
        task_attempt=step.task_attempt,
        step_id=definition.step_id,
        step_attempt=step.attempt,
        operation_code=definition.operation_code,
        execution_id=step.terms.execution_id,
        producer_id=definition.expected_producer,
        definition_version=step.terms.definition_version,
        definition_task_type=step.terms.definition_task_type,
        may_register_children=envelope.terms.dynamic.admits_parent(definition.operation_code),
    )
