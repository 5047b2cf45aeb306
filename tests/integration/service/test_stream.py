"""StreamExecutions on real databases with real clients (T-2, T-3, T-4, E-3, E-10, R-11, H-3)."""

from __future__ import annotations

from uuid import uuid4

import grpc
import grpc.aio
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, query_service_pb2

from taskstatus.application.identity import Role
from tests.integration.service.conftest import OpenWith, Site, activated
from tests.support.clients import activate, new_task, request_cancel, revoke
from tests.support.streams import StreamClient, compact, progress, reasons_of


async def test_t2_a_whole_run_by_stream_has_its_own_versions(site: Site) -> None:
    context = await activated(site)
    async with StreamClient(site.worker) as stream:
        assert stream.opened is not None
        assert stream.opened.window_items == 2_000
        (bound,) = await stream.bind(context)
        assert (bound.response.next_source_seq, bound.response.context.task_id) == (1, context.task_id)
        key = bound.stream_execution_key
        results = await stream.report(
            compact(key, common_pb2.STEP_STARTED, 1),
            progress(key, 2, 5),
            compact(key, common_pb2.STEP_COMPLETED, 3),
        )
        assert [result.task_version for result in results] == [2, 3, 4]
        assert [result.accepted for result in results] == [True] * 3
        assert results[-1].committed_at_us > 0
        assert await stream.finish() is grpc.StatusCode.OK


async def test_t3_the_same_event_by_unary_and_by_stream_is_one_event(site: Site) -> None:
    context = await activated(site)
    started, halfway = uuid4(), uuid4()
    unary = await site.worker.report(
        event_id=started.hex,
        event_type=common_pb2.STEP_STARTED,
        source_seq=1,
        execution_token=context.execution_token,
    )
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(context)
        again, first = await stream.report(
            compact(key, common_pb2.STEP_STARTED, 1, started.bytes), progress(key, 2, 5, halfway.bytes)
        )
    assert (again.duplicate, again.task_version, again.step_version) == (True, unary.task_version, unary.step_version)
    assert again.committed_at_us == unary.committed_at.ToMicroseconds()
    assert (first.duplicate, first.accepted) == (False, True)
    full = await site.worker.report(
        event_id=halfway.hex,
        event_type=common_pb2.STEP_PROGRESS,
        source_seq=2,
        execution_handle=context.execution_handle,
        progress=common_pb2.Progress(current=5, total=10, unit="page"),
    )
    assert (full.duplicate, full.task_version) == (True, first.task_version)


async def test_e10_one_bad_item_on_a_stream_does_not_sink_the_others(site: Site) -> None:
    context = await activated(site)
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(context)
        results = await stream.report(
            compact(key, common_pb2.STEP_STARTED, 1),
            compact(key, common_pb2.STEP_PROGRESS, 0),
            compact(key, common_pb2.STEP_PROGRESS, 2, b"short"),
            compact(key + 1, common_pb2.STEP_COMPLETED, 2),
            compact(key, common_pb2.TASK_COMPLETED, 2),
            compact(key, common_pb2.STEP_COMPLETED, 2, execution_handle=b"x"),
            compact(key, common_pb2.STEP_COMPLETED, 2),
        )
    assert reasons_of(results) == [
        "",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "EXECUTION_NOT_FOUND",
        "EVENT_TYPE_NOT_ALLOWED",
        "INVALID_ARGUMENT",
        "",
    ]
    assert results[-1].task_version == 3


async def test_t2_two_executions_interleave_each_in_its_own_order(site: Site) -> None:
    contexts = [await activated(site), await activated(site)]
    async with StreamClient(site.worker) as stream:
        first, second = [await stream.key_of(context) for context in contexts]
        frames = [
            await stream.send(report=pb.StreamReport(events=[event(key) for key in order]))
            for order, event in (
                ((first, second), lambda key: compact(key, common_pb2.STEP_STARTED, 1)),
                ((second, first), lambda key: progress(key, 2, 3)),
                ((first, second), lambda key: compact(key, common_pb2.STEP_COMPLETED, 3)),
            )
        ]
        answers = [(await frame).reported.results for frame in frames]
    versions = [[result.task_version for result in results] for results in answers]
    assert versions == [[2, 2], [3, 3], [4, 4]]


async def test_r11_revocation_is_noticed_by_the_next_event(site: Site) -> None:
    context = await activated(site)
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(context)
        await stream.report(compact(key, common_pb2.STEP_STARTED, 1))
        await revoke(site.coordinator, context.execution_id)
        assert reasons_of(await stream.report(progress(key, 2, 5))) == ["TOKEN_REVOKED"]
        notice = await stream.notice(lambda notice: notice.reason == common_pb2.TOKEN_REVOKED)
        assert notice.stream_execution_key == key
        assert (await stream.beat((key, 1))).refused[0].reason == common_pb2.TOKEN_REVOKED


