"""Streams over real gRPC and the in-memory store: how they open, end, drain and are measured (T-1, T-2, N-1, N-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb

from taskstatus.application.identity import Identity, Role
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.grpc.stream_bindings import Bound
from taskstatus.entrypoints.grpc.stream_config import leaving
from taskstatus.entrypoints.grpc.stream_server import METHOD, StreamServer, handler
from taskstatus.entrypoints.grpc.stream_session import StreamSession
from taskstatus.entrypoints.wire.call import CallInfo
from tests.support.clients import Caller
from tests.support.garbage import living, nothing_collected
from tests.support.streams import StreamClient, reasons_of
from tests.unit.factories import PARSER
from tests.unit.service_kit import a_service

from .kit import StreamKit, progress, started, until


@dataclass
class Observed:
    """What was measured."""

    ended: list[tuple[str, str, str]] = field(default_factory=list)
    gauges: tuple[int, int] = (0, 0)

    def call_ended(self, transport: str, method: str, status: str, seconds: float) -> None:
        """Keep it."""
        self.ended.append((transport, method.rpartition("/")[2], status))

    def streams_open(self, streams: int, executions: int) -> None:
        """Keep it."""
        self.gauges = (streams, executions)


@dataclass
class Place:
    """A server and its client."""

    kit: StreamKit
    server: StreamServer
    observed: Observed
    caller: Callable[[str], Caller]


async def authenticate(method: str, call: CallInfo) -> Identity:
    """Whoever says so is the worker."""
    assert method == METHOD
    if call.bearer_token != "worker":
        raise RefusedError(Reason.UNAUTHENTICATED, "who are you?")
    return a_service(PARSER, Role.WORKER)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """One server on a free port."""
    kit, observed = StreamKit(), Observed()
    streams = StreamServer(kit.parts, authenticate, observed)
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    service, name = METHOD.split("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler(streams)}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Place(kit, streams, observed, lambda token: Caller(channel, token))
        await streams.stop(0.1)
    await server.stop(None)


def contexts(kit: StreamKit, count: int) -> list[Any]:
    """Executions as ``StreamClient`` binds them."""
    return [kit.activate().credentials for _ in range(count)]


async def key_of(stream: StreamClient, credentials: Any) -> int:
    """The number of an execution."""
    wanted = pb.StreamBind(executions=[pb.BindExecutionRequest(execution_handle=credentials.handle)])
    return (await stream.ask(bind=wanted)).bound.results[0].stream_execution_key


async def test_n3_every_end_of_a_stream_is_measured(place: Place) -> None:
    async with StreamClient(place.caller("worker")) as stream:
        await key_of(stream, *contexts(place.kit, 1))
        await place.server.run_once()
        assert place.observed.gauges == (1, 1)
        await stream.finish()
    async with StreamClient(place.caller("worker")):
        pass
    with pytest.raises(grpc.aio.AioRpcError):
        async with StreamClient(place.caller("stranger")):
            pass
    await until_measured(place, 3)
    assert [status for _, _, status in place.observed.ended] == ["OK", "CANCELLED", "UNAUTHENTICATED"]
    assert {ended[:2] for ended in place.observed.ended} == {("grpc", "StreamExecutions")}
    await place.server.run_once()
    assert place.observed.gauges == (0, 0)


async def until_measured(place: Place, ends: int) -> None:
    """Wait until so many streams have ended on the server's side."""
    async with asyncio.timeout(20):
        while len(place.observed.ended) < ends:
            await asyncio.sleep(0.001)


