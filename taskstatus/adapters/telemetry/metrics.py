"""Prometheus metrics of the service process (names.md, *Metrics*): base units, bounded labels, never an id."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from taskstatus.application.ports_health import StuckCause
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Accepted, Duplicate, Refused, Stale, Verdict, outcome_of

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BATCH = (1, 2, 5, 10, 20, 50, 100, 200)
_IDENTITY_REASONS = frozenset({Reason.TOKEN_MISMATCH, Reason.PRODUCER_MISMATCH, Reason.OPERATION_MISMATCH})

_SCHEMA_REASONS = frozenset({Reason.SCHEMA_NOT_ALLOWED, Reason.SCHEMA_VIOLATION})


class ServiceMetrics:
    """The ports Service-, Heartbeat-, Health-, Workflow- and CallObserver over Prometheus."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._requests = self._counter("report_requests", "Events answered", "transport", "outcome", "reason")
        self._calls = Histogram(
            "taskstatus_report_duration_seconds",
            "Time from receipt to answer of a call",
            ("transport", "method", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._hits = self._counter("idempotent_hits", "Events answered from the dedup table")
        self._stale = self._counter("stale", "Late events answered and not written", "reason")
        self._mismatches = self._counter("identity_mismatch", "Credentials that contradict their caller")
        self._illegal = self._counter("illegal_transitions", "Events that the lifecycle does not allow")
        self._gaps = self._counter("sequence_gaps", "Sequence numbers skipped by accepted events")
        self._dropped = self._counter("audit_dropped", "Records of rejected reports that were not kept")
        self._schema_rejects = self._counter("schema_rejects", "Data outside its definition", "operation")
        self._heartbeats = self._counter("heartbeats", "Heartbeats answered", "outcome")
        self._lost_heartbeats = self._counter("heartbeats_lost", "Executions whose accepted beat was not persisted")
        self._pending_heartbeats = Gauge(
            "taskstatus_heartbeats_pending", "Executions with a beat in memory", registry=self.registry
        )
        self._health = self._counter("health_changes", "Observed health changes judged", "sign", "outcome")
        self._probed = self._counter("health_second_checks", "Silent executions asked for a beat", "outcome")
        self._candidates = self._counter("health_candidates", "Overdue leases looked at")
        self._held_back = Gauge(
            "taskstatus_health_held_back", "Overdue leases of the last round in the grace", registry=self.registry
        )
        self._stuck = Gauge(
            "taskstatus_stuck_executions",
            "Executions and tasks to look at, all tenants",
            ("cause",),
            registry=self.registry,
        )
        self._projector_lag = Gauge(
            "taskstatus_workflow_projector_lag_seconds", "Age of the oldest change unfollowed", registry=self.registry
        )
        self._projections = self._counter("workflow_projections", "Workflows looked into", "outcome")
        self._streams = Gauge("taskstatus_streams_open", "Open streams", registry=self.registry)
        self._bound = Gauge("taskstatus_stream_executions", "Executions bound on open streams", registry=self.registry)
        self._depth = Gauge("taskstatus_lane_depth", "Commands waiting in the lanes", registry=self.registry)
        self._batches = Histogram(
            "taskstatus_lane_batch_size", "Commands per transaction", buckets=_BATCH, registry=self.registry
        )
        self._commits = Histogram(
            "taskstatus_commit_duration_seconds",
            "Time of a lane's transaction, retries included",
            buckets=_SECONDS,
            registry=self.registry,
        )

        self._lock_waits = self._waits("row_lock_wait_seconds", "Until a lane's transaction has its tasks' rows locked")
        self._pool_waits = self._waits("pool_wait_seconds", "Until a write transaction has its connection")

    def _waits(self, name: str, text: str) -> Histogram:
        return Histogram(f"taskstatus_{name}", text, buckets=_SECONDS, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"taskstatus_{name}", text, labels, registry=self.registry)

    def event_judged(self, transport: str, verdict: Verdict) -> None:
        """See ServiceObserver."""
        reason = reason_of(verdict)
        self._requests.labels(transport, outcome_of(verdict), reason or "").inc()
        match verdict:
            case Duplicate():
                self._hits.inc()
            case Stale():
                self._stale.labels(reason or "").inc()
            case Accepted(_, gap) if gap > 0:
                self._gaps.inc(gap)
            case Refused(error) if error.reason in _IDENTITY_REASONS:
                self._mismatches.inc()
            case Refused(error) if error.reason in _SCHEMA_REASONS:
                self._schema_rejects.labels(error.metadata.get("operation", "")).inc()
            case Refused(error) if error.reason is Reason.TRANSITION_NOT_ALLOWED:
                self._illegal.inc()

    def batch_committed(self, commands: int, commit_seconds: float) -> None:
        """See ServiceObserver."""
        self._batches.observe(commands)
        self._commits.observe(commit_seconds)

    def rows_locked(self, seconds: float) -> None:
        """See ServiceObserver."""
        self._lock_waits.observe(seconds)

    def pool_waited(self, seconds: float) -> None:
        """A write transaction got its connection."""
        self._pool_waits.observe(seconds)

    def audit_dropped(self, records: int) -> None:
        """Records of rejected reports had to be given up."""
        self._dropped.inc(records)

    def lane_depth(self, queued: int) -> None:
        """See ServiceObserver."""
        self._depth.set(queued)

    def streams_open(self, streams: int, executions: int) -> None:
        """See StreamObserver."""
        self._streams.set(streams)
        self._bound.set(executions)

    def heartbeats_judged(self, outcome: str, beats: int) -> None:
        """See HeartbeatObserver."""
        self._heartbeats.labels(outcome).inc(beats)
        if outcome in _IDENTITY_REASONS:
            self._mismatches.inc(beats)

    def heartbeats_pending(self, executions: int) -> None:
        """See HeartbeatObserver."""
        self._pending_heartbeats.set(executions)

    def heartbeats_lost(self, beats: int) -> None:
        """See HeartbeatObserver."""
        self._lost_heartbeats.inc(beats)

    def health_judged(self, sign: HealthSign, outcome: str) -> None:
        """See HealthObserver."""
        self._health.labels(sign, outcome).inc()

    def health_scanned(self, candidates: int, held_back: int) -> None:
        """See HealthObserver."""
        self._candidates.inc(candidates)
        self._held_back.set(held_back)

    def health_probed(self, alive: int, silent: int) -> None:
        """See HealthObserver."""
        self._probed.labels("alive").inc(alive)
        self._probed.labels("silent").inc(silent)

    def stuck_counted(self, counts: Mapping[StuckCause, int]) -> None:
        """See HealthObserver."""
        for cause, count in counts.items():
            self._stuck.labels(cause).set(count)

    def projector_lag(self, seconds: float) -> None:
        """See WorkflowObserver."""
        self._projector_lag.set(seconds)

    def workflows_projected(self, outcome: str, count: int) -> None:
        """See WorkflowObserver."""
        self._projections.labels(outcome).inc(count)

    def call_ended(self, transport: str, method: str, status: str, seconds: float) -> None:
        """See CallObserver."""
        self._calls.labels(transport, method, status).observe(seconds)


def reason_of(verdict: Verdict) -> Reason | None:
    """The reason of an answer or a refusal."""
    return verdict.error.reason if isinstance(verdict, Refused) else verdict.result.reason


def serve_metrics(listen: str, registry: CollectorRegistry) -> None:
    """Serve ``/metrics`` on ``host:port`` from a thread of its own. Raises OSError when the address is taken."""
    host, _, port = listen.rpartition(":")
    start_http_server(int(port), addr=host or "127.0.0.1", registry=registry)
