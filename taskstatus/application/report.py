"""Reporting: from a decoded event to the lane, the same for every transport and form (E-2, E-9, E-10)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace

from taskstatus.application.call_group import CallGroup
from taskstatus.application.data_rules import DataRules
from taskstatus.application.executions import ExecutionCommands
from taskstatus.application.identity import ServiceIdentity
from taskstatus.application.ports_runtime import Canonicalizer, EventWriter, ServiceObserver
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.commands import Caller, Credential, EventContent, StatedFields, TaskEventCommand
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import COORDINATOR_STEP_EVENTS, REPORTABLE_EVENTS, TASK_EVENTS
from taskstatus.domain.ids import parse_task_id
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Refused, Verdict

UNAVAILABLE_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class EventDraft:
    """One event as decoded: the caller is verified, the execution's credential is not opened yet."""

    caller: ServiceIdentity
    execution_token: str
    execution_handle: str
    stated: StatedFields
    content: EventContent
    transport: str
    received_monotonic: float
    received_unix: float
    trace_id: bytes | None
    traceparent: str


class Reporting:
    """Resolves drafts to commands and hands them to the lanes."""

    def __init__(
        self,
        executions: ExecutionCommands,
        data_rules: DataRules,
        canonicalize: Canonicalizer,
        writer: EventWriter,
        observer: ServiceObserver,
    ) -> None:
        self._data_rules = data_rules
        self._executions = executions
        self._canonicalize = canonicalize
        self._writer = writer
        self._observer = observer

    async def report(self, draft: EventDraft) -> Verdict:
        """The verdict of one event, after its commit."""
        return (await self.report_all([draft]))[0]

    async def report_all(self, drafts: Sequence[EventDraft | RefusedError]) -> list[Verdict]:
        """One verdict for each draft, in order; an item that could not even be decoded is its refusal.

        Resolving and enqueuing happen in order, so that the events of one execution stay in the order sent.
        """
        group = CallGroup()
        pending = [await self._submit(draft, group) for draft in drafts]
        verdicts = [item if isinstance(item, Refused) else await item for item in pending]
        for draft, verdict in zip(drafts, verdicts, strict=True):
            transport = draft.transport if isinstance(draft, EventDraft) else "undecoded"
            self._observer.event_judged(transport, verdict)
        return verdicts

    async def _submit(self, draft: EventDraft | RefusedError, group: CallGroup) -> Awaitable[Verdict] | Refused:
        if isinstance(draft, RefusedError):
            return Refused(draft)
        execution_id = self._executions.execution_of(draft.execution_token, draft.execution_handle)
        if execution_id is not None and group.is_broken(execution_id):
            return _unavailable("an earlier item of this execution must be sent again first")
        try:
            command = await self._resolve(draft)
        except RefusedError as refusal:
            return Refused(refusal)
        except StoreUnavailableError:
            if execution_id is not None:
                group.break_stream(execution_id)
            return _unavailable("the store cannot be reached now")
        canonical, digest = self._canonicalize(command)
        return self._writer.submit(replace(command, canonical=canonical, digest=digest), group)

    async def _resolve(self, draft: EventDraft) -> TaskEventCommand:
        if draft.execution_token or draft.execution_handle:
            return await self._resolve_execution(draft)
        return self._resolve_coordinator(draft)

    async def _resolve_execution(self, draft: EventDraft) -> TaskEventCommand:
        grant = await self._executions.open(draft.execution_token, draft.execution_handle)
        binding = grant.binding
        definition = await self._data_rules.definition(binding)
        never_expires = grant.expires_at == float("inf")
        return TaskEventCommand(
            caller=_caller(draft.caller),
            content=self._data_rules.judge(draft.content, definition),
            workflow_id=binding.workflow_id,
            task_id=binding.task_id,
            task_attempt=binding.task_attempt,
            step_id=binding.step_id,
            step_attempt=binding.step_attempt,
            execution_id=binding.execution_id,
            operation_code=binding.operation_code,
            bound=Caller(binding.tenant_id, binding.authority_scope, binding.producer_id),
            credential=Credential(
                grant.generation,
                None if never_expires else grant.expires_at,
                grant.allowed_events & definition.events,
            ),
            stated=draft.stated,
            canonical=b"",
            digest=b"",
            received_monotonic=draft.received_monotonic,
            received_unix=draft.received_unix,
            trace_id=draft.trace_id,
            traceparent=draft.traceparent,
        )

    def _resolve_coordinator(self, draft: EventDraft) -> TaskEventCommand:
        """An event on the service identity alone: the task's own, or the coordinator's end of a step (E-1)."""
        event_type, stated = draft.content.event_type, draft.stated
        if event_type not in TASK_EVENTS | COORDINATOR_STEP_EVENTS:
            raise _needs_credential(draft)
        if not stated.task_id:
            raise invalid("taskId", "is required without an execution token or handle")
        task_id = parse_task_id(stated.task_id)
        if task_id is None:
            raise RefusedError(Reason.TASK_NOT_FOUND, "no such task")
        is_step_event = event_type in COORDINATOR_STEP_EVENTS
        if is_step_event and not stated.step_id:
            raise invalid("stepId", "is required when the coordinator ends a step")
        caller = _caller(draft.caller)
        return TaskEventCommand(
            caller=caller,
            content=self._data_rules.judge(draft.content, None),
            workflow_id=None,
            task_id=task_id,
            task_attempt=stated.task_attempt,
            step_id=stated.step_id if is_step_event else "",
            step_attempt=stated.step_attempt if is_step_event else 0,
            execution_id=None,
            operation_code="",
            bound=caller,
            credential=None,
            stated=stated,
            canonical=b"",
            digest=b"",
            received_monotonic=draft.received_monotonic,
            received_unix=draft.received_unix,
            trace_id=draft.trace_id,
            traceparent=draft.traceparent,
        )


def _unavailable(message: str) -> Refused:
    return Refused(RefusedError(Reason.UNAVAILABLE, message, retry_after_seconds=UNAVAILABLE_RETRY_SECONDS))


def _needs_credential(draft: EventDraft) -> RefusedError:
    if draft.content.event_type not in REPORTABLE_EVENTS:
        return RefusedError(Reason.EVENT_TYPE_NOT_ALLOWED, f"{draft.content.event_type} is not reported by this method")
    return RefusedError(Reason.UNAUTHENTICATED, "an execution token or handle is required")


def _caller(identity: ServiceIdentity) -> Caller:
    return Caller(identity.tenant_id, identity.authority_scope, identity.producer_id)
