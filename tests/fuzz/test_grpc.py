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

from gateway_rest.routes import stub_files
from taskstatus.application.access import METHOD_ROLES
from tests.fuzz.conftest import Target
from tests.fuzz.live import GOOD, Live, caller_for
from tests.fuzz.secrets import secrets_in
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
        assert await send(target, method, [GOOD[method](live).SerializeToString()]) == [grpc.StatusCode.OK]
        for batch in drawn(method, live):
            codes = await send(target, method, batch)
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


async def send(target: Target, method: str, requests: Sequence[bytes]) -> list[grpc.StatusCode]:
    """The status of each request, sent at once; for batches the worst of the items."""
    call = target.channel.unary_unary(f"/{method}")
    metadata = caller_for(method, target.callers).metadata
    response_class = GetMessageClass(METHODS[method].output_type)

    async def one(request: bytes) -> grpc.StatusCode:
        try:
            answer = await call(request, metadata=metadata, timeout=30)
        except grpc.aio.AioRpcError as error:
            return error.code()
        return worst_of(response_class.FromString(answer))

    return list(await asyncio.gather(*(one(request) for request in requests)))


def worst_of(response: Message) -> grpc.StatusCode:
    """OK, or the status of an item that failed."""
    results: Sequence[Any] = getattr(response, "results", ())
    by_number = {code.value[0]: code for code in grpc.StatusCode}
    codes = [by_number[item.error.code] for item in results if item.HasField("error")]
    return next((code for code in codes if code in FAULTS), grpc.StatusCode.OK)
