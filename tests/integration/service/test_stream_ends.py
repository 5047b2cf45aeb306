"""How streams are bounded and how they end, on real databases with real clients (T-1, T-2, N-1, W-4)."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import grpc
import grpc.aio
import pytest
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, query_service_pb2

from scripts.stack.devkeys import DevKeys
from taskstatus.application.identity import Role
from taskstatus.bootstrap import open_service
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from taskstatus.entrypoints.grpc.stream_config import leaving
from taskstatus.sdk import ExecutionContext, ReportAnswer, StreamReporter, connect
from tests.integration.service.conftest import OpenWith, Site, activated, settings_for
from tests.support.clients import WORKER, Tokens, refusal_of
from tests.support.streams import StreamClient, compact, progress, reasons_of


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (b"\xff\xff", ()),
        (b"", ("frame",)),
        (pb.StreamExecutionsRequest(finish=pb.StreamFinish()).SerializeToString(), ("correlation",)),
        (pb.StreamExecutionsRequest(correlation=1, report=pb.StreamReport()).SerializeToString(), ("report",)),
        (
            pb.StreamExecutionsRequest(
                correlation=1, renew=pb.StreamRenew(stream_execution_keys=[1] * 501)
            ).SerializeToString(),
            ("renew",),
        ),
    ],
)
async def test_t2_a_frame_that_is_none_ends_the_stream(site: Site, frame: bytes, field: tuple[str, ...]) -> None:
    method = site.channel.stream_stream("/taskstatus.v1.BindExecutionService/StreamExecutions")
    call = method(metadata=site.worker.metadata)
    assert pb.StreamExecutionsResponse.FromString(await call.read()).HasField("opened")
    await call.write(frame)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    refusal = refusal_of(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert refusal.fields == field


async def test_t2_items_beyond_the_window_are_refused_and_do_not_let_others_overtake(open_with: OpenWith) -> None:
    site = await open_with(stream_window_items="3")
    context = await activated(site)
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(context)
        events = [compact(key, common_pb2.STEP_STARTED, 1), *(progress(key, seq, seq) for seq in range(2, 6))]
        results = await stream.report(*events)
        assert reasons_of(results) == ["", "", "", "WINDOW_EXCEEDED", "WINDOW_EXCEEDED"]
        assert reasons_of(await stream.report(events[4])) == ["UNAVAILABLE"]
        assert reasons_of(await stream.report(*events[3:])) == ["", ""]


async def test_t2_a_client_far_beyond_the_window_is_cut_off(open_with: OpenWith) -> None:
    site = await open_with(stream_window_items="3")
    context = await activated(site)
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(context)
        await stream.send(report=pb.StreamReport(events=[progress(key, seq, 1) for seq in range(1, 8)]))
        refusal = await stream.refusal()
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "WINDOW_EXCEEDED")
    assert refusal.retry_after is not None


async def test_t2_a_client_that_never_reads_is_cut_off(open_with: OpenWith) -> None:
    site = await open_with(stream_window_items="2000", events_per_second="1e9", burst_heartbeats="1e9")
    call = site.worker.bind_service.StreamExecutions(metadata=site.worker.metadata)
    beats = [pb.StreamBeat(stream_execution_key=2**32 - 1, heartbeat_seq=2**63) for _ in range(500)]
    frame = pb.StreamExecutionsRequest(correlation=1, heartbeat=pb.StreamHeartbeat(beats=beats))
    streams = site.service.streams

    async def write_on() -> None:
        while True:
            await call.write(frame)

    writing = asyncio.create_task(write_on())
    async with asyncio.timeout(60):
        while not streams.open_streams:
            await asyncio.sleep(0.01)
        (session,) = streams._sessions
        while streams.open_streams:
            await asyncio.sleep(0.01)
            assert session.in_flight <= 3 * 2_000
    writing.cancel()
    await asyncio.wait([writing])
    assert session.outbox.waiting == 0
    assert (session.failure and session.failure.reason) is Reason.WINDOW_EXCEEDED
    call.cancel()


async def test_a4_a_stream_needs_a_worker(site: Site) -> None:
    for caller, code in (
        (site.caller(""), grpc.StatusCode.UNAUTHENTICATED),
        (site.coordinator, grpc.StatusCode.PERMISSION_DENIED),
        (site.owner, grpc.StatusCode.PERMISSION_DENIED),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async with StreamClient(caller):
                pass
        assert caught.value.code() is code


async def test_t2_a_stream_does_not_outlive_its_callers_credential(site: Site) -> None:
    worker = site.caller(site.tokens.service(WORKER, Role.WORKER, seconds=2))
    context = await activated(site)
    async with StreamClient(worker) as stream:
        key = await stream.key_of(context)
        assert reasons_of(await stream.report(compact(key, common_pb2.STEP_STARTED, 1))) == [""]
        refusal = await stream.refusal()
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_EXPIRED")


async def test_t2_a_half_closed_stream_is_answered_and_a_cancelled_one_commits(site: Site) -> None:
    half, cancelled = await activated(site), await activated(site)
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(half)
        answer = await stream.send(report=pb.StreamReport(events=[compact(key, common_pb2.STEP_STARTED, 1)]))
        await stream.call.done_writing()
        assert reasons_of((await answer).reported.results) == [""]
        assert await stream.code() is grpc.StatusCode.OK
    event = uuid4()
    async with StreamClient(site.worker) as stream:
        key = await stream.key_of(cancelled)
        answer = await stream.send(
            report=pb.StreamReport(events=[compact(key, common_pb2.STEP_STARTED, 1, event.bytes)])
        )
        await answer
    again = await site.worker.report(
        event_id=event.hex,
        event_type=common_pb2.STEP_STARTED,
        source_seq=1,
        execution_handle=cancelled.execution_handle,
    )
    assert again.duplicate


async def test_n1_drain_answers_what_was_taken_and_takes_nothing_new(database_url: str, dev_keys: DevKeys) -> None:
    async with open_service(settings_for(database_url, dev_keys)) as service:
        config = GrpcConfig("127.0.0.1:0", drain_grace_seconds=4.0)
        server = GrpcServer(config, service.dispatch, service.clock, service.streams)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{await server.start()}") as channel:
            site = Site(service, channel, Tokens(dev_keys.identity_file))
            context = await activated(site)
            async with StreamClient(site.worker) as stream, StreamClient(site.worker) as orderly:
                key = await stream.key_of(context)
                taken = await stream.send(report=pb.StreamReport(events=[compact(key, common_pb2.STEP_STARTED, 1)]))
                await taken
                stopping = asyncio.create_task(server.stop())
                async with asyncio.timeout(30):
                    await asyncio.gather(stream.going_away.wait(), orderly.going_away.wait())
                assert reasons_of(await stream.report(progress(key, 2, 5))) == ["UNAVAILABLE"]
                assert await orderly.finish() is grpc.StatusCode.OK
                refusal = await stream.refusal()
                await stopping
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
    assert service.streams.open_streams == 0


async def test_w4_the_sdk_runs_many_executions_over_cut_streams(open_with: OpenWith, dev_keys: DevKeys) -> None:
    site = await open_with(stream_age_seconds="10")
    contexts = [ExecutionContext.from_message(await activated(site)) for _ in range(8)]
    token = site.tokens.service(WORKER, Role.WORKER)

    async def work(stream: StreamReporter, context: ExecutionContext) -> ReportAnswer | None:
        async with stream.execution(context) as execution:
            for page in range(1, 6):
                await execution.progress(page, 5, "page")
                if page == 3 and context is contexts[0]:
                    for session in list(site.service.streams._sessions):
                        session.end(leaving())
        return execution.last_answer

    async with connect(site.target, lambda: token) as connection, StreamReporter(connection) as stream:
        answers = await asyncio.gather(*(work(stream, context) for context in contexts))
    assert [answer.lifecycle_status for answer in answers if answer] == ["RUNNING"] * 8
    for context in contexts:
        request = query_service_pb2.ListTaskEventsRequest(task_id=context.task_id, limit=100)
        events = (await site.coordinator.call(site.coordinator.query.ListTaskEvents, request)).events
        assert [event.task_version for event in events] == list(range(1, len(events) + 1))
        assert events[-1].event_type == common_pb2.STEP_COMPLETED
        assert len({event.event_id for event in events}) == len(events)


async def test_n1_connections_that_grow_old_lose_nothing(database_url: str, dev_keys: DevKeys) -> None:
    async with open_service(settings_for(database_url, dev_keys)) as service:
        config = GrpcConfig(
            "127.0.0.1:0",
            max_connection_age_seconds=1,
            max_connection_age_grace_seconds=1,
            drain_grace_seconds=1.0,
        )
        server = GrpcServer(config, service.dispatch, service.clock, service.streams)
        target = f"127.0.0.1:{await server.start()}"
        async with grpc.aio.insecure_channel(target) as channel:
            site = Site(service, channel, Tokens(dev_keys.identity_file), target)
            context = ExecutionContext.from_message(await activated(site))
            token = site.tokens.service(WORKER, Role.WORKER)
            links, answers = set[int](), list[ReportAnswer]()
            async with connect(target, lambda: token) as connection, StreamReporter(connection) as stream:
                execution = await stream.bind(context)
                answers.append(await execution.started())
                while len(links) < 3:
                    links.add(id(stream._link))
                    answer = await execution.progress(len(answers), 1e6, "page")
                    answers.extend([answer] if answer else [])
                answers.append(await execution.completed())
            request = query_service_pb2.ListTaskEventsRequest(task_id=context.task_id, limit=500)
            timeline = (await site.coordinator.call(site.coordinator.query.ListTaskEvents, request)).events
        await server.stop()
    assert [answer.task_version for answer in answers] == sorted({answer.task_version for answer in answers})
    assert {answer.event_id for answer in answers[:400]} <= {event.event_id for event in timeline}
    assert [event.task_version for event in timeline] == list(range(1, len(timeline) + 1))
