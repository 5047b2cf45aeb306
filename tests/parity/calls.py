"""A command or a read by gRPC, and by every REST route that it has: in the body, or by its headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx
from google.protobuf.message import Message

from gateway_rest.request_message import VERSION_FIELDS
from gateway_rest.routes import Binding, load_bindings, stub_files
from taskstatus.domain.reasons import Reason
from tests.parity.outcome import OK, Outcome, as_document
from tests.parity.stage import Preparation, Stage, unary
from tests.parity.transports import Lines, json_of, refused_by_grpc, refused_by_rest
from tests.support.clients import Caller


@dataclass(frozen=True)
class Command:
    """A request that must be refused."""

    method: str
    """``RegisterService/RequestCancel``."""
    request: Callable[[Stage], Message]
    reason: Reason
    by: str = "coordinator"
    before: tuple[Preparation, ...] = ()


@dataclass(frozen=True)
class Done:
    """A request that is carried out, and a part of what it must be answered with."""

    method: str
    request: Callable[[Stage], Message]
    expected: Mapping[str, Any]
    by: str = "coordinator"
    before: tuple[Preparation, ...] = field(default=())


Way = Callable[[Lines, Caller, Message], Awaitable[Outcome]]
"""(connections, who calls, the request) → its outcome, with the whole answer in its JSON form."""


def ways_of(method: str) -> dict[str, Way]:
    """Every way of calling a method, by a name for people."""
    ways: dict[str, Way] = {"gRPC": _by_grpc(method)}
    for route in routes_of(method):
        text = f"{route.http_method} {route.template.text}"
        ways[text] = _by_rest(route, by_headers=False)
        if "command_id" in route.request_class.DESCRIPTOR.fields_by_name:
            ways[f"{text}, by headers"] = _by_rest(route, by_headers=True)
    return ways


def routes_of(method: str) -> list[Binding]:
    """The REST routes of a method."""
    return [each for each in load_bindings(stub_files()) if each.method == f"taskstatus.v1.{method}"]


def _by_grpc(method: str) -> Way:
    bodies = {route.response_body for route in routes_of(method)}

    async def call(lines: Lines, caller: Caller, request: Message) -> Outcome:
        try:
            response = await unary(caller, method, request)
        except grpc.aio.AioRpcError as error:
            return refused_by_grpc(error)
        # REST may answer with one field of the response alone.
        part = next((getattr(response, name) for name in bodies if name), response)
        return Outcome(OK, answer=as_document(part))

    return call


def _by_rest(route: Binding, *, by_headers: bool) -> Way:
    async def call(lines: Lines, caller: Caller, request: Message) -> Outcome:
        document = json_of(request)
        path = route.template.text
        for variable, (field_,) in zip(route.template.variables, route.path_fields, strict=True):
            path = path.replace(f"{{{variable}}}", str(document.pop(field_.json_name, "")))
        headers = {"authorization": f"Bearer {caller.token}"} if caller.token else {}
        if by_headers:
            headers |= _headers_of(document)
        sent: dict[str, Any] = {"json": document} if route.body else {"params": dict(_flat(document))}
        response = await lines.rest.request(route.http_method, path, headers=headers, **sent)
        if response.status_code != httpx.codes.OK:
            return refused_by_rest(response)
        return Outcome(OK, answer=response.json())

    return call


def _headers_of(document: dict[str, Any]) -> dict[str, str]:
    """Take the command's id and the version that it expects out of the body."""
    headers = {}
    if "commandId" in document:
        headers["idempotency-key"] = f'"{document.pop("commandId")}"'
    for name, word in VERSION_FIELDS.items():
        head, *rest = name.split("_")
        version = document.pop(head + "".join(part.capitalize() for part in rest), None)
        if version is not None:
            headers["if-match"] = f'"{word}-version-{version}"'
    return headers


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The parameters of a query string: fields of fields by their paths."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