async def test_r6_a_superseded_attempt_is_noticed_and_repeated_events_keep_their_answers(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(context)
        started = compact(key, common_pb2.STEP_STARTED, 1)
        (first,) = await stream.report(started)
        await activate(site.coordinator, task_id, attempt=2)
        late, again = await stream.report(progress(key, 2, 5), started)
        assert (late.accepted, late.stale, late.reason) == (False, True, common_pb2.STALE_ATTEMPT)
        assert (again.duplicate, again.task_version) == (True, first.task_version)
        await stream.notice(lambda notice: notice.reason == common_pb2.STALE_ATTEMPT)
        (refused,) = await stream.bind(context)
        assert refused.error.reason == common_pb2.STALE_ATTEMPT


async def test_t2_what_others_do_is_noticed_within_a_persist_period(open_with: OpenWith) -> None:
    site = await open_with(heartbeat_persist_seconds="1")
    cancelled, ended, revoked = [await activated(site) for _ in range(3)]
    async with StreamClient(site.worker) as stream:
        keys = [await stream.key_of(context) for context in (cancelled, ended, revoked)]
        await stream.report(*(compact(key, common_pb2.STEP_STARTED, 1) for key in keys))
        await request_cancel(site.owner, cancelled.task_id)
        await revoke(site.coordinator, revoked.execution_id)
        await site.coordinator.report(event_type=common_pb2.TASK_COMPLETED, source_seq=1, task_id=ended.task_id)
        told = await stream.notice(lambda notice: notice.cancel_requested)
        assert (told.stream_execution_key, told.reason) == (keys[0], common_pb2.REASON_UNSPECIFIED)
        assert (await stream.notice(lambda notice: notice.reason == common_pb2.TERMINAL)).stream_execution_key == keys[
            1
        ]
        gone = await stream.notice(lambda notice: notice.reason == common_pb2.TOKEN_REVOKED)
        assert gone.stream_execution_key == keys[2]
        assert reasons_of(await stream.report(progress(keys[1], 2, 1))) == ["TERMINAL"]
        assert reasons_of(await stream.report(progress(keys[0], 2, 1))) == [""]


async def test_h3_beats_on_a_stream_are_judged_one_by_one(site: Site) -> None:
    context = await activated(site)
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(context)
        early = await stream.beat((key, 1))
        assert [refused.reason for refused in early.refused] == [common_pb2.TRANSITION_NOT_ALLOWED]
        await stream.report(compact(key, common_pb2.STEP_STARTED, 1))
        beaten = await stream.beat((key, 5), (key, 5), (key, 4), (key, 0), (key + 7, 1), (key, 6))
        assert beaten.accepted == 3
        assert [refused.reason for refused in beaten.refused] == [
            common_pb2.STALE_SEQUENCE,
            common_pb2.INVALID_ARGUMENT,
            common_pb2.EXECUTION_NOT_FOUND,
        ]
        await stream.report(compact(key, common_pb2.STEP_COMPLETED, 2))
        assert (await stream.beat((key, 7))).refused[0].reason == common_pb2.TERMINAL


async def test_r11_a_bound_token_is_renewed_on_the_stream(site: Site) -> None:
    context = await activated(site)
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(context, by="token")
        answer = await stream.ask(renew=pb.StreamRenew(stream_execution_keys=[key, key + 1]))
        renewed, unknown = answer.renewed.results
        assert unknown.error.reason == common_pb2.EXECUTION_NOT_FOUND
    token = renewed.renewal.execution_token
    assert (await site.worker.report(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_token=token)).accepted


async def test_r11_binding_judges_each_execution_by_itself(open_with: OpenWith) -> None:
    site = await open_with(stream_bound_executions="2")
    contexts = [await activated(site) for _ in range(3)]
    async with StreamClient(site.worker) as stream:
        wanted = [
            pb.BindExecutionRequest(execution_token=contexts[0].execution_token),
            pb.BindExecutionRequest(execution_handle="exh_forged"),
            pb.BindExecutionRequest(),
            pb.BindExecutionRequest(execution_handle=contexts[1].execution_handle),
            pb.BindExecutionRequest(execution_handle=contexts[2].execution_handle),
            pb.BindExecutionRequest(execution_handle=contexts[0].execution_handle),
        ]
        results = (await stream.ask(bind=pb.StreamBind(executions=wanted))).bound.results
        reasons = [common_pb2.Reason.Name(r.error.reason) if r.HasField("error") else "" for r in results]
        assert reasons == ["", "UNAUTHENTICATED", "UNAUTHENTICATED", "", "WINDOW_EXCEEDED", ""]
        assert results[0].stream_execution_key == results[5].stream_execution_key
    other = site.caller(site.tokens.service("other-parser", Role.WORKER))
    async with StreamClient(other) as stream:
        (refused,) = await stream.bind(contexts[0])
        assert refused.error.reason == common_pb2.PRODUCER_MISMATCH


async def test_n3_events_of_a_stream_belong_to_its_trace(site: Site) -> None:
    context = await activated(site)
    worker = site.worker
    worker.metadata += (("traceparent", f"00-{'ab' * 16}-{'cd' * 8}-01"),)
    async with StreamClient(worker) as stream:
        key = await stream.key_of(context)
        await stream.report(compact(key, common_pb2.STEP_STARTED, 1))
    request = query_service_pb2.ListTaskEventsRequest(task_id=context.task_id, limit=10)
    events = (await site.coordinator.call(site.coordinator.query.ListTaskEvents, request)).events
    assert events[-1].trace_id == "ab" * 16
