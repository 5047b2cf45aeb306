"""The soak's client: what has no answer when its stream breaks is sent again as it was, and counted once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import bind_execution_service_pb2_grpc, common_pb2

from bench.product import UnexpectedAnswerError
from bench.streaming import StreamClient, StreamCutError, open_channel
from bench.workload import Execution, Window

EXECUTIONS = [Execution(b"w", b"t", bytes([number]), "01_parse", f"exh_{number}") for number in range(3)]


class FakeService(bind_execution_service_pb2_grpc.BindExecutionServiceServicer):
    """Commits every event, and breaks its stream before an answer as often as it is told to."""

    def __init__(self) -> None:
        self.committed: set[bytes] = set()
        self.binds = 0
        self.breaks = 0
        self.ended: set[str] = set()
        self.refuse_next = False

    async def BindExecution(self, request: Any, context: Any) -> Any:
        raise AssertionError("the load binds on its stream")

    async def StreamExecutions(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        yield pb.StreamExecutionsResponse(opened=pb.StreamOpened(window_items=100))
        async for frame in request_iterator:
            answer = pb.StreamExecutionsResponse(correlation=frame.correlation)
            match frame.WhichOneof("frame"):
                case "bind":
                    self.binds += 1
                    for key, wanted in enumerate(frame.bind.executions, 1):
                        answer.bound.results.append(self._bound(key, wanted.execution_handle))
                case "report":
                    answer.reported.results.extend(map(self._reported, frame.report.events))
                    if self.breaks:
                        self.breaks -= 1
                        await context.abort(grpc.StatusCode.UNAVAILABLE, "broken off")
                case _:
                    answer.finished.SetInParent()
                    yield answer
                    return
            yield answer

    def _bound(self, key: int, handle: str) -> pb.StreamBoundResult:
        if handle in self.ended:
            return pb.StreamBoundResult(error=common_pb2.ItemError(reason=common_pb2.TERMINAL))
        result = pb.StreamBoundResult(stream_execution_key=key)
        result.response.SetInParent()
        return result

    def _reported(self, event: Any) -> pb.CompactEventResult:
        if self.refuse_next:
            self.refuse_next = False
            return pb.CompactEventResult(error=common_pb2.ItemError(reason=common_pb2.UNAVAILABLE, retryable=True))
        duplicate = event.event_id in self.committed
        self.committed.add(event.event_id)
        return pb.CompactEventResult(accepted=True, changed=True, duplicate=duplicate)


@asynccontextmanager
async def connected(service: FakeService) -> AsyncIterator[StreamClient]:
    """A client whose executions are bound."""
    server = grpc.aio.server()
    bind_execution_service_pb2_grpc.add_BindExecutionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        client = StreamClient(channel, "")
        await client.open(EXECUTIONS)
        yield client
        await client.close()
    await server.stop(0)


def first_frame() -> list[Any]:
    """One event of each execution."""
    return Window([[execution] for execution in EXECUTIONS], len(EXECUTIONS)).next_call()


async def test_e3_events_without_an_answer_are_sent_again_as_they_were() -> None:
    service = FakeService()
    service.breaks = 2
    async with connected(service) as client:
        assert await client.send_until_accepted(first_frame()) == 0
        assert (client.reconnects, client.repeats, service.binds) == (2, len(EXECUTIONS), 3)
        assert len(service.committed) == len(EXECUTIONS)


async def test_e3_an_end_whose_answer_was_lost_shows_when_its_execution_is_bound_again() -> None:
    service = FakeService()
    service.breaks = 1
    async with connected(service) as client:
        service.ended = {EXECUTIONS[1].handle}
        assert await client.send_until_accepted(first_frame()) == 0
        assert (client.reconnects, client.repeats) == (1, len(EXECUTIONS))


async def test_e10_what_is_refused_in_passing_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.streaming.PAUSE_SECONDS", 0.0)
    service = FakeService()
    service.refuse_next = True
    async with connected(service) as client:
        assert await client.send_until_accepted(first_frame()) == 0
        assert (client.refusals, client.repeats) == (1, 0)
        assert len(service.committed) == len(EXECUTIONS)


async def test_a_cut_is_told_to_whoever_waits_and_the_stream_can_be_opened_again() -> None:
    service = FakeService()
    async with connected(service) as client:
        client.cut()
        with pytest.raises(StreamCutError):
            await client.send(first_frame())
        await client.open()
        assert await client.send(first_frame()) == 0


async def test_the_strict_form_takes_no_repeat_for_a_new_version() -> None:
    service = FakeService()
    async with connected(service) as client:
        events = first_frame()
        await client.send(events)
        with pytest.raises(UnexpectedAnswerError):
            await client.send(events)


async def test_an_execution_is_bound_when_it_is_first_told_of_and_no_more_once_it_is_over() -> None:
    service = FakeService()
    late = Execution(b"w", b"t2", b"late", "01_parse", "exh_late")
    async with connected(service) as client:
        window = Window([[late]], 1, progress_events=1)
        while events := window.next_call():
            assert await client.send_until_accepted(events) == 0
        assert (service.binds, len(service.committed)) == (2, 3)
        assert client.keys_of(EXECUTIONS) == [1, 2, 3]
        with pytest.raises(KeyError):
            client.keys_of([late])
