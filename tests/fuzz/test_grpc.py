"""Random and damaged messages to every gRPC method: never INTERNAL, never UNKNOWN, no secret in a log (E-2, N-4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2

from gateway_rest.routes import stub_files
from taskstatus.application.access import METHOD_ROLES
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.wire.statuses import GRPC_STATUS
from tests.fuzz.conftest import Target
from tests.fuzz.live import GOOD, Live, caller_for
from tests.fuzz.secrets import SHAPES, issues, secrets_in
from tests.fuzz.values import BURST, PROFILE, damaged, messages, partly

FAULTS = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE})
METHODS = {
    f"{service.full_name}/{method.name}": method
    for file in stub_files()
    for service in file.services_by_name.values()
    for method in service.methods
}


def test_every_method_has_a_good_request() -> None:
    assert GOOD.keys() == METHODS.keys() == METHOD_ROLES.keys()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", METHODS)
async def test_e2_no_message_makes_a_method_fail(target: Target, caplog: pytest.LogCaptureFixture, method: str) -> None:
    live = await target.live()
    with caplog.at_level(logging.DEBUG, "taskstatus"):
        assert await send(target, method, [GOOD[method](live).SerializeToString()], live) == [grpc.StatusCode.OK]
        for batch in drawn(method, live):
            codes = await send(target, method, batch, live)
            assert [(code, raw.hex()) for code, raw in zip(codes, batch, strict=True) if code in FAULTS] == []
    assert secrets_in(caplog.records, target.secrets(live)) == []


def drawn(method: str, live: Live) -> list[list[bytes]]:
    """Bursts of requests: of the method's own type at random, good ones with odd fields, and damaged bytes."""
    good = GOOD[method](live)
    some = messages(METHODS[method].input_type, live.known)
    valid = (some | some.map(lambda odd: partly(good, odd))).map(lambda message: message.SerializeToString())
    bursts: list[list[bytes]] = []

    @PROFILE
    @given(st.lists(valid | damaged(good.SerializeToString()), min_size=BURST, max_size=BURST))
    def collect(burst: list[bytes]) -> None:
        bursts.append(burst)

    collect()
    return bursts


async def send(target: Target, method: str, requests: Sequence[bytes], live: Live) -> list[grpc.StatusCode]:
    """The status of each request, sent at once; for batches the worst of the items."""
    if METHODS[method].client_streaming:
        return list(await asyncio.gather(*(on_stream(target, method, request, live) for request in requests)))
    call = target.channel.unary_unary(f"/{method}")
    metadata = caller_for(method, target.callers).metadata
    response_class = GetMessageClass(METHODS[method].output_type)

    async def one(request: bytes) -> grpc.StatusCode:
        try:
            answer = await call(request, metadata=metadata, timeout=30)
        except grpc.aio.AioRpcError as error:
            assert not SHAPES.search(error.details() or "")
            return error.code()
        response = response_class.FromString(answer)
        assert issues(METHODS[method]) or not SHAPES.search(str(response))
        return worst_of(response)

    return list(await asyncio.gather(*(one(request) for request in requests)))


async def on_stream(target: Target, method: str, frame: bytes, live: Live) -> grpc.StatusCode:
    """The status of a stream that binds the execution, sends the frame and half-closes; or the worst of its items."""
    call = target.channel.stream_stream(f"/{method}")(metadata=caller_for(method, target.callers).metadata, timeout=30)
    binding = pb.StreamBind(executions=[pb.BindExecutionRequest(execution_handle=live.context.execution_handle)])
    worst = grpc.StatusCode.OK
    try:
        await call.write(pb.StreamExecutionsRequest(correlation=1, bind=binding).SerializeToString())
        await call.write(frame)
        await call.done_writing()
        while isinstance(answer := await call.read(), bytes):
            results = worst_of(pb.StreamExecutionsResponse.FromString(answer).reported)
            worst = results if results in FAULTS else worst
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        pass
    code: grpc.StatusCode = await call.code()
    return worst if code is grpc.StatusCode.OK else code


def worst_of(response: Message) -> grpc.StatusCode:
    """OK, or the status of an item that failed."""
    results: Sequence[Any] = getattr(response, "results", ())
    codes = [status_of(item) for item in results]
    return next((code for code in codes if code in FAULTS), grpc.StatusCode.OK)


def status_of(item: Any) -> grpc.StatusCode:
    """The status of an item: of its error, or of the reason that a heartbeat is answered with."""
    if "error" not in item.DESCRIPTOR.fields_by_name:
        return GRPC_STATUS[Reason(common_pb2.Reason.Name(item.reason))] if item.reason else grpc.StatusCode.OK
    by_number = {code.value[0]: code for code in grpc.StatusCode}
    return by_number[item.error.code] if item.HasField("error") else grpc.StatusCode.OK
