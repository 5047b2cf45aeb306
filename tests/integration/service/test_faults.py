"""The database goes away and comes back: nothing acknowledged is lost, nothing is written twice (N-1, B-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, query_service_pb2, report_service_pb2

from scripts.stack import servers
from scripts.stack.devkeys import DevKeys
from taskstatus.bootstrap import open_service
from taskstatus.entrypoints.grpc.server import GrpcConfig, GrpcServer
from tests.integration.service.conftest import Site, settings_for
from tests.support.clients import Tokens, activate, event_request, new_task, refusal_of
from tests.support.commit_cutter import CommitCutter
from tests.support.databases import create_schema, schema_url
from tests.support.streams import StreamClient, compact, progress, reasons_of

START = {"mysql": servers.start_mysql, "mariadb": servers.start_mariadb}


@pytest.fixture(scope="module", params=list(START))
def own_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A database server that these tests may kill."""
    server = START[request.param](tmp_path_factory.mktemp(request.param), own=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def own_url(own_server: servers.RunningServer) -> str:
    """A migrated schema on it."""
    url = schema_url(own_server.url, "faults")
    create_schema(url)
    return url


OpenAt = Callable[[str], "asyncio.Future[Site]"]


@pytest.fixture
async def open_at(dev_keys: DevKeys) -> AsyncIterator[OpenAt]:
    """Opens a replica over any URL."""
    async with AsyncExitStack() as stack:

        async def open_one(url: str) -> Site:
            service = await stack.enter_async_context(open_service(settings_for(url, dev_keys)))
            server = GrpcServer(
                GrpcConfig("127.0.0.1:0", drain_grace_seconds=1.0), service.dispatch, service.clock, service.streams
            )
            port = await server.start()
            stack.push_async_callback(server.stop)
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            return Site(service, channel, Tokens(dev_keys.identity_file))

        yield open_one  # type: ignore[misc]


async def test_n1_database_down_is_unavailable_and_the_same_event_later_succeeds(
    own_server: servers.RunningServer, own_url: str, open_at: OpenAt
) -> None:
    site = await open_at(own_url)
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    event = event_request(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle)
    report = site.worker.report_service.ReportEvent
    own_server.kill9()
    refusal = await site.worker.refused(report, event)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
    assert refusal.retry_after is not None
    own_server.restart()
    answer = await site.worker.call(report, event)
    assert (answer.accepted, answer.duplicate, answer.task_version) == (True, False, 2)


async def test_n1_readers_survive_a_restarted_database(
    own_server: servers.RunningServer, own_url: str, open_at: OpenAt
) -> None:
    site = await open_at(own_url)
    task_id = await new_task(site.coordinator)
    request = query_service_pb2.GetTaskRequest(task_id=task_id)
    await site.owner.call(site.owner.query.GetTask, request)
    own_server.kill9()
    own_server.restart()
    view = await site.owner.call(site.owner.query.GetTask, request)
    assert view.task.task_id == task_id


async def test_e6_a_lost_commit_reply_is_settled_by_the_dedup_row(
    own_server: servers.RunningServer, own_url: str, open_at: OpenAt, tmp_path: Path
) -> None:
    direct = await open_at(own_url)
    task_id = await new_task(direct.coordinator)
    context = await activate(direct.coordinator, task_id)
    async with CommitCutter(own_server.port) as cutter:
        site = await open_at(own_url.replace(f":{own_server.port}/", f":{cutter.port}/"))
        cutter.cut_next_commit_reply()
        answer = await site.worker.report(
            event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle
        )
        assert cutter.replies_cut == 1
        assert (answer.accepted, answer.duplicate, answer.task_version) == (True, False, 2)
        timeline = await direct.coordinator.call(
            direct.coordinator.query.ListTaskEvents, query_service_pb2.ListTaskEventsRequest(task_id=task_id)
        )
        assert [e.task_version for e in timeline.events] == [1, 2]


async def test_r1_a_lost_commit_reply_of_a_creation_is_still_the_first_creation(
    own_server: servers.RunningServer, own_url: str, open_at: OpenAt
) -> None:
    async with CommitCutter(own_server.port) as cutter:
        site = await open_at(own_url.replace(f":{own_server.port}/", f":{cutter.port}/"))
        cutter.cut_next_commit_reply()
        task_id = await new_task(site.coordinator)
        assert cutter.replies_cut == 1
        cutter.cut_next_commit_reply()
        context = await activate(site.coordinator, task_id)
        assert (context.created, context.task_version) == (True, 1)


async def test_e10_a_callers_deadline_never_cancels_the_shared_batch(
    own_server: servers.RunningServer, own_url: str, open_at: OpenAt
) -> None:
    async with CommitCutter(own_server.port) as cutter:
        site = await open_at(own_url.replace(f":{own_server.port}/", f":{cutter.port}/"))
        task_id = await new_task(site.coordinator)
        context = await activate(site.coordinator, task_id)
        event = event_request(
            event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle
        )
        cutter.hold_commits()
        impatient = site.worker.report_service.ReportEvent(event, metadata=site.worker.metadata, timeout=0.3)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await impatient
        assert refusal_of(caught.value).code is grpc.StatusCode.DEADLINE_EXCEEDED
        cutter.release_commits()
        again = await site.worker.call(site.worker.report_service.ReportEvent, event)
        assert (again.accepted, again.task_version) == (True, 2)


async def test_n1_drain_commits_and_answers_what_was_accepted(
    own_server: servers.RunningServer, own_url: str, dev_keys: DevKeys
) -> None:
    async with CommitCutter(own_server.port) as cutter:
        url = own_url.replace(f":{own_server.port}/", f":{cutter.port}/")
        async with open_service(settings_for(url, dev_keys)) as service:
            server = GrpcServer(GrpcConfig("127.0.0.1:0", drain_grace_seconds=20.0), service.dispatch, service.clock)
            port = await server.start()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                site = Site(service, channel, Tokens(dev_keys.identity_file))
                task_id = await new_task(site.coordinator)
                handle = (await activate(site.coordinator, task_id)).execution_handle
                cutter.hold_commits()
                batch = report_service_pb2.BatchReportEventsRequest(
                    events=[event_request(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle)]
                )
                pending = asyncio.ensure_future(site.worker.call(site.worker.report_service.BatchReportEvents, batch))
                await cutter.commit_held()
                stopping = asyncio.ensure_future(server.stop())
                cutter.release_commits()
                results = (await pending).results
                await stopping
    assert results[0].response.task_version == 2


async def test_e10_on_a_stream_what_failed_must_be_sent_again_before_what_came_after(
    own_server: servers.RunningServer, own_url: str, open_at: OpenAt
) -> None:
    site = await open_at(own_url)
    broken, other = [await activate(site.coordinator, await new_task(site.coordinator)) for _ in range(2)]
    async with StreamClient(site.worker) as stream:
        key, other_key = await stream.key_of(broken), await stream.key_of(other)
        started, later = compact(key, common_pb2.STEP_STARTED, 1), progress(key, 2, 5)
        own_server.kill9()
        assert reasons_of(await stream.report(started, later)) == ["UNAVAILABLE", "UNAVAILABLE"]
        own_server.restart()
        results = await stream.report(later, compact(other_key, common_pb2.STEP_STARTED, 1))
        assert reasons_of(results) == ["UNAVAILABLE", ""]
        results = await stream.report(started, later)
        assert [result.task_version for result in results] == [2, 3]


async def test_e3_a_stream_cut_before_its_answer_gives_the_first_answer_to_the_next(
    own_server: servers.RunningServer, own_url: str, open_at: OpenAt
) -> None:
    async with CommitCutter(own_server.port) as cutter:
        site = await open_at(own_url.replace(f":{own_server.port}/", f":{cutter.port}/"))
        context = await activate(site.coordinator, await new_task(site.coordinator))
        async with StreamClient(site.worker) as stream:
            key = await stream.key_of(context)
            event = compact(key, common_pb2.STEP_STARTED, 1)
            cutter.hold_commits()
            await stream.send(report=pb.StreamReport(events=[event]))
            await cutter.commit_held()
        cutter.release_commits()
        async with StreamClient(site.worker) as stream:
            event.stream_execution_key = await stream.key_of(context)
            (again,) = await stream.report(event)
            following = await stream.report(progress(event.stream_execution_key, 2, 5))
    assert (again.accepted, again.duplicate, again.task_version) == (True, True, 2)
    assert following[0].task_version == 3


async def test_n1_drain_commits_and_answers_what_a_stream_had_sent(
    own_server: servers.RunningServer, own_url: str, dev_keys: DevKeys
) -> None:
    async with CommitCutter(own_server.port) as cutter:
        url = own_url.replace(f":{own_server.port}/", f":{cutter.port}/")
        async with open_service(settings_for(url, dev_keys)) as service:
            config = GrpcConfig("127.0.0.1:0", drain_grace_seconds=20.0)
            server = GrpcServer(config, service.dispatch, service.clock, service.streams)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{await server.start()}") as channel:
                site = Site(service, channel, Tokens(dev_keys.identity_file))
                context = await activate(site.coordinator, await new_task(site.coordinator))
                async with StreamClient(site.worker) as stream:
                    key = await stream.key_of(context)
                    cutter.hold_commits()
                    pending = await stream.send(
                        report=pb.StreamReport(events=[compact(key, common_pb2.STEP_STARTED, 1)])
                    )
                    await cutter.commit_held()
                    stopping = asyncio.ensure_future(server.stop())
                    await stream.going_away.wait()
                    finishing = asyncio.ensure_future(stream.finish())
                    cutter.release_commits()
                    (result,) = (await pending).reported.results
                    assert await finishing is grpc.StatusCode.OK
                await stopping
    assert result.task_version == 2
