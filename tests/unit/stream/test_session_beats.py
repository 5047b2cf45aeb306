"""Beats on a stream: which are refused and counted, and who is asked for one (H-2, H-6, N-3)."""

from __future__ import annotations

from taskstatus_pb.v1 import common_pb2

from taskstatus.domain.reasons import Reason

from .kit import StreamKit, event, id_of, started, until


async def test_t2_a_started_execution_beats_at_once() -> None:
    kit = StreamKit()
    key = await kit.key_of(kit.activate())
    assert await kit.beat((key, 1)) == ["TRANSITION_NOT_ALLOWED"]
    await kit.report(started(key))
    assert await kit.beat((key, 1), (key, 0)) == ["INVALID_ARGUMENT"]


async def test_n3_beats_that_the_stream_itself_refuses_are_counted_by_reason() -> None:
    kit = StreamKit(window_items=8)
    expiring, revoked = kit.activate(), kit.activate()
    key, ended = await kit.key_of(expiring, by="token"), await kit.key_of(revoked)
    await kit.report(started(key), started(ended))
    assert await kit.beat((key, 1), (ended, 1), (9, 1), (key, 0)) == ["EXECUTION_NOT_FOUND", "INVALID_ARGUMENT"]
    await kit.report(event(common_pb2.STEP_COMPLETED, ended, 2))
    kit.kit.clock.advance(3_600)
    assert await kit.beat((key, 2), (ended, 2)) == ["TOKEN_EXPIRED", "TERMINAL"]
    assert await kit.beat(*[(ended, 3)] * 9) == ["TERMINAL"] * 8 + ["WINDOW_EXCEEDED"]
    assert kit.admission.refused_beats == {
        Reason.EXECUTION_NOT_FOUND: 1,
        Reason.INVALID_ARGUMENT: 1,
        Reason.TOKEN_EXPIRED: 1,
        Reason.TERMINAL: 9,
        Reason.WINDOW_EXCEEDED: 1,
    }


async def test_n3_beats_that_were_judged_are_not_counted_twice() -> None:
    kit = StreamKit()
    key = await kit.key_of(kit.activate())
    assert await kit.beat((key, 1)) == ["TRANSITION_NOT_ALLOWED"]
    assert not kit.admission.refused_beats


async def test_h6_a_silent_execution_is_asked_for_a_beat_by_a_notice() -> None:
    kit = StreamKit()
    execution, other = kit.activate(), kit.activate()
    key, _ = await kit.key_of(execution), await kit.key_of(other)
    await kit.report(started(key))
    ask = kit.binder.live[id_of(execution)].on_asked
    assert ask is not None
    ask()
    await until(lambda: kit.notices)
    (notice,) = kit.notices
    assert (notice.stream_execution_key, notice.beat_now, notice.reason) == (key, True, 0)
    assert (notice.health, notice.interval_seconds) == (common_pb2.HEALTHY, 15)


async def test_h6_nothing_is_asked_about_an_execution_that_has_ended_or_on_a_stream_that_is_over() -> None:
    kit = StreamKit()
    execution, other = kit.activate(), kit.activate()
    key, _ = await kit.key_of(execution), await kit.key_of(other)
    await kit.report(started(key))
    asks = [kit.binder.live[id_of(each)].on_asked for each in (execution, other)]
    await kit.report(event(common_pb2.STEP_COMPLETED, key, 2))
    kit.session.bindings.close()
    for ask in asks:
        assert ask is not None
        ask()
    await kit.beat((key, 1))
    assert kit.notices == []
