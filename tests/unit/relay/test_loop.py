"""The publishing loop, branch by branch, on a virtual clock (O-1, O-2, O-4, O-6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from relay.config import RelayConfig
from relay.publisher import OutageError, Outcome, Permanent, Publication, Published, Retryable
from taskstatus.application.ports_store import StoreUnavailableError

from .support import Bench, FakeReader, detail_row, summary_row, task_id, task_view


async def test_o1_claimed_rows_are_published_and_marked() -> None:
    rows = [summary_row(number) for number in range(3)]
    bench = Bench(rows)

    assert await bench.loop.run_once() == 3

    assert {bench.outbox.status_of(row) for row in rows} == {"PUBLISHED"}
    assert len(bench.publisher.requests) == 1
    assert bench.metric("relay_claims_total") == 3
    assert bench.metric("relay_published_total") == 3
    assert bench.metric("state_commit_to_publish_seconds_count") == 3


async def test_o6_without_faults_nothing_is_published_twice() -> None:
    bench = Bench([summary_row(number) for number in range(250)])

    assert [await bench.loop.run_once() for _ in range(4)] == [100, 100, 50, 0]

    assert len(bench.published_keys()) == len(set(bench.published_keys())) == 250


async def test_o2_permanent_failure_goes_dead_and_its_batch_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    good, bad = summary_row(1), summary_row(2)
    bench = Bench([good, bad])
    bench.publisher.answer = only(bad.aggregate_id, Permanent("centrifugo error 102: unknown channel"))

    with caplog.at_level(logging.ERROR):
        await bench.loop.run_once()

    assert bench.outbox.status_of(good) == "PUBLISHED"
    assert bench.outbox.status_of(bad) == "DEAD"
    assert "unknown channel" in bench.outbox.table[bad.outbox_id].last_error
    assert bench.metric("relay_publish_failures_total", **{"class": "permanent"}) == 1
    assert [getattr(record, "outboxId", None) for record in caplog.records] == [bad.outbox_id.hex()]


async def test_o2_retryable_failure_rests_longer_each_time() -> None:
    row = summary_row(1)
    bench = Bench([row])
    bench.publisher.answer = lambda _: Retryable("centrifugo error 100: internal")

    rests = []
    for _ in range(4):
        await bench.loop.run_once()
        due_at = bench.outbox.table[row.outbox_id].due_at
        assert due_at is not None
        rests.append(due_at - bench.time.now)
        bench.time.now = due_at

    assert rests == [0.5, 1.0, 2.0, 4.0]


async def test_o2_retryable_failures_use_up_the_budget_and_go_dead() -> None:
    row = summary_row(1)
    bench = Bench([row], config=RelayConfig(failure_budget=3))
    bench.publisher.answer = lambda _: Retryable("centrifugo error 108: not available")

    for _ in range(3):
        await bench.loop.run_once()
        bench.time.now += 1000

    assert bench.outbox.status_of(row) == "DEAD"
    assert bench.outbox.table[row.outbox_id].last_error.startswith("gave up after 3 failures: ")
    assert bench.metric("relay_publish_failures_total", **{"class": "exhausted"}) == 1
    assert await bench.loop.run_once() == 0


async def test_o2_outage_releases_everything_and_leaves_the_budget_alone() -> None:
    rows = [summary_row(number) for number in range(5)]
    bench = Bench(rows)
    bench.publisher.error = OutageError("connection refused")

    waits = []
    for _ in range(30):
        assert await bench.loop.run_once() == 5
        waits.append(bench.loop.next_wait_seconds)
        bench.time.now += bench.loop.next_wait_seconds
    assert [bench.outbox.table[row.outbox_id].row.failures for row in rows] == [0] * 5
    assert waits[:4] == [0.1, 0.2, 0.4, 0.8]
    assert waits[-1] == 5.0

    bench.publisher.error = None
    await bench.loop.run_once()
    assert {bench.outbox.status_of(row) for row in rows} == {"PUBLISHED"}
    assert bench.loop.next_wait_seconds == 0.005


async def test_o2_outage_in_mid_batch_marks_what_was_taken_and_releases_the_rest() -> None:
    rows = [summary_row(number, payload=b'{"x":"' + b"x" * 200_000 + b'"}') for number in range(20)]
    bench = Bench(rows)
    first_only(bench)

    await bench.loop.run_once()

    taken = len(bench.publisher.requests[0])
    statuses = [bench.outbox.status_of(row) for row in rows]
    assert statuses == ["PUBLISHED"] * taken + ["PENDING"] * (20 - taken)
    assert 0 < taken < 20


async def test_store_outage_while_rendering_releases_everything() -> None:
    row = detail_row(1, 4, task=1)
    bench = Bench([row], reader=FakeReader(error=StoreUnavailableError("gone")))

    assert await bench.loop.run_once() == 1

    assert bench.outbox.status_of(row) == "PENDING"
    assert bench.outbox.table[row.outbox_id].row.failures == 0
    assert bench.loop.next_wait_seconds == 0.1


async def test_outbox_outage_at_the_claim_is_waited_out() -> None:
    bench = Bench([summary_row(1)])
    bench.outbox.failing["claim"] = 2

    assert [await bench.loop.run_once() for _ in range(3)] == [0, 0, 1]


async def test_o1_a_mark_that_fails_is_tried_again_so_that_nothing_is_published_twice() -> None:
    row = summary_row(1)
    bench = Bench([row])
    bench.outbox.failing["mark_published"] = 2

    await bench.loop.run_once()

    assert bench.outbox.status_of(row) == "PUBLISHED"
    assert len(bench.time.paused) == 2


async def test_o1_a_mark_that_keeps_failing_leaves_the_row_to_the_lease() -> None:
    row = summary_row(1)
    bench = Bench([row])
    bench.outbox.failing["mark_published"] = 3

    assert await bench.loop.run_once() == 0
    assert bench.outbox.status_of(row) == "PROCESSING"

    bench.time.now += bench.config.lease_seconds + 1
    assert await bench.loop.run_once() == 1
    assert bench.outbox.status_of(row) == "PUBLISHED"
    assert bench.metric("relay_lease_timeouts_total") == 1


async def test_o1_a_relay_that_slept_past_its_lease_publishes_nothing_more() -> None:
    row = summary_row(1)
    bench = Bench([row])
    sleep_while_rendering(bench, bench.config.lease_seconds + 1)

    await bench.loop.run_once()

    assert bench.publisher.requests == []
    assert bench.outbox.status_of(row) == "PENDING"
    assert bench.metric("relay_publish_failures_total", **{"class": "lease"}) == 1


async def test_o1_a_relay_that_slept_past_its_lease_does_not_mark_what_another_took() -> None:
    row = summary_row(1)
    bench = Bench([row])

    def another_takes_it() -> None:
        bench.time.now += bench.config.lease_seconds + 1
        stored = bench.outbox.table[row.outbox_id]
        stored.token, stored.due_at = b"another's", bench.time.now + 30

    bench.publisher.before = another_takes_it
    await bench.loop.run_once()

    assert bench.outbox.status_of(row) == "PROCESSING"
    assert bench.outbox.table[row.outbox_id].token == b"another's"
    assert bench.metric("relay_fenced_total") == 1


async def test_o6_pending_details_of_a_task_share_one_message_and_one_fate() -> None:
    rows = [detail_row(number, number, task=1) for number in (1, 2, 3)]
    bench = Bench(rows, reader=FakeReader(views={task_id(1): task_view(1, 3)}))

    await bench.loop.run_once()

    (request,) = bench.publisher.requests
    assert [item.version for item in request] == [3]
    assert {bench.outbox.status_of(row) for row in rows} == {"PUBLISHED"}


async def test_a_vanished_aggregate_is_done() -> None:
    row = detail_row(1, 1, task=9)
    bench = Bench([row])

    await bench.loop.run_once()

    assert bench.publisher.requests == []
    assert bench.outbox.status_of(row) == "PUBLISHED"


async def test_polls_are_quick_under_load_and_slow_when_idle() -> None:
    bench = Bench([summary_row(number) for number in range(101)])

    waits = []
    for _ in range(9):
        await bench.loop.run_once()
        waits.append(bench.loop.next_wait_seconds)

    assert waits == [0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25]


async def test_a_hint_wakes_an_idle_relay() -> None:
    bench = Bench(config=RelayConfig(poll_busy_seconds=3600, poll_idle_seconds=3600))
    await bench.loop.start()
    row = summary_row(1)
    sent = asyncio.Event()
    bench.publisher.before = sent.set
    bench.outbox.table = Bench([row]).outbox.table

    assert bench.wakeup.on_hint is not None
    bench.wakeup.on_hint()
    await asyncio.wait_for(sent.wait(), timeout=10)
    await bench.loop.stop()

    assert bench.outbox.status_of(row) == "PUBLISHED"


async def test_o4_stop_finishes_what_is_claimed_and_claims_nothing_more() -> None:
    rows = [summary_row(number) for number in range(300)]
    bench = Bench(rows)
    stops: list[asyncio.Task[None]] = []
    bench.publisher.before = lambda: stops.append(asyncio.create_task(bench.loop.stop()))

    task = await bench.loop.start()
    await asyncio.wait_for(task, timeout=10)
    await asyncio.gather(*stops)

    statuses = sorted({bench.outbox.status_of(row) for row in rows})
    assert statuses in (["PENDING", "PUBLISHED"], ["PUBLISHED"])
    assert len(bench.published_keys()) % 100 == 0


async def test_stop_is_idempotent_and_may_come_before_start() -> None:
    bench = Bench()
    await bench.loop.stop()
    task = await bench.loop.start()
    await bench.loop.stop()
    await bench.loop.stop()
    assert task.done()


async def test_a_stop_ends_the_pause_of_an_outage_and_a_hint_does_not() -> None:
    bench = Bench([summary_row(1)], config=RelayConfig(outage_first_seconds=3600, outage_most_seconds=3600))
    bench.publisher.error = OutageError("down")
    requests = 0
    met = asyncio.Event()

    def count() -> None:
        nonlocal requests
        requests += 1
        met.set()

    bench.publisher.before = count
    task = await bench.loop.start()
    await asyncio.wait_for(met.wait(), timeout=10)
    assert bench.wakeup.on_hint is not None
    for _ in range(10):
        bench.wakeup.on_hint()
        await asyncio.sleep(0)
    await asyncio.wait_for(bench.loop.stop(), timeout=10)

    assert task.done()
    assert requests == 1


async def test_a_defect_ends_the_loop_and_shows_in_its_task() -> None:
    bench = Bench([summary_row(1)])
    bench.publisher.error = ZeroDivisionError("a defect")

    task = await bench.loop.start()
    await asyncio.wait([task], timeout=10)

    assert isinstance(task.exception(), ZeroDivisionError)
    await bench.loop.stop()


@pytest.mark.parametrize(
    "figures",
    [
        {"batch_rows": 0},
        {"turns_at_once": 0},
        {"batch_rows": 1001},
        {"failure_budget": 0},
        {"lease_seconds": 10.0, "publish_timeout_seconds": 5.0},
        {"publish_timeout_seconds": 0.0},
        {"poll_busy_seconds": 1.0, "poll_idle_seconds": 0.5},
        {"backoff_first_seconds": 0.0},
    ],
)
def test_figures_that_cannot_work_together_are_refused(figures: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        RelayConfig(**figures)  # type: ignore[arg-type]


def only(aggregate_id: bytes, outcome: Outcome) -> Callable[[Publication], Outcome]:
    """Answers one aggregate's message with the outcome, every other with success."""
    return lambda item: outcome if aggregate_id.hex() in item.idempotency_key else Published()


def first_only(bench: Bench) -> None:
    """The second request meets an outage."""

    def fail_later() -> None:
        if bench.publisher.requests:
            bench.publisher.error = OutageError("down")

    bench.publisher.before = fail_later


def sleep_while_rendering(bench: Bench, seconds: float) -> None:
    """The process is suspended between the claim and the publish."""
    claim = bench.outbox.claim

    async def slow_claim(token: bytes, limit: int, lease_seconds: float) -> object:
        claimed = await claim(token, limit, lease_seconds)
        bench.time.now += seconds
        return claimed

    bench.outbox.claim = slow_claim  # type: ignore[method-assign,assignment]
