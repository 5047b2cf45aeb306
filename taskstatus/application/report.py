"""Reporting: from a decoded event to the lane, the same for every transport and form (E-2, E-9, E-10)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from taskstatus.application.call_group import CallGroup
from taskstatus.application.data_rules import DataRules
from taskstatus.application.executions import ExecutionCommands
from taskstatus.application.identity import ExecutionGrant, ServiceIdentity
from taskstatus.application.ports_audit import RejectedReport, RejectionAudit
from taskstatus.application.ports_heartbeats import LeaseRenewal
from taskstatus.application.ports_runtime import Canonicalizer, EventWriter, ServiceObserver
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.rate_limit import RateLimiter
from taskstatus.domain.commands import Caller, Credential, EventContent, StatedFields, TaskEventCommand
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import COORDINATOR_STEP_EVENTS, REPORTABLE_EVENTS, TASK_EVENTS, EventType
from taskstatus.domain.ids import ExecutionId, parse_task_id
from taskstatus.domain.quick_dataclasses import dataclass, replace
from taskstatus.domain.reasons import RETRYABLE_REASONS, Reason
from taskstatus.domain.text import STEP_ID_MAX, is_refused_id
from taskstatus.domain.verdicts import Accepted, Coalesced, NoOp, Refused, Verdict

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
    grant: ExecutionGrant | None = None
    """The credential as a stream opened it when the execution was bound; then token and handle are empty."""


@dataclass(frozen=True, slots=True)
class UndecodedEvent:
    """An item that could not even be decoded, with its refusal; ``event_id`` is empty when it was at fault itself."""

    caller: ServiceIdentity
    transport: str
    event_id: str
    refusal: RefusedError
    received_unix: float
    trace_id: bytes | None


class Reporting:
    """Resolves drafts to commands and hands them to the lanes."""

    def __init__(
        self,
        executions: ExecutionCommands,
        data_rules: DataRules,
        canonicalize: Canonicalizer,
        writer: EventWriter,
        limiter: RateLimiter,
        rejections: Rejections,
        leases: LeaseRenewal,
    ) -> None:
        self._executions = executions
        self._data_rules = data_rules
        self._canonicalize = canonicalize
        self._writer = writer
        self._limiter = limiter
        self._rejections = rejections
        self._leases = leases

    async def report(self, draft: EventDraft | UndecodedEvent) -> Verdict:
        """The verdict of one event, after its commit. Raises RefusedError RATE_LIMITED."""
        return (await self.report_all([draft]))[0]

    async def report_all(self, drafts: Sequence[EventDraft | UndecodedEvent]) -> list[Verdict]:
        """One verdict for each draft of one caller, in order. Raises RefusedError RATE_LIMITED for the call.

        Resolving and enqueuing happen in order, so that the events of one execution stay in the order sent.
        """
        self.admit(drafts[0].caller, len(drafts))
        await self._executions.prefetch(draft.execution_handle for draft in drafts if isinstance(draft, EventDraft))
        return await self.decided(drafts, await self.submit(drafts, CallGroup()))

    def admit(self, caller: ServiceIdentity, events: int) -> None:
        """Charge the caller for events. Raises RefusedError RATE_LIMITED (N-4)."""
        self._limiter.admit(caller, events)

    async def submit(
        self, drafts: Sequence[EventDraft | UndecodedEvent], group: CallGroup
    ) -> list[Awaitable[Verdict] | Refused]:
        """Resolve and enqueue in order; what gives each verdict, for ``decided``."""
        return [await self._submit(draft, group) for draft in drafts]

    async def decided(
        self, drafts: Sequence[EventDraft | UndecodedEvent], pending: Sequence[Awaitable[Verdict] | Refused]
    ) -> list[Verdict]:
        """Wait for the verdicts of what was submitted, note each, and let accepted progress renew its lease (H-7)."""
        verdicts = [item if isinstance(item, Refused) else await item for item in pending]
        for draft, verdict in zip(drafts, verdicts, strict=True):
            self._rejections.judged(draft, verdict)
            if isinstance(draft, EventDraft) and _is_sign_of_life(draft, verdict):
                execution_id = self._execution_of(draft)
                if execution_id is not None:
                    self._leases.renew(execution_id, draft.received_monotonic)
        return verdicts

    def _execution_of(self, draft: EventDraft) -> ExecutionId | None:
        if draft.grant is not None:
            return draft.grant.binding.execution_id
        return self._executions.execution_of(draft.execution_token, draft.execution_handle)

    async def _submit(self, draft: EventDraft | UndecodedEvent, group: CallGroup) -> Awaitable[Verdict] | Refused:
        if isinstance(draft, UndecodedEvent):
            return Refused(draft.refusal)
        execution_id = self._execution_of(draft)
        if execution_id is not None:
            group.resume(execution_id, draft.content.event_id)
            if group.is_broken(execution_id):
                return _unavailable("an earlier item of this execution must be sent again first")
        try:
            command = await self._resolve(draft)
        except RefusedError as refusal:
            return Refused(refusal)
        except StoreUnavailableError:
            if execution_id is not None:
                group.break_stream(execution_id, event_id=draft.content.event_id)
            return _unavailable("the store cannot be reached now")
        canonical, digest = self._canonicalize(command)
        return self._writer.submit(replace(command, canonical=canonical, digest=digest), group)

    async def _resolve(self, draft: EventDraft) -> TaskEventCommand:
        if draft.grant is not None or draft.execution_token or draft.execution_handle:
            return await self._resolve_execution(draft)
        return self._resolve_coordinator(draft)

    async def _resolve_execution(self, draft: EventDraft) -> TaskEventCommand:
        grant = draft.grant or await self._executions.open(draft.execution_token, draft.execution_handle)
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


class Rejections:
    """Counts every verdict, and keeps a record of each refusal that is the reporter's own doing (E-2, N-4)."""

    def __init__(self, observer: ServiceObserver, audit: RejectionAudit) -> None:
        self._observer = observer
        self._audit = audit

    def judged(self, draft: EventDraft | UndecodedEvent, verdict: Verdict) -> None:
        """One event was answered."""
        self._observer.event_judged(draft.transport, verdict)
        if isinstance(verdict, Refused) and verdict.error.reason not in RETRYABLE_REASONS:
            self._audit.record(_rejected(draft, verdict.error.reason))


