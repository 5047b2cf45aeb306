"""Heartbeats by unary calls, over the in-memory store (H-1, H-3, H-6, R-11, N-3, N-4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from taskstatus.adapters.memory.lease_store import MemoryLeaseStore
from taskstatus.application.heartbeats import BeatDraft, HeartbeatAnswer, Heartbeats
from taskstatus.application.identity import Role
from taskstatus.application.links import Links
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.application.rate_limit import RateLimit, RateLimiter
from taskstatus.domain.commands import StatedFields
from taskstatus.domain.errors import RefusedError, invalid
from taskstatus.domain.events import EventType
from taskstatus.domain.health import Health
from taskstatus.domain.heartbeat import TermBounds
from taskstatus.domain.ids import ExecutionId, format_execution_id, format_task_id
from taskstatus.domain.reasons import Reason
from taskstatus.runtime.heartbeat_coalescer import CoalescerConfig, HeartbeatCoalescer
from tests.unit.beats_kit import RecordingBeats, RecordingSignals
from tests.unit.factories import PARSER, an_id
from tests.unit.service_kit import TOKEN_SECONDS, a_service, drive

from .reporting_kit import COORDINATOR_SERVICE, WORKER, ReportingKit


class BeatingKit:
    """A document task whose parse step has started, and the means to beat for it."""

    def __init__(self, reporting: ReportingKit, limit: RateLimit | None = None, **config: Any) -> None:
        self.reporting, self.kit = reporting, reporting.kit
        self.leases = MemoryLeaseStore(self.kit.store)
        self.observer, links = RecordingBeats(), Links()
        clock = self.kit.clock
        self.coalescer = HeartbeatCoalescer(
            self.leases, clock, RecordingSignals(), self.observer, links, TermBounds(), CoalescerConfig(**config)
        )
        self.heartbeats = Heartbeats(
            self.kit.executions,
            self.leases,
            self.coalescer,
            links,
            RateLimiter(clock, limit or RateLimit(), "sends more heartbeats"),
            clock,
            self.observer,
            reporting.audit,
            TermBounds(),
            token_ttl_seconds=int(TOKEN_SECONDS),
        )

    def start(self) -> None:
        """STEP_STARTED is committed."""
        self.reporting.report(self.reporting.by_token(EventType.STEP_STARTED, 1))

    def draft(self, seq: int = 1, **changes: Any) -> BeatDraft:
        """A beat by the execution's handle."""
        draft = BeatDraft(
            caller=WORKER,
            execution_token="",
            execution_handle=self.reporting.handle,
            stated=StatedFields(),
            heartbeat_seq=seq,
            round_trip_ms=0.0,
            transport="grpc",
            received_monotonic=self.kit.clock.monotonic,
            received_unix=self.kit.clock.unix,
            trace_id=bytes(range(16)),
        )
        return replace(draft, **changes)

    def by_token(self, seq: int = 1, **changes: Any) -> BeatDraft:
        """A beat by the execution's token."""
        return self.draft(seq, execution_handle="", execution_token=self.reporting.token, **changes)

    def beat(self, *drafts: BeatDraft) -> list[HeartbeatAnswer]:
        """One call with these beats."""
        return drive(self.heartbeats.beat_all(drafts))

    def flush(self) -> None:
        """A persist period passes."""
        self.kit.clock.advance(15.0)
        drive(self.coalescer.run_once())


@pytest.fixture
def beating(reporting: ReportingKit) -> BeatingKit:
    kit = BeatingKit(reporting)
    kit.start()
    return kit


def test_h3_accepted_beat_is_answered_in_full(beating: BeatingKit) -> None:
    received = beating.kit.store.clock.read()
    beating.kit.clock.advance(0.5)
    beating.kit.store.clock.advance(0.5)

    (answer,) = beating.beat(beating.draft(received_monotonic=beating.kit.clock.monotonic - 0.5))

    assert (answer.accepted, answer.reason, answer.health) == (True, None, Health.HEALTHY)
    assert answer.execution_id == beating.reporting.bound.binding.execution_id
    assert answer.received_at is not None
    assert abs(answer.received_at - received) < timedelta(milliseconds=1)
    assert (answer.interval_seconds, answer.timeout_seconds) == (15, 60)
    assert (answer.cancel_requested, answer.renewal) == (False, None)


def test_h2_beat_writes_nothing_but_the_lease(beating: BeatingKit) -> None:
    tables = beating.kit.tables
    before = (dict(tables.tasks), dict(tables.steps), dict(tables.events), dict(tables.outbox), dict(tables.dedups))
    beating.beat(beating.draft(5))
    beating.flush()
    after = (dict(tables.tasks), dict(tables.steps), dict(tables.events), dict(tables.outbox), dict(tables.dedups))
    assert after == before
    assert tables.leases[beating.reporting.bound.binding.execution_id].state.heartbeat_seq == 5


