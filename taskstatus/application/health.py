"""From an observed lease to a health change: one command for the lanes, the same from every replica (H-4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taskstatus.application.call_group import CallGroup
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_health import HealthCandidate, HealthObserver
from taskstatus.application.ports_runtime import Canonicalizer, EventWriter
from taskstatus.domain.commands import Caller, EventContent, StatedFields, TaskEventCommand
from taskstatus.domain.health_changes import (
    EVENT_OF_SIGN,
    SERVICE_PRODUCER,
    HealthObservation,
    HealthTerms,
    observation_id,
)
from taskstatus.domain.reasons import RETRYABLE_REASONS, Reason
from taskstatus.domain.verdicts import Accepted, Refused, Verdict, outcome_of

_OUTAGE_REASONS = frozenset({Reason.UNAVAILABLE, Reason.INTERNAL, Reason.BUCKET_MOVED})


class HealthChanges:
    """Submits observations; the lanes judge them again under the locks."""

    def __init__(
        self,
        writer: EventWriter,
        canonicalize: Canonicalizer,
        clock: Clock,
        observer: HealthObserver,
        terms: HealthTerms,
    ) -> None:
        self._writer = writer
        self._canonicalize = canonicalize
        self._clock = clock
        self._observer = observer
        self._terms = terms

    async def record(self, candidates: Sequence[HealthCandidate]) -> list[Verdict]:
        """One verdict for each, in order, after its commit; a passing failure is a verdict too."""
        pending = [self._writer.submit(self._command(candidate), CallGroup()) for candidate in candidates]
        verdicts = [await answer for answer in pending]
        for candidate, verdict in zip(candidates, verdicts, strict=True):
            self._observer.health_judged(candidate.sign, outcome_of(verdict))
        return verdicts

    def _command(self, candidate: HealthCandidate) -> TaskEventCommand:
        caller = Caller(candidate.tenant_id, candidate.authority_scope, SERVICE_PRODUCER)
        sign = candidate.sign
        command = TaskEventCommand(
            caller=caller,
            # Nothing but the observation itself is in the content: two replicas that see the same must agree on it.
            content=EventContent(
                event_id=observation_id(sign, candidate.execution_id, candidate.moment),
                event_type=EVENT_OF_SIGN[sign],
                source_seq=0,
                reason=sign,
            ),
            workflow_id=candidate.workflow_id,
            task_id=candidate.task_id,
            task_attempt=candidate.task_attempt,
            step_id=candidate.step_id,
            step_attempt=candidate.step_attempt,
            execution_id=candidate.execution_id,
            operation_code="",
            bound=caller,
            credential=None,
            stated=StatedFields(),
            canonical=b"",
            digest=b"",
            received_monotonic=self._clock.monotonic_seconds(),
            received_unix=self._clock.unix_seconds(),
            trace_id=None,
            traceparent="",
            observed=HealthObservation(sign, candidate.heartbeat_seq, self._terms),
        )
        canonical, digest = self._canonicalize(command)
        return replace(command, canonical=canonical, digest=digest)


def is_recorded(verdict: Verdict) -> bool:
    """Whether this very observation became a fact."""
    return isinstance(verdict, Accepted)


def shows_outage(verdict: Verdict) -> bool:
    """Whether the store could not be written: silence of workers proves nothing then (H-5)."""
    return isinstance(verdict, Refused) and verdict.error.reason in _OUTAGE_REASONS


def is_to_be_repeated(verdict: Verdict) -> bool:
    """Whether the observation was not judged at all."""
    return isinstance(verdict, Refused) and verdict.error.reason in RETRYABLE_REASONS