def _rejected(draft: EventDraft | UndecodedEvent, reason: Reason) -> RejectedReport:
    return RejectedReport(
        tenant_id=draft.caller.tenant_id,
        authority_scope=draft.caller.authority_scope,
        producer_id=draft.caller.producer_id,
        transport=draft.transport,
        reason=reason,
        event_id=draft.content.event_id if isinstance(draft, EventDraft) else draft.event_id,
        event_type=draft.content.event_type if isinstance(draft, EventDraft) else "",
        task_id=parse_task_id(draft.stated.task_id) if isinstance(draft, EventDraft) else None,
        step_id=_loggable(draft.stated.step_id) if isinstance(draft, EventDraft) else "",
        trace_id=draft.trace_id,
        received_unix=draft.received_unix,
    )


def _is_sign_of_life(draft: EventDraft, verdict: Verdict) -> bool:
    return draft.content.event_type is EventType.STEP_PROGRESS and isinstance(verdict, Accepted | Coalesced | NoOp)


def _loggable(step_id: str) -> str:
    """A stated step id, or nothing when it is none."""
    return "" if is_refused_id(step_id, STEP_ID_MAX) else step_id


def _unavailable(message: str) -> Refused:
    return Refused(RefusedError(Reason.UNAVAILABLE, message, retry_after_seconds=UNAVAILABLE_RETRY_SECONDS))


def _needs_credential(draft: EventDraft) -> RefusedError:
    if draft.content.event_type not in REPORTABLE_EVENTS:
        return RefusedError(Reason.EVENT_TYPE_NOT_ALLOWED, f"{draft.content.event_type} is not reported by this method")
    return RefusedError(Reason.UNAUTHENTICATED, "an execution token or handle is required")


def _caller(identity: ServiceIdentity) -> Caller:
    return Caller(identity.tenant_id, identity.authority_scope, identity.producer_id)
