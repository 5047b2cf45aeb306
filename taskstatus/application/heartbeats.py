"""Heartbeats by unary calls: judged against the store, one read for all of them, and kept in memory (H-1, H-2, H-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from taskstatus.application.executions import ExecutionCommands
from taskstatus.application.identity import ExecutionBinding, ExecutionGrant, ServiceIdentity
from taskstatus.application.links import Links
from taskstatus.application.ports_audit import RejectedReport, RejectionAudit
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_heartbeats import Beat, BeatTaker, HeartbeatObserver, LeaseStore
from taskstatus.application.rate_limit import RateLimiter
from taskstatus.domain.commands import Caller, Credential, StatedFields
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EventType
from taskstatus.domain.guards import contradicts
from taskstatus.domain.health import Health
from taskstatus.domain.heartbeat import BeatClaim, TermBounds, Terms, base_terms, judge_beat, terms_for
from taskstatus.domain.ids import ExecutionId
from taskstatus.domain.reasons import ANSWER_REASONS, RETRYABLE_REASONS, Reason
from taskstatus.domain.standing import ExecutionStanding

ACCEPTED = "accepted"
_TELLING = ANSWER_REASONS | {Reason.TRANSITION_NOT_ALLOWED, Reason.UNAVAILABLE}
"""Refusals of the execution's own live credential: only they tell how the execution stands."""


@dataclass(frozen=True, slots=True)
class BeatDraft:
    """One beat as decoded: the caller is verified, the execution's credential is not opened yet."""

    caller: ServiceIdentity
    execution_token: str
    execution_handle: str
    stated: StatedFields
    heartbeat_seq: int
    round_trip_ms: float
    """As the worker measured it; 0 for not told."""
    transport: str
    received_monotonic: float
    received_unix: float
    trace_id: bytes | None
    fault: RefusedError | None = None
    """Why it could not be decoded; the fields after the credential are then blank."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """The next token of an execution, and its expiry in Unix seconds (R-11)."""

    token: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What became of one beat (H-3). What a credential does not show, or the store does not know, is missing."""

    execution_id: ExecutionId | None
    accepted: bool
    reason: Reason | None = None
    health: Health | None = None
    received_at: datetime | None = None
    """By the database's clock."""
    cancel_requested: bool = False
    interval_seconds: int = 0
    timeout_seconds: int = 0
    renewal: Renewal | None = None


@dataclass(frozen=True, slots=True)
class _Opened:
    """A draft with what its credential binds, or why it binds nothing."""

    draft: BeatDraft
    execution_id: ExecutionId | None
    grant: ExecutionGrant | None
    refusal: Reason | None


