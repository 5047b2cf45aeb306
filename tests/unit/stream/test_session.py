"""What a stream takes, answers, refuses and tells, frame by frame (T-2, E-10, R-11, H-7, N-4)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2

from taskstatus.application.executions import BoundExecution
from taskstatus.application.rate_limit import RateLimit
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.health import Health
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.grpc.stream_config import StreamConfig

from .kit import StreamKit, event, id_of, progress, started, until


async def test_t2_numbers_are_the_streams_own_and_binding_again_keeps_them() -> None:
    kit = StreamKit()
    first, second = kit.activate(), kit.activate()
    results = await kit.bind(first, second, first)
    assert [result.stream_execution_key for result in results] == [1, 2, 1]
    assert results[0].response.next_source_seq == 1
    assert len(kit.session.bindings) == 2


async def test_t2_many_executions_are_bound_by_one_read_each_of_state_and_standing() -> None:
    kit = StreamKit()
    await kit.bind(*(kit.activate() for _ in range(20)))
    assert kit.leases.reads == 1


async def test_t2_unknown_numbers_are_not_found_and_never_used_again() -> None:
    kit = StreamKit()
    key = await kit.key_of(kit.activate())
    assert await kit.report(started(key), started(key + 1)) == ["", "EXECUTION_NOT_FOUND"]
    assert await kit.report(event(common_pb2.STEP_COMPLETED, key, 2)) == [""]
    assert await kit.key_of(kit.activate()) == key + 1


async def test_t2_a_store_that_is_away_refuses_each_binding_in_passing() -> None:
    kit = StreamKit()
    execution = kit.activate()
    kit.kit.store.unavailable = True
    (result,) = await kit.bind(execution)
    assert (result.error.reason, result.error.retryable) == (common_pb2.UNAVAILABLE, True)
    kit.kit.store.unavailable = False
    assert await kit.key_of(execution) == 1


async def test_t2_answers_of_one_execution_never_overtake_and_others_may() -> None:
    kit = StreamKit(lanes={"max_batch_commands": 1})
    slow, quick = kit.activate(), kit.activate()
    slow_key, quick_key = await kit.key_of(slow), await kit.key_of(quick)
    kit.lanes.gate.close()
    first = await kit.send(started(quick_key), started(slow_key))
    second = await kit.send(progress(quick_key, 2))
    third = await kit.send(started(9))
    await kit.answer(third)
    kit.lanes.gate.open()
    await kit.answer(second)
    assert kit.order[-3:] == [third, first, second]


async def test_h7_accepted_progress_renews_the_lease() -> None:
    kit = StreamKit()
    execution = kit.activate()
    key = await kit.key_of(execution)
    assert await kit.report(progress(key, 1)) == ["TRANSITION_NOT_ALLOWED"]
    assert kit.renewal.renewed == {}
    await kit.report(started(key))
    assert kit.renewal.renewed == {}
    await kit.report(progress(key, 2))
    assert kit.renewal.renewed == {id_of(execution): kit.kit.clock.monotonic}


async def test_n4_a_caller_that_reports_too_much_is_refused_item_by_item_in_order() -> None:
    kit = StreamKit(limit=RateLimit(events_per_second=1.0, burst_events=2.0))
    key = await kit.key_of(kit.activate())
    events = [started(key), *(progress(key, seq, seq) for seq in range(2, 5))]
    assert await kit.report(*events[:2]) == ["", ""]
    assert await kit.report(*events[2:]) == ["RATE_LIMITED"] * 2
    kit.kit.clock.advance(2)
    assert await kit.report(events[3]) == ["UNAVAILABLE"]
    kit.kit.clock.advance(2)
    assert await kit.report(*events[2:]) == ["", ""]


async def test_e10_events_sent_before_the_failed_one_was_sent_again_stay_refused() -> None:
    kit = StreamKit(lanes={"max_queued_commands": 2, "max_batch_commands": 1})
    key = await kit.key_of(kit.activate())
    events = [started(key), *(progress(key, seq, seq) for seq in range(2, 6))]
    kit.lanes.gate.close()
    first = await kit.send(events[0])
    await kit.lanes.gate.begun()
    overflowing = await kit.send(*events[1:5])
    kit.lanes.gate.open()
    await kit.answer(first)
    reasons = [common_pb2.Reason.Name(r.error.reason) for r in (await kit.answer(overflowing)).reported.results]
    assert reasons == ["REASON_UNSPECIFIED", "REASON_UNSPECIFIED", "RATE_LIMITED", "UNAVAILABLE"]
    assert await kit.report(events[4]) == ["UNAVAILABLE"]
    assert await kit.report(events[3]) == [""]
    assert await kit.report(events[4]) == [""]


async def test_e10_binding_anew_gives_up_what_failed() -> None:
    kit = StreamKit(limit=RateLimit(events_per_second=1.0, burst_events=1.0))
    execution = kit.activate()
    key = await kit.key_of(execution)
    assert await kit.report(started(key)) == [""]
    assert await kit.report(progress(key, 2)) == ["RATE_LIMITED"]
    kit.kit.clock.advance(5)
    assert await kit.report(progress(key, 3)) == ["UNAVAILABLE"]
    assert await kit.key_of(execution) == key
    kit.kit.clock.advance(5)
    assert await kit.report(progress(key, 4)) == [""]


async def test_t2_the_window_counts_what_is_not_written() -> None:
    kit = StreamKit(window_items=4)
    key = await kit.key_of(kit.activate())
    kit.may_write.clear()
    await kit.send(started(key), progress(key, 2, 2))
    await kit.frame(heartbeat=pb.StreamHeartbeat(beats=[pb.StreamBeat(stream_execution_key=key, heartbeat_seq=1)] * 3))
    assert kit.session.in_flight == 5
    over = await kit.send(progress(key, 3, 3))
    kit.may_write.set()
    (result,) = (await kit.answer(over)).reported.results
    assert result.error.reason == common_pb2.WINDOW_EXCEEDED
    await until(lambda: kit.session.in_flight == 0)


async def test_t2_far_beyond_the_window_the_stream_ends() -> None:
    kit = StreamKit(window_items=2)
    key = await kit.key_of(kit.activate())
    with pytest.raises(RefusedError) as caught:
        await kit.send(*(progress(key, seq) for seq in range(1, 6)))
    assert caught.value.reason is Reason.WINDOW_EXCEEDED


async def test_t2_a_client_that_takes_no_answer_is_cut_off_after_a_while() -> None:
    kit = StreamKit(stall_seconds=30)
    key = await kit.key_of(kit.activate())
    kit.may_write.clear()
    await kit.send(started(key))
    await until(lambda: kit.is_writing)
    kit.kit.clock.advance(29)
    kit.session.tick()
    assert not kit.session.over.is_set()
    kit.kit.clock.advance(1)
    kit.session.tick()
    assert kit.session.over.is_set()
    assert (kit.session.failure and kit.session.failure.reason) is Reason.WINDOW_EXCEEDED


async def test_t2_bindings_wait_while_their_answers_are_not_read() -> None:
    kit = StreamKit(waiting_bytes=300)
    executions = [kit.activate() for _ in range(6)]
    kit.may_write.clear()
    binding = asyncio.ensure_future(bind_all(kit, executions))
    await until(lambda: len(kit.session.bindings) >= 1)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(kit.session.bindings) < 6
    kit.may_write.set()
    answers = [await kit.answer(correlation) for correlation in await binding]
    assert [answer.bound.results[0].stream_execution_key for answer in answers] == [1, 2, 3, 4, 5, 6]


async def bind_all(kit: StreamKit, executions: list[BoundExecution]) -> list[int]:
    """One frame for each execution, one after the other as a stream takes them."""
    handles = [execution.credentials.handle for execution in executions]
    return [
        await kit.frame(bind=pb.StreamBind(executions=[pb.BindExecutionRequest(execution_handle=handle)]))
        for handle in handles
    ]


async def test_r11_a_token_that_runs_out_is_told_once_and_refused_until_it_is_renewed() -> None:
    kit = StreamKit()
    key = await kit.key_of(kit.activate(), by="token")
    await kit.report(started(key))
    kit.kit.clock.advance(901)
    kit.session.identity = replace(kit.session.identity, expires_at=1e12)
    kit.session.tick()
    assert await kit.report(progress(key, 2)) == ["TOKEN_EXPIRED"]
    assert await kit.beat((key, 1)) == ["TOKEN_EXPIRED"]
    kit.session.tick()
    assert kit.told() == [(key, "TOKEN_EXPIRED")]
    answer = await kit.answer(await kit.frame(renew=pb.StreamRenew(stream_execution_keys=[key])))
    assert answer.renewed.results[0].renewal.execution_token
    assert await kit.report(progress(key, 2)) == [""]
    assert await kit.beat((key, 1)) == []


async def test_r11_a_handle_does_not_run_out() -> None:
    kit = StreamKit()
    key = await kit.key_of(kit.activate())
    kit.kit.clock.advance(10_000)
    assert await kit.report(started(key)) == [""]


async def test_r11_a_renewal_of_what_has_ended_is_refused_by_its_end() -> None:
    kit = StreamKit()
    key = await kit.key_of(kit.activate(), by="token")
    kit.activate(attempt=2, task=1)
    answer = await kit.answer(await kit.frame(renew=pb.StreamRenew(stream_execution_keys=[key])))
    assert answer.renewed.results[0].error.reason == common_pb2.STALE_ATTEMPT
    assert len(kit.session.bindings) == 0


async def test_t2_the_callers_own_credential_ends_the_stream() -> None:
    kit = StreamKit()
    kit.kit.clock.advance(600)
    kit.session.tick()
    assert (kit.session.failure and kit.session.failure.reason) is Reason.TOKEN_EXPIRED


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"generation": 2}, "TOKEN_REVOKED"),
        ({"generation": 2, "is_current": False}, "TOKEN_REVOKED"),
        ({"is_current": False}, "STALE_ATTEMPT"),
    ],
)
async def test_t2_an_end_found_in_the_store_is_told_and_the_execution_beats_no_more(
    change: dict[str, Any], expected: str
) -> None:
    kit = StreamKit()
    execution = kit.activate()
    key = await kit.key_of(execution)
    await kit.report(started(key))
    beats = kit.binder.live[id_of(execution)]
    beats.on_standing(replace(beats.standing, **change))
    beats.on_standing(replace(beats.standing, **change))
    await until(lambda: kit.notices)
    assert kit.told() == [(key, expected)]
    assert beats.is_closed
    assert await kit.beat((key, 1)) == [expected]


async def test_t2_what_changes_without_an_end_is_told_merged_into_one_notice() -> None:
    kit = StreamKit()
    execution = kit.activate()
    key = await kit.key_of(execution)
    kit.may_write.clear()
    waiting = await kit.send(started(key))
    await until(lambda: kit.binder.live[id_of(execution)].standing.has_open_lease)
    beats = kit.binder.live[id_of(execution)]
    cancelled = replace(beats.standing, cancel_requested=True)
    beats.on_standing(cancelled)
    beats.on_standing(replace(cancelled, interval_seconds=40, health=Health.STALE))
    beats.on_standing(replace(cancelled, interval_seconds=40, health=Health.HEALTHY))
    kit.may_write.set()
    await kit.answer(waiting)
    await until(lambda: kit.notices)
    (notice,) = kit.notices
    assert (notice.cancel_requested, notice.interval_seconds, notice.health) == (True, 40, common_pb2.HEALTHY)
    assert notice.reason == common_pb2.REASON_UNSPECIFIED


async def test_e3_an_ended_execution_still_answers_repeated_events() -> None:
    kit = StreamKit(bound_executions=1)
    first, done = kit.activate(), kit.activate()
    key = await kit.key_of(first)
    begin, end = started(key), event(common_pb2.STEP_COMPLETED, key, 2)
    assert await kit.report(begin, end) == ["", ""]
    assert kit.notices == []
    other = await kit.key_of(done)
    answer = await kit.answer(await kit.send(begin, end, progress(key, 3)))
    assert [result.duplicate for result in answer.reported.results] == [True, True, False]
    assert answer.reported.results[2].reason == common_pb2.TERMINAL
    await kit.report(event(common_pb2.STEP_COMPLETED, other, 1))
    assert await kit.report(begin) == ["EXECUTION_NOT_FOUND"]


async def test_t2_a_full_stream_and_a_full_process_refuse_bindings_in_passing() -> None:
    kit = StreamKit(bound_executions=1)
    first, second = await kit.bind(kit.activate(), kit.activate())
    assert (first.stream_execution_key, second.error.reason) == (1, common_pb2.WINDOW_EXCEEDED)
    other = StreamKit()
    other.binder.full = True
    (refused,) = await other.bind(other.activate())
    assert (refused.error.reason, refused.error.retryable) == (common_pb2.RATE_LIMITED, True)


async def test_n1_a_stream_that_is_to_leave_takes_nothing_new_and_ends() -> None:
    kit = StreamKit()
    execution = kit.activate()
    key = await kit.key_of(execution)
    kit.lanes.gate.close()
    taken = await kit.send(started(key))
    kit.session.leave(5.0)
    refused = await kit.send(started(99))
    assert await kit.beat((key, 1)) == ["UNAVAILABLE"]
    (unbound,) = await kit.bind(execution)
    assert unbound.error.reason == common_pb2.UNAVAILABLE
    kit.lanes.gate.open()
    assert not (await kit.answer(taken)).reported.results[0].HasField("error")
    assert (await kit.answer(refused)).reported.results[0].error.reason == common_pb2.UNAVAILABLE
    kit.kit.clock.advance(5)
    kit.session.tick()
    assert kit.going_away == 1
    assert (kit.session.failure and kit.session.failure.reason) is Reason.UNAVAILABLE


async def test_t2_an_old_stream_is_asked_to_move() -> None:
    kit = StreamKit(age_seconds=300)
    kit.kit.clock.advance(299)
    kit.session.tick()
    assert not kit.session.is_leaving
    kit.kit.clock.advance(1)
    kit.session.tick()
    await until(lambda: kit.going_away)
    assert kit.session.is_leaving


async def test_t2_finish_answers_everything_first() -> None:
    kit = StreamKit()
    key = await kit.key_of(kit.activate())
    kit.lanes.gate.close()
    taken = await kit.send(started(key))
    finishing = asyncio.ensure_future(kit.frame(finish=pb.StreamFinish()))
    await until(lambda: kit.session.is_finished)
    assert not kit.session.over.is_set()
    kit.lanes.gate.open()
    finished = await finishing
    assert (await kit.answer(finished)).HasField("finished")
    assert kit.order[-2:] == [taken, finished]
    assert kit.session.over.is_set()


async def test_t2_what_was_submitted_commits_though_the_stream_is_gone() -> None:
    kit = StreamKit()
    execution = kit.activate()
    key = await kit.key_of(execution)
    kit.lanes.gate.close()
    await kit.send(started(key))
    kit.session.close()
    kit.lanes.gate.open()
    await kit.session.settle()
    assert kit.kit.only_task().version == 2
    assert kit.binder.live == {}
    assert kit.session.outbox.waiting == 0


@pytest.mark.parametrize("name", ["window_items", "frame_items", "bound_executions", "waiting_bytes", "age_seconds"])
def test_n1_bounds_that_hold_nothing_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="positive"):
        StreamConfig(**{name: 0})


async def test_n1_streams_that_bind_at_once_take_turns() -> None:
    kit = StreamKit(binding_at_once=1)
    first, second = kit.activate(), kit.activate()
    await kit.turn.acquire()
    waiting = asyncio.ensure_future(kit.bind(first))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(kit.session.bindings) == 0
    kit.turn.release()
    assert (await waiting)[0].stream_execution_key == 1
    assert await kit.key_of(second) == 2
