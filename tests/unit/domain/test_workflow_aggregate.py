"""Counts in, status and health out; what a reader's cut shows (L-7, P-4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.domain.health import Health
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_aggregate import (
    NOBODY,
    AggregationPolicy,
    MemberCounts,
    MemberStanding,
    MemberTally,
    health_of,
    lifecycle_of,
    with_standing,
)
from taskstatus.domain.workflow_changes import with_members, with_new_members, with_ruling, without_ruling
from taskstatus.domain.workflow_views import SeenMembers, WorkflowScope, full_cut, reader_cut, shared_cut
from tests.unit.factories import BUCKET, COORDINATOR, OWNER, SCOPE, START, TENANT, a_digest, an_id

LATER = START + timedelta(seconds=5)
MUCH_LATER = START + timedelta(seconds=9)
ALL, ANY, RULES = AggregationPolicy.ALL_SUCCEED, AggregationPolicy.ANY_SUCCEEDS, AggregationPolicy.COORDINATOR_RULES


def a_workflow(**changes: object) -> WorkflowState:
    """A workflow without tasks."""
    workflow = WorkflowState(
        workflow_id=WorkflowId(an_id(1)),
        bucket=BUCKET,
        tenant_id=TENANT,
        authority_scope=SCOPE,
        owner_id=OWNER,
        client_workflow_key="order-1",
        creation_digest=a_digest("order-1"),
        workflow_type="",
        title="Import",
        coordinator_producer=COORDINATOR,
        lifecycle=Lifecycle.PENDING,
        version=1,
        task_count=0,
        created_at=START,
        committed_at=START,
    )
    return replace(workflow, **changes)  # type: ignore[arg-type]


def tally(common: MemberCounts, sensitive: MemberCounts | None = None) -> MemberTally:
    """Of members that everyone may see, and of sensitive ones."""
    both = common if sensitive is None else _added(common, sensitive)
    return MemberTally(both, common)


def _added(one: MemberCounts, other: MemberCounts) -> MemberCounts:
    return MemberCounts(*(getattr(one, name) + getattr(other, name) for name in MemberCounts.__slots__))


@pytest.mark.parametrize(
    ("policy", "counts", "expected"),
    [
        (ALL, MemberCounts(), Lifecycle.PENDING),
        (ALL, MemberCounts(pending=3), Lifecycle.PENDING),
        (ALL, MemberCounts(pending=3, reopened=1), Lifecycle.RUNNING),
        (ALL, MemberCounts(pending=2, running=1), Lifecycle.RUNNING),
        (ALL, MemberCounts(pending=1, succeeded=1), Lifecycle.RUNNING),
        (ALL, MemberCounts(cancelling=1, failed=1), Lifecycle.RUNNING),
        (ALL, MemberCounts(succeeded=2), Lifecycle.SUCCEEDED),
        (ALL, MemberCounts(succeeded=2, failed=1, cancelled=1), Lifecycle.FAILED),
        (ALL, MemberCounts(succeeded=2, timed_out=1, cancelled=1), Lifecycle.TIMED_OUT),
        (ALL, MemberCounts(succeeded=2, cancelled=1), Lifecycle.CANCELLED),
        (ANY, MemberCounts(succeeded=1, failed=5), Lifecycle.SUCCEEDED),
        (ANY, MemberCounts(failed=5), Lifecycle.FAILED),
        (ANY, MemberCounts(succeeded=1, running=1), Lifecycle.RUNNING),
        (RULES, MemberCounts(succeeded=4), Lifecycle.RUNNING),
        (RULES, MemberCounts(pending=4), Lifecycle.PENDING),
    ],
)
def test_l7_status_follows_from_policy_and_counts(
    policy: AggregationPolicy, counts: MemberCounts, expected: Lifecycle
) -> None:
    assert lifecycle_of(policy, counts) is expected


@pytest.mark.parametrize(
    ("lifecycle", "counts", "expected"),
    [
        (Lifecycle.RUNNING, MemberCounts(running=2, stale=1, degraded=1), Health.STALE),
        (Lifecycle.RUNNING, MemberCounts(running=2, degraded=1), Health.DEGRADED),
        (Lifecycle.RUNNING, MemberCounts(running=2, failed=1), Health.DEGRADED),
        (Lifecycle.RUNNING, MemberCounts(running=2, timed_out=1), Health.DEGRADED),
        (Lifecycle.RUNNING, MemberCounts(running=2, cancelled=1), Health.HEALTHY),
        (Lifecycle.FAILED, MemberCounts(failed=1), Health.HEALTHY),
    ],
)
def test_l7_health_is_the_worst_of_those_that_go_on(
    lifecycle: Lifecycle, counts: MemberCounts, expected: Health
) -> None:
    assert health_of(lifecycle, counts) is expected


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (MemberStanding(Lifecycle.RUNNING, stale=True, degraded=True), MemberCounts(running=2, stale=2)),
        (MemberStanding(Lifecycle.RUNNING, degraded=True), MemberCounts(running=2, degraded=2)),
        (MemberStanding(Lifecycle.FAILED, degraded=True), MemberCounts(failed=2)),
        (MemberStanding(Lifecycle.PENDING, runs_again=True), MemberCounts(pending=2, reopened=2)),
        (MemberStanding(Lifecycle.RUNNING, runs_again=True), MemberCounts(running=2)),
        (MemberStanding(Lifecycle.TIMED_OUT), MemberCounts(timed_out=2)),
    ],
)
def test_l7_ended_tasks_count_neither_as_stale_nor_as_degraded(
    standing: MemberStanding, expected: MemberCounts
) -> None:
    assert with_standing(NOBODY, standing, 2) == MemberTally(expected, expected)
    hidden = replace(standing, sensitive=True)
    assert with_standing(NOBODY, hidden, 2) == MemberTally(expected, MemberCounts())


def test_l7_a_workflow_starts_with_its_first_task_and_ends_with_its_last() -> None:
    begun = with_members(a_workflow(), tally(MemberCounts(pending=1, running=1)), START)
    ended = with_members(begun, tally(MemberCounts(succeeded=2)), LATER)

    assert (begun.lifecycle, begun.started_at, begun.finished_at) == (Lifecycle.RUNNING, START, None)
    assert (ended.lifecycle, ended.started_at, ended.finished_at) == (Lifecycle.SUCCEEDED, START, LATER)
    assert with_members(ended, tally(MemberCounts(succeeded=2)), MUCH_LATER) == ended


def test_l7_a_task_that_comes_after_the_end_or_runs_again_reopens_the_workflow() -> None:
    ended = with_members(a_workflow(), tally(MemberCounts(succeeded=1)), START)

    with_another = with_new_members(ended, 1, 0, LATER)
    rerun = with_members(ended, tally(MemberCounts(pending=1, reopened=1)), LATER)

    for reopened in (with_another, rerun):
        assert (reopened.lifecycle, reopened.started_at, reopened.finished_at) == (Lifecycle.RUNNING, START, None)
    assert with_members(rerun, tally(MemberCounts(failed=1)), MUCH_LATER).finished_at == MUCH_LATER


def test_l7_a_ruling_goes_before_the_members_until_it_is_withdrawn() -> None:
    running = with_members(a_workflow(), tally(MemberCounts(running=1)), START)

    ruled = with_ruling(running, Lifecycle.CANCELLED, "the order was withdrawn", LATER)
    later = with_members(ruled, tally(MemberCounts(succeeded=1)), MUCH_LATER)
    free = without_ruling(later, MUCH_LATER)

    assert (ruled.lifecycle, ruled.ruled, ruled.finished_at) == (Lifecycle.CANCELLED, True, LATER)
    assert (later.lifecycle, later.counts.succeeded, later.finished_at) == (Lifecycle.CANCELLED, 1, LATER)
    assert (free.lifecycle, free.ruled, free.ruling_reason) == (Lifecycle.SUCCEEDED, False, "")
    assert without_ruling(ruled, MUCH_LATER).finished_at is None


def test_p4_what_everyone_may_see_tells_nothing_of_sensitive_tasks() -> None:
    workflow = with_new_members(a_workflow(), 1, 1, START)
    workflow = with_members(workflow, tally(MemberCounts(pending=1), MemberCounts(running=1, stale=1)), LATER)

    whole, shared = full_cut(workflow), shared_cut(workflow)

    assert (whole.lifecycle, whole.health, whole.counts.total) == (Lifecycle.RUNNING, Health.STALE, 2)
    assert (shared.lifecycle, shared.health, shared.counts) == (
        Lifecycle.PENDING,
        Health.HEALTHY,
        MemberCounts(pending=1),
    )
    assert (whole.started_at, shared.started_at) == (LATER, None)
    ended = with_members(workflow, tally(MemberCounts(succeeded=1), MemberCounts(running=1)), MUCH_LATER)
    assert (full_cut(ended).finished_at, shared_cut(ended).finished_at) == (None, MUCH_LATER)


def test_p4_a_reader_sees_the_aggregate_of_their_own_tasks_and_a_ruling_as_it_is() -> None:
    workflow = with_members(a_workflow(), tally(MemberCounts(succeeded=1, running=3)), START)
    seen = SeenMembers(MemberCounts(succeeded=1), START, LATER)

    own = reader_cut(workflow, seen)
    ruled = reader_cut(with_ruling(workflow, Lifecycle.FAILED, "lost", MUCH_LATER), seen)

    assert (own.scope, own.lifecycle, own.finished_at) == (WorkflowScope.READER, Lifecycle.SUCCEEDED, LATER)
    assert (ruled.lifecycle, ruled.counts, ruled.finished_at) == (Lifecycle.FAILED, seen.counts, MUCH_LATER)
    nothing = reader_cut(workflow, SeenMembers(MemberCounts(), None, None))
    assert (nothing.lifecycle, nothing.started_at) == (Lifecycle.PENDING, None)


counts = st.builds(
    MemberCounts,
    **{name: st.integers(0, 3) for name in ("pending", "running", "cancelling", "succeeded", "failed", "cancelled")},
)
histories = st.lists(st.tuples(counts, counts), max_size=6)


@given(histories, st.tuples(counts, counts), st.sampled_from(AggregationPolicy))
def test_l7_the_last_aggregate_is_a_function_of_the_members_alone(
    history: list[tuple[MemberCounts, MemberCounts]],
    last: tuple[MemberCounts, MemberCounts],
    policy: AggregationPolicy,
) -> None:
    fresh = a_workflow(aggregation_policy=policy)
    lived = fresh
    for number, (common, sensitive) in enumerate(history):
        lived = with_members(lived, tally(common, sensitive), START + timedelta(seconds=number))

    after, at_once = (with_members(workflow, tally(*last), MUCH_LATER) for workflow in (lived, fresh))

    timeless = {"started_at": None, "finished_at": None, "shared_started_at": None, "shared_finished_at": None}
    assert replace(after, **timeless) == replace(at_once, **timeless)  # type: ignore[arg-type]
    assert (after.started_at is None) is (after.lifecycle is Lifecycle.PENDING)
    assert (after.finished_at is not None) is after.lifecycle.is_terminal
