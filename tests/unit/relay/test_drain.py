"""A backlog: turns side by side, and what they have in common (O-1, O-2)."""

from __future__ import annotations

import asyncio
import itertools

from relay.config import RelayConfig
from relay.pacing import Pacing
from relay.publisher import OutageError

from .support import Bench, VirtualTime, summary_row


async def test_o1_a_backlog_is_drained_by_turns_side_by_side_and_every_row_is_sent_once() -> None:
    rows = [summary_row(number) for number in range(1_050)]
    bench = Bench(rows)
    at_once: list[int] = []
    bench.publisher.before = lambda: at_once.append(bench.outbox.statuses().count("PROCESSING"))

    await bench.loop.start()
    while any(bench.outbox.status_of(row) != "PUBLISHED" for row in rows):
        await asyncio.sleep(0)
    await bench.loop.stop()

    assert max(at_once) == bench.config.turns_at_once * bench.config.batch_rows
    assert len(at_once) == 11, "ten full claims and a part of one"


async def test_o2_an_outage_ends_the_turns_side_by_side() -> None:
    bench = Bench(
        [summary_row(number) for number in range(1_000)],
        config=RelayConfig(outage_first_seconds=3600, outage_most_seconds=3600),
    )
    begun = itertools.count()

    def fail_after_the_first() -> None:
        if next(begun):
            bench.publisher.error = OutageError("down")

    bench.publisher.before = fail_after_the_first
    task = await bench.loop.start()
    while bench.loop.next_wait_seconds < 1:
        await asyncio.sleep(0)
    await asyncio.wait_for(bench.loop.stop(), timeout=10)

    assert task.done()
    statuses = bench.outbox.statuses()
    assert statuses.count("PUBLISHED") == 100
    assert statuses.count("PENDING") == 900, "what was claimed was given back, and nothing more was claimed"


def test_o2_turns_of_one_round_meet_one_outage_and_none_of_them_ends_its_pause() -> None:
    pacing = Pacing(RelayConfig(outage_first_seconds=0.1), VirtualTime())
    pacing.begin_round()
    pacing.worked(100)
    assert (pacing.outage(), pacing.outage()) == (0.1, 0.1)
    pacing.worked(100)
    assert pacing.in_outage
    assert pacing.wait_seconds == 0.1

    pacing.begin_round()
    assert pacing.outage() == 0.2
    pacing.begin_round()
    pacing.worked(0)
    assert not pacing.in_outage


async def test_o1_a_defect_in_one_turn_lets_the_others_mark_what_they_have_sent() -> None:
    bench = Bench([summary_row(number) for number in range(400)])
    begun = itertools.count()

    def fail_the_last_of_three() -> None:
        bench.publisher.error = ZeroDivisionError("a defect") if next(begun) == 3 else None

    bench.publisher.before = fail_the_last_of_three

    task = await bench.loop.start()
    await asyncio.wait([task], timeout=10)

    assert isinstance(task.exception(), ZeroDivisionError)
    statuses = bench.outbox.statuses()
    assert statuses.count("PUBLISHED") == 300
    assert statuses.count("PROCESSING") == 100, "the lease of what met the defect gives it back"
