"""Every REST route, read from the ``google.api.http`` options of the stub modules; none is listed here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import taskstatus_pb.v1
from google.api import annotations_pb2, http_pb2
from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor, MethodDescriptor
from google.protobuf.message import Message

from gateway_rest.fields import resolve_path
from gateway_rest.paths import PathTemplate, parse_template

WHOLE_BODY = "*"
_READING_METHODS = frozenset({"GET"})


@dataclass(frozen=True, slots=True)
class Binding:
    """One route of one method."""

    method: str
    """``taskstatus.v1.<Service>/<Method>``, the name under which the dispatch knows it."""
    descriptor: MethodDescriptor
    http_method: str
    template: PathTemplate
    path_fields: tuple[tuple[FieldDescriptor, ...], ...]
    """The fields that the template's variables fill, in their order."""
    body: str
    """``*``: the whole message; a field's name: that field; empty: no body."""
    response_body: str
    """The field of the response that is sent alone; empty: the whole response."""
    request_class: type[Message]

    @property
    def mutating(self) -> bool:
        """Whether the route may change something, by its HTTP method."""
        return self.http_method not in _READING_METHODS


@dataclass(frozen=True, slots=True)
class Match:
    """A route found for a request, with the path's values as sent, still percent-encoded."""

    binding: Binding
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherMethods:
    """The path is known, but not with this HTTP method."""

    allowed: tuple[str, ...]


class RouteTable:
    """Finds the route of a request."""

    def __init__(self, bindings: Iterable[Binding]) -> None:
        """Raises ValueError when two bindings would answer the same request."""
        self.bindings = tuple(bindings)
        self._by_segments: dict[int, list[Binding]] = {}
        seen: set[tuple[str, str]] = set()
        # Literals win over variables, whatever order the protos have.
        for binding in sorted(self.bindings, key=lambda each: len(each.template.variables)):
            key = (binding.http_method, binding.template.shape)
            if key in seen:
                raise ValueError(f"two methods claim {binding.http_method} {binding.template.text}")
            seen.add(key)
            self._by_segments.setdefault(binding.template.segments, []).append(binding)

    def find(self, http_method: str, raw_path: str) -> Match | OtherMethods | None:
        """The route, or the methods that the path does have, or None for an unknown path. HEAD is served as GET."""
        wanted = "GET" if http_method == "HEAD" else http_method
        allowed: set[str] = set()
        for binding in self._by_segments.get(raw_path.count("/"), ()):
            values = binding.template.match(raw_path)
            if values is None:
                continue
            if binding.http_method == wanted:
                return Match(binding, values)
            allowed.add(binding.http_method)
        if not allowed:
            return None
        return OtherMethods(tuple(sorted(allowed | {"OPTIONS"} | ({"HEAD"} if "GET" in allowed else set()))))


def stub_files() -> tuple[FileDescriptor, ...]:
    """The descriptors of every stub module of ``taskstatus.v1``, by name."""
    names = sorted(
        module.name for module in pkgutil.iter_modules(taskstatus_pb.v1.__path__) if module.name.endswith("_pb2")
    )
    modules = [importlib.import_module(f"{taskstatus_pb.v1.__name__}.{name}") for name in names]
    return tuple(module.DESCRIPTOR for module in modules)


def load_bindings(files: Iterable[FileDescriptor]) -> tuple[Binding, ...]:
    """The routes of all methods of the files; ValueError for an option that this adapter cannot serve."""
    return tuple(
        binding
        for file in files
        for service in file.services_by_name.values()
        for method in service.methods
        for binding in _bindings_of(method)
    )


def _bindings_of(method: MethodDescriptor) -> Iterator[Binding]:
    options = method.GetOptions()
    if not options.HasExtension(annotations_pb2.http):
        return
    if method.client_streaming or method.server_streaming:
        raise ValueError(f"{method.full_name} is a stream and cannot have a REST route")
    rule = options.Extensions[annotations_pb2.http]
    for each in (rule, *rule.additional_bindings):
        yield _binding(method, each)


def _binding(method: MethodDescriptor, rule: http_pb2.HttpRule) -> Binding:
    http_method, path = _pattern(rule)
    template = parse_template(path)
    request, response = method.input_type, method.output_type
    try:
        path_fields = tuple(resolve_path(request, variable) for variable in template.variables)
    except KeyError as error:
        raise ValueError(f"{path} names no field of {request.name}: {error}") from None
    if any(chain[-1].message_type is not None or chain[-1].is_repeated for chain in path_fields):
        raise ValueError(f"{path} puts a message or a list into the path")
    if rule.body not in ("", WHOLE_BODY) and not _is_single_message(request.fields_by_name.get(rule.body)):
        raise ValueError(f"{path}: the body {rule.body!r} is no single message of {request.name}")
    if rule.response_body and rule.response_body not in response.fields_by_name:
        raise ValueError(f"{path}: {response.name} has no field {rule.response_body!r}")
    return Binding(
        method=f"{method.containing_service.full_name}/{method.name}",
        descriptor=method,
        http_method=http_method,
        template=template,
        path_fields=path_fields,
        body=rule.body,
        response_body=rule.response_body,
        request_class=message_factory.GetMessageClass(request),
    )


def _pattern(rule: http_pb2.HttpRule) -> tuple[str, str]:
    kind = rule.WhichOneof("pattern")
    if kind is None:
        raise ValueError("a google.api.http option without a path")
    if kind == "custom":
        return rule.custom.kind.upper(), rule.custom.path
    return kind.upper(), getattr(rule, kind)


def _is_single_message(field: FieldDescriptor | None) -> bool:
    return field is not None and field.message_type is not None and not field.is_repeated
