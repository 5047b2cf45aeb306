"""Fakes of the gateway's ports, and a message that has a field of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from opentelemetry import trace
from starlette.applications import Starlette

from gateway_rest.app import RestSettings, create_app
from gateway_rest.routes import load_bindings, stub_files
from taskstatus.entrypoints.wire.call import CallInfo

BASE_URL = "http://gateway.test"
JSON = {"content-type": "application/json"}


@dataclass
class FakeClock:
    """Stands still."""

    unix: float = 1_700_000_000.5
    monotonic: float = 42.25

    def unix_seconds(self) -> float:
        """The wall clock."""
        return self.unix

    def monotonic_seconds(self) -> float:
        """The monotonic clock."""
        return self.monotonic


@dataclass
class FakeDispatch:
    """Records calls; answers with a given or an empty response, or raises."""

    answer: Message | None = None
    error: Exception | None = None
    hangs: bool = False
    calls: list[tuple[str, Message, CallInfo]] = field(default_factory=list)

    async def __call__(self, method: str, request: Message, call: CallInfo) -> Message:
        """Serve one call."""
        self.calls.append((method, request, call))
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.answer if self.answer is not None else _empty_response(method)

    @property
    def request(self) -> Message:
        """The message of the only call."""
        ((_, request, _),) = self.calls
        return request

    @property
    def call(self) -> CallInfo:
        """What was told about the only call."""
        ((_, _, call),) = self.calls
        return call


class RestClient:
    """Sends requests to the application in this process; an exception that escapes it fails the test."""

    def __init__(self, app: Starlette) -> None:
        self.app = app

    def request(self, method: str, url: str, **options: Any) -> httpx.Response:
        """Send one request, and wait for its response."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=BASE_URL, trust_env=False) as client:
                return await client.request(method, url, **options)

        return asyncio.run(send())

    def get(self, url: str, **options: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Any) -> httpx.Response:
        """POST."""
        return self.request("POST", url, **options)


def rest_client(
    dispatch: FakeDispatch,
    settings: RestSettings | None = None,
    *,
    readiness: Callable[[], bool] = lambda: True,
    tracer_provider: trace.TracerProvider | None = None,
) -> RestClient:
    """A client of the application over the fake."""
    return RestClient(create_app(dispatch, FakeClock(), readiness, settings or RestSettings(), tracer_provider))


@cache
def _response_types() -> dict[str, type[Message]]:
    return {
        binding.method: message_factory.GetMessageClass(binding.descriptor.output_type)
        for binding in load_bindings(stub_files())
    }


def _empty_response(method: str) -> Message:
    return _response_types()[method]()


_SCALARS = [
    "double",
    "float",
    "int64",
    "uint64",
    "int32",
    "fixed64",
    "fixed32",
    "bool",
    "string",
    "bytes",
    "uint32",
    "sfixed32",
    "sfixed64",
    "sint32",
    "sint64",
]
_WELL_KNOWN = {
    "struct": "Struct",
    "any_value": "Value",
    "list_value": "ListValue",
    "timestamp": "Timestamp",
    "duration": "Duration",
    "mask": "FieldMask",
    "wrapped": "Int64Value",
}


@cache
def kinds_class() -> type[Message]:
    """``gatewaytest.Kinds``: each scalar kind as ``a_<kind>``, and lists, maps, a oneof and well-known messages."""
    file = descriptor_pb2.FileDescriptorProto(name="gatewaytest/kinds.proto", package="gatewaytest", syntax="proto3")
    for module in (struct_pb2, timestamp_pb2, duration_pb2, field_mask_pb2, wrappers_pb2):
        file.dependency.append(module.DESCRIPTOR.name)
    colour = file.enum_type.add(name="Colour")
    colour.value.add(name="COLOUR_UNSPECIFIED", number=0)
    colour.value.add(name="RED", number=3)
    kinds = file.message_type.add(name="Kinds")
    for name in _SCALARS:
        _add(kinds, f"a_{name}", name)
    _add(kinds, "colour", "enum", ".gatewaytest.Colour")
    for name, kind in _WELL_KNOWN.items():
        _add(kinds, name, "message", f".google.protobuf.{kind}")
    _add(kinds, "child", "message", ".gatewaytest.Kinds")
    _add(kinds, "children", "message", ".gatewaytest.Kinds", repeated=True)
    _add(kinds, "numbers", "int32", repeated=True)
    _add(kinds, "values", "message", ".google.protobuf.Value", repeated=True)
    kinds.oneof_decl.add(name="choice")
    for name in ("left", "right"):
        _add(kinds, name, "string").oneof_index = 0
    _add_map(kinds, "versions", "string", "uint64")
    _add_map(kinds, "by_number", "int32", "message", ".gatewaytest.Kinds")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("gatewaytest.Kinds"))


def _add(
    message: descriptor_pb2.DescriptorProto, name: str, kind: str, type_name: str = "", *, repeated: bool = False
) -> descriptor_pb2.FieldDescriptorProto:
    added = message.field.add(name=name, number=len(message.field) + 1, type_name=type_name or None)
    added.type = getattr(FieldDescriptor, f"TYPE_{kind.upper()}")
    added.label = FieldDescriptor.LABEL_REPEATED if repeated else FieldDescriptor.LABEL_OPTIONAL  # type: ignore[assignment]
    return added


def _add_map(message: descriptor_pb2.DescriptorProto, name: str, key: str, value: str, value_type: str = "") -> None:
    entry_name = "".join(part.capitalize() for part in name.split("_")) + "Entry"
    entry = message.nested_type.add(name=entry_name)
    entry.options.map_entry = True
    _add(entry, "key", key)
    _add(entry, "value", value, value_type)
    _add(message, name, "message", f".gatewaytest.Kinds.{entry_name}", repeated=True)