def test_h3_batch_reads_all_leases_at_once_and_answers_item_by_item(beating: BeatingKit) -> None:
    reads = beating.leases.reads
    answers = beating.beat(
        beating.draft(5),
        beating.draft(4),
        beating.draft(5),
        beating.draft(execution_handle="exh_forged"),
        beating.draft(fault=invalid("heartbeatSeq", "must be at least 1")),
        beating.by_token(6),
    )
    assert [answer.reason for answer in answers] == [
        *(None, Reason.STALE_SEQUENCE, None),
        *(Reason.UNAUTHENTICATED, Reason.INVALID_ARGUMENT, None),
    ]
    assert beating.leases.reads == reads + 1


def test_h3_sequence_in_memory_counts_before_it_is_persisted(beating: BeatingKit) -> None:
    beating.beat(beating.draft(5))
    assert [a.reason for a in beating.beat(beating.draft(4))] == [Reason.STALE_SEQUENCE]
    beating.flush()
    assert [a.reason for a in beating.beat(beating.draft(4), beating.draft(5))] == [Reason.STALE_SEQUENCE, None]


def test_h3_execution_that_has_not_started_is_told_so(reporting: ReportingKit) -> None:
    kit = BeatingKit(reporting)
    (answer,) = kit.beat(kit.draft())
    assert (answer.accepted, answer.reason, answer.health) == (False, Reason.TRANSITION_NOT_ALLOWED, Health.HEALTHY)


def test_h3_superseded_execution_is_told_so_with_the_tasks_state(beating: BeatingKit) -> None:
    beating.reporting.activate(attempt=2)
    (answer,) = beating.beat(beating.draft())
    assert (answer.accepted, answer.reason) == (False, Reason.STALE_ATTEMPT)
    assert answer.received_at is not None


def test_h3_ended_execution_is_told_so(beating: BeatingKit) -> None:
    beating.reporting.report(beating.reporting.by_token(EventType.STEP_COMPLETED, 2))
    (answer,) = beating.beat(beating.draft())
    assert (answer.accepted, answer.reason) == (False, Reason.TERMINAL)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"caller": a_service("other", Role.WORKER)}, Reason.PRODUCER_MISMATCH),
        ({"caller": COORDINATOR_SERVICE}, Reason.PRODUCER_MISMATCH),
        ({"caller": a_service(PARSER, Role.WORKER, tenant_id="t-02")}, Reason.TOKEN_MISMATCH),
        ({"stated": StatedFields(step_id="03_other")}, Reason.TOKEN_MISMATCH),
        ({"stated": StatedFields(execution_id="exec_none")}, Reason.TOKEN_MISMATCH),
        ({"execution_handle": ""}, Reason.UNAUTHENTICATED),
        ({"execution_token": "token-1"}, Reason.INVALID_ARGUMENT),
    ],
)
def test_e2_credential_that_is_not_the_callers_shows_nothing(
    beating: BeatingKit, changes: dict[str, Any], reason: Reason
) -> None:
    (answer,) = beating.beat(beating.draft(**changes))
    assert (answer.accepted, answer.reason) == (False, reason)
    assert (answer.health, answer.received_at, answer.interval_seconds) == (None, None, 0)
    beating.flush()
    assert beating.leases.writes == 0


def test_e9_stated_fields_that_match_are_welcome(beating: BeatingKit) -> None:
    binding = beating.reporting.bound.binding
    stated = StatedFields(
        task_id=format_task_id(binding.task_id),
        task_attempt=1,
        step_id=binding.step_id,
        step_attempt=1,
        execution_id=format_execution_id(binding.execution_id),
    )
    assert beating.beat(beating.draft(stated=stated))[0].accepted


def test_r11_expired_token_and_revoked_credentials_are_refused(beating: BeatingKit) -> None:
    token = beating.by_token()
    beating.kit.clock.advance(TOKEN_SECONDS)
    late = replace(token, received_unix=beating.kit.clock.unix)
    assert beating.beat(late)[0].reason is Reason.TOKEN_EXPIRED
    step = beating.kit.step()
    beating.kit.tables.steps[step.key] = replace(step, generation=2)
    answers = beating.beat(beating.draft(), beating.by_token(received_unix=0.0))
    assert [answer.reason for answer in answers] == [Reason.TOKEN_REVOKED] * 2
    assert [answer.health for answer in answers] == [None] * 2


def test_r11_token_in_the_last_third_of_its_life_is_renewed(beating: BeatingKit) -> None:
    beating.kit.clock.advance(TOKEN_SECONDS * 2 / 3)
    assert beating.beat(beating.by_token(1))[0].renewal is None
    beating.kit.clock.advance(1.0)

    by_token, by_handle, stale = beating.beat(beating.by_token(2), beating.draft(3), beating.by_token(1))

    assert by_token.renewal is not None
    assert by_token.renewal.expires_at == beating.kit.clock.unix + TOKEN_SECONDS
    grant = beating.kit.credentials.open_token(by_token.renewal.token)
    assert (grant.binding, grant.generation) == (beating.reporting.bound.binding, 1)
    assert by_handle.renewal is None
    assert (stale.reason, stale.renewal) == (Reason.STALE_SEQUENCE, None)