class Heartbeats:
    """Takes batches of beats; stateless but for what the ports keep."""

    def __init__(
        self,
        executions: ExecutionCommands,
        leases: LeaseStore,
        taker: BeatTaker,
        links: Links,
        limiter: RateLimiter,
        clock: Clock,
        observer: HeartbeatObserver,
        audit: RejectionAudit,
        bounds: TermBounds,
        *,
        token_ttl_seconds: int,
    ) -> None:
        self._executions = executions
        self._leases = leases
        self._taker = taker
        self._links = links
        self._limiter = limiter
        self._clock = clock
        self._observer = observer
        self._audit = audit
        self._bounds = bounds
        self._renew_below_seconds = token_ttl_seconds / 3

    def admit(self, caller: ServiceIdentity, beats: int) -> None:
        """Charge the caller for beats that come another way. Raises RefusedError RATE_LIMITED (N-4)."""
        self._limiter.admit(caller, beats)

    def refused(self, reasons: Mapping[Reason, int]) -> None:
        """Count beats that another way has refused before it judged them (N-3)."""
        for reason, beats in reasons.items():
            self._observer.heartbeats_judged(reason, beats)

    async def beat_all(self, drafts: Sequence[BeatDraft]) -> list[HeartbeatAnswer]:
        """One answer for each beat of one caller, in order.

        Raises RefusedError RATE_LIMITED for the call, and StoreUnavailableError: nothing was taken then.
        """
        self._limiter.admit(drafts[0].caller, len(drafts))
        await self._executions.prefetch(draft.execution_handle for draft in drafts)
        opened = [await self._open(draft) for draft in drafts]
        standings = await self._standings(opened)
        read_at = self._clock.monotonic_seconds()
        answers = [self._answer(item, standings, read_at) for item in opened]
        for item, answer in zip(opened, answers, strict=True):
            self._note(item, answer)
        return answers

    async def _open(self, draft: BeatDraft) -> _Opened:
        token, handle = draft.execution_token, draft.execution_handle
        if draft.fault is not None:
            return _Opened(draft, self._executions.execution_of(token, handle), None, draft.fault.reason)
        try:
            grant = await self._executions.open(token, handle)
        except RefusedError as refusal:
            return _Opened(draft, self._executions.execution_of(token, handle), None, refusal.reason)
        return _Opened(draft, grant.binding.execution_id, grant, None)

    async def _standings(self, opened: Sequence[_Opened]) -> Mapping[ExecutionId, ExecutionStanding]:
        ids = {item.grant.binding.execution_id for item in opened if item.grant is not None}
        return await self._leases.standings(sorted(ids)) if ids else {}

    def _answer(
        self, opened: _Opened, standings: Mapping[ExecutionId, ExecutionStanding], read_at: float
    ) -> HeartbeatAnswer:
        draft, grant = opened.draft, opened.grant
        if grant is None:
            return HeartbeatAnswer(opened.execution_id, accepted=False, reason=opened.refusal)
        standing = standings.get(grant.binding.execution_id)
        reason = judge_beat(self._claim(draft, grant), standing)
        if standing is None or (reason is not None and reason not in _TELLING):
            return HeartbeatAnswer(opened.execution_id, accepted=False, reason=reason)
        link = self._links.of(standing)
        if reason is None:
            link.measured(draft.round_trip_ms)
        terms = terms_for(link.round_trip_ms, base_terms(standing), self._bounds)
        if reason is None and not self._taker.take(_beat(draft, standing, terms), standing):
            reason = Reason.UNAVAILABLE
        return HeartbeatAnswer(
            execution_id=opened.execution_id,
            accepted=reason is None,
            reason=reason,
            health=standing.health,
            received_at=standing.as_of - timedelta(seconds=max(0.0, read_at - draft.received_monotonic)),
            cancel_requested=standing.cancel_requested,
            # A longer interval is answered only when the lease that allows for it is persisted.
            interval_seconds=min(standing.interval_seconds, terms.interval_seconds),
            timeout_seconds=standing.timeout_seconds,
            renewal=self._renewal(draft, grant) if reason is None else None,
        )

    def _claim(self, draft: BeatDraft, grant: ExecutionGrant) -> BeatClaim:
        binding, expires_at = grant.binding, grant.expires_at
        return BeatClaim(
            caller=Caller(draft.caller.tenant_id, draft.caller.authority_scope, draft.caller.producer_id),
            bound=Caller(binding.tenant_id, binding.authority_scope, binding.producer_id),
            contradicts=contradicts(draft.stated, binding),
            credential=Credential(
                grant.generation, None if expires_at == float("inf") else expires_at, grant.allowed_events
            ),
            heartbeat_seq=draft.heartbeat_seq,
            received_unix=draft.received_unix,
            last_seq=self._taker.last_seq(binding.execution_id),
        )

    def _renewal(self, draft: BeatDraft, grant: ExecutionGrant) -> Renewal | None:
        """The next token when the one sent is in the last third of its life; a handle has no end of its own."""
        if grant.expires_at - draft.received_unix >= self._renew_below_seconds:
            return None
        issued = self._executions.issue(grant.binding, grant.generation)
        return Renewal(issued.token, issued.token_expires_at)

    def _note(self, opened: _Opened, answer: HeartbeatAnswer) -> None:
        reason = answer.reason
        self._observer.heartbeats_judged(ACCEPTED if reason is None else reason, 1)
        if reason is not None and reason not in ANSWER_REASONS and reason not in RETRYABLE_REASONS:
            self._audit.record(_rejected(opened, reason))


def _beat(draft: BeatDraft, standing: ExecutionStanding, terms: Terms) -> Beat:
    return Beat(
        standing.execution_id,
        draft.heartbeat_seq,
        draft.received_monotonic,
        terms.interval_seconds,
        terms.timeout_seconds,
    )


def _rejected(opened: _Opened, reason: Reason) -> RejectedReport:
    draft = opened.draft
    binding: ExecutionBinding | None = opened.grant.binding if opened.grant is not None else None
    return RejectedReport(
        tenant_id=draft.caller.tenant_id,
        authority_scope=draft.caller.authority_scope,
        producer_id=draft.caller.producer_id,
        transport=draft.transport,
        reason=reason,
        event_id="",
        event_type=EventType.STEP_HEARTBEAT,
        task_id=binding.task_id if binding is not None else None,
        step_id=binding.step_id if binding is not None else "",
        trace_id=draft.trace_id,
        received_unix=draft.received_unix,
    )