async def test_t2_a_fault_of_the_service_ends_the_stream_without_its_cause(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(place.kit.parts.reporting, "submit", broken)
    async with StreamClient(place.caller("worker")) as stream:
        key = await key_of(stream, *contexts(place.kit, 1))
        await stream.send(report=pb.StreamReport(events=[started(key)]))
        refusal = await stream.refusal()
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "hunter2" not in refusal.message


async def test_t2_a_cancelled_stream_is_not_written_to_and_its_events_commit(place: Place) -> None:
    async with StreamClient(place.caller("worker")) as stream:
        key = await key_of(stream, *contexts(place.kit, 1))
        place.kit.lanes.gate.close()
        await stream.send(report=pb.StreamReport(events=[started(key)]))
        await place.kit.lanes.gate.begun()
    await until_measured(place, 1)
    assert place.server.open_streams == 0
    place.kit.lanes.gate.open()
    await until(lambda: place.kit.kit.only_task().version == 2)
    assert place.kit.binder.live == {}


async def test_n1_a_drain_waits_for_what_was_taken_and_admits_nobody(place: Place) -> None:
    async with StreamClient(place.caller("worker")) as stream:
        key = await key_of(stream, *contexts(place.kit, 1))
        place.kit.lanes.gate.close()
        taken = await stream.send(report=pb.StreamReport(events=[started(key)]))
        await place.kit.lanes.gate.begun()
        stopping = asyncio.ensure_future(place.server.stop(30.0))
        await stream.going_away.wait()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async with StreamClient(place.caller("worker")):
                pass
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        finishing = asyncio.ensure_future(stream.finish())
        place.kit.lanes.gate.open()
        assert reasons_of((await taken).reported.results) == [""]
        assert await finishing is grpc.StatusCode.OK
        await stopping
    await place.server.stop(0.1)


async def test_n1_a_drain_ends_streams_that_do_not_leave(place: Place) -> None:
    async with StreamClient(place.caller("worker")) as stream:
        await place.server.stop(0.2)
        refusal = await stream.refusal()
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
    assert place.server.open_streams == 0


async def test_n1_a_drain_waits_for_a_slow_commit_of_a_client_that_does_not_leave(place: Place) -> None:
    async with StreamClient(place.caller("worker")) as stream:
        key = await key_of(stream, *contexts(place.kit, 1))
        place.kit.lanes.gate.close()
        taken = await stream.send(report=pb.StreamReport(events=[started(key)]))
        await place.kit.lanes.gate.begun()
        session = next(iter(place.server._sessions))
        session.end(leaving())
        place.kit.lanes.gate.open()
        assert reasons_of((await taken).reported.results) == [""]
        assert (await stream.refusal()).reason == "UNAVAILABLE"


async def test_t2_a_half_closed_client_that_never_reads_is_not_waited_for(place: Place) -> None:
    async with StreamClient(place.caller("worker")) as stream:
        key = await key_of(stream, *contexts(place.kit, 1))
        session = next(iter(place.server._sessions))
        place.kit.lanes.gate.close()
        await stream.send(report=pb.StreamReport(events=[started(key)]))
        await place.kit.lanes.gate.begun()
        await stream.call.done_writing()
        session.stalled.set()
        await until_measured(place, 1)
    assert place.server.open_streams == 0
    place.kit.lanes.gate.open()
    await until(lambda: place.kit.kit.only_task().version == 2)


@pytest.mark.parametrize("end", ["finished", "half-closed", "cancelled", "cancelled amid a commit", "refused"])
async def test_n1_what_a_stream_held_goes_with_it_and_waits_for_no_collector(place: Place, end: str) -> None:
    (credentials,) = contexts(place.kit, 1)
    with nothing_collected():
        async with StreamClient(place.caller("worker")) as stream:
            key = await key_of(stream, credentials)
            answer = await stream.ask(report=pb.StreamReport(events=[started(key)]))
            assert reasons_of(answer.reported.results) == [""]
            assert not (await stream.beat((key, 1))).refused
            assert living(Bound) == 1
            if end == "finished":
                await stream.finish()
            elif end == "half-closed":
                await stream.call.done_writing()
                await stream.code()
            elif end == "refused":
                next(iter(place.server._sessions)).end(leaving())
                await stream.refusal()
            elif end == "cancelled amid a commit":
                place.kit.lanes.gate.close()
                await stream.send(report=pb.StreamReport(events=[progress(key, 2)]))
                await place.kit.lanes.gate.begun()
        await until_measured(place, 1)
        place.kit.lanes.gate.open()
        # The kit has a session of its own.
        await until(lambda: (living(StreamSession), living(Bound)) == (1, 0))