def test_h3_cancel_request_and_health_are_told_with_each_beat(beating: BeatingKit) -> None:
    task, step = beating.kit.only_task(), beating.kit.step()
    beating.kit.tables.tasks[task.envelope.task_id] = replace(task, cancel_requested=True)
    beating.kit.tables.steps[step.key] = replace(step, degraded=True)
    (answer,) = beating.beat(beating.draft())
    assert (answer.accepted, answer.cancel_requested, answer.health) == (True, True, Health.DEGRADED)


def test_h6_longer_interval_is_told_once_the_lease_allows_for_it(beating: BeatingKit) -> None:
    (first,) = beating.beat(beating.draft(1, round_trip_ms=35.0))
    assert (first.interval_seconds, first.timeout_seconds) == (15, 60)
    beating.flush()
    (second,) = beating.beat(beating.draft(2, round_trip_ms=35.0))
    assert (second.interval_seconds, second.timeout_seconds) == (120, 375)


def test_h6_shorter_interval_is_told_at_once_and_the_lease_follows(beating: BeatingKit) -> None:
    beating.beat(beating.draft(1, round_trip_ms=35.0))
    beating.flush()
    for seq in range(2, 60):
        (answer,) = beating.beat(beating.draft(seq, round_trip_ms=0.5))
    assert (answer.interval_seconds, answer.timeout_seconds) == (15, 375)
    beating.flush()
    assert beating.beat(beating.draft(60))[0].timeout_seconds == 60


def test_h3_beats_that_find_no_room_are_to_be_sent_later(reporting: ReportingKit) -> None:
    kit = BeatingKit(reporting, max_pending_executions=1)
    kit.start()
    kit.coalescer.renew(ExecutionId(an_id(90)), 0.0)
    (answer,) = kit.beat(kit.draft())
    assert (answer.accepted, answer.reason) == (False, Reason.UNAVAILABLE)


def test_n4_too_many_beats_refuse_the_call_and_take_none(reporting: ReportingKit) -> None:
    kit = BeatingKit(reporting, RateLimit(events_per_second=1.0, burst_events=2.0))
    kit.start()
    kit.beat(kit.draft(1), kit.draft(2))
    with pytest.raises(RefusedError) as caught:
        kit.beat(kit.draft(3))
    assert caught.value.reason is Reason.RATE_LIMITED
    assert "heartbeats" in caught.value.message
    assert kit.coalescer.last_seq(kit.reporting.bound.binding.execution_id) == 2


def test_n1_store_that_is_down_fails_the_call_and_takes_nothing(beating: BeatingKit) -> None:
    beating.kit.store.unavailable = True
    with pytest.raises(StoreUnavailableError):
        beating.beat(beating.draft())
    assert beating.coalescer.pending_executions == 0


def test_n3_every_beat_is_counted_by_its_outcome(beating: BeatingKit) -> None:
    beating.beat(beating.draft(2), beating.draft(1), beating.draft(execution_handle="exh_forged"))
    assert beating.observer.judged == {"accepted": 1, Reason.STALE_SEQUENCE: 1, Reason.UNAUTHENTICATED: 1}


def test_n4_refusals_are_audited_and_late_beats_are_not(beating: BeatingKit) -> None:
    beating.beat(
        beating.draft(2),
        beating.draft(1),
        beating.draft(caller=a_service("other", Role.WORKER)),
        beating.draft(execution_handle="exh_forged"),
    )
    binding = beating.reporting.bound.binding
    assert [(r.reason, r.event_type, r.task_id, r.producer_id) for r in beating.reporting.audit.records] == [
        (Reason.PRODUCER_MISMATCH, "STEP_HEARTBEAT", binding.task_id, "other"),
        (Reason.UNAUTHENTICATED, "STEP_HEARTBEAT", None, PARSER),
    ]


def test_h6_links_are_kept_for_the_producers_seen_last(beating: BeatingKit) -> None:
    links = Links(size=2)
    standing = drive(beating.leases.standings([beating.reporting.bound.binding.execution_id]))
    (known,) = standing.values()
    first = links.of(known)
    first.measured(20.0)
    for name in ("b", "a", "c"):
        links.of(known)
        links.of(replace(known, producer_id=name))
    assert links.of(known) is first
    assert links.of(replace(known, tenant_id="t-02")) is not first


def test_n3_beats_that_another_way_refused_are_counted_by_reason(reporting: ReportingKit) -> None:
    kit = BeatingKit(reporting)
    kit.heartbeats.refused({Reason.WINDOW_EXCEEDED: 3, Reason.TOKEN_EXPIRED: 1})
    assert kit.observer.judged == {Reason.WINDOW_EXCEEDED: 3, Reason.TOKEN_EXPIRED: 1}
