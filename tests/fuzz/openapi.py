"""The OpenAPI document as a generator of requests and as a judge of responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import jsonschema_rs
from hypothesis import strategies as st

from gateway_rest.routes import Binding, load_bindings, stub_files
from scripts.stack.paths import ROOT
from tests.fuzz.values import NASTY_INTEGERS, Known, texts

DOCUMENT: Mapping[str, Any] = json.loads((ROOT / "gateway_rest" / "openapi.json").read_text())
LEAVES = 6
Json = Any
ANY_JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NASTY_INTEGERS) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=LEAVES,
)


@dataclass(frozen=True)
class Operation:
    """One operation of the document and the route that serves it."""

    path: str
    http_method: str
    document: Mapping[str, Any]
    binding: Binding

    @property
    def body_schema(self) -> Mapping[str, Any] | None:
        """The schema of its body, if it takes one."""
        body = self.document.get("requestBody")
        return None if body is None else body["content"]["application/json"]["schema"]

    def names(self, place: str) -> list[str]:
        """Its parameters in ``path``, ``query`` or ``header``."""
        return [each["name"] for each in self.document.get("parameters", []) if each["in"] == place]


def operations() -> dict[str, Operation]:
    """Every operation of the document, by its id."""
    found = {}
    for binding in load_bindings(stub_files()):
        path = binding.template.text
        for variable, chain in zip(binding.template.variables, binding.path_fields, strict=True):
            path = path.replace(f"{{{variable}}}", f"{{{chain[-1].json_name}}}")
        document = DOCUMENT["paths"][path][binding.http_method.lower()]
        found[document["operationId"]] = Operation(path, binding.http_method, document, binding)
    return found


def undocumented(operation: Operation, response: httpx.Response) -> str:
    """What of a response the document does not foresee; empty when it is all there."""
    known = operation.document["responses"].get(str(response.status_code))
    if known is None:
        return f"status {response.status_code} {response.text[:200]}"
    media_type = response.headers.get("content-type", "")
    if media_type not in known["content"]:
        return f"media type {media_type!r} with status {response.status_code}"
    if "Retry-After" in known.get("headers", {}) and "retry-after" not in response.headers:
        reason = response.json().get("reason")
        return f"no Retry-After with {reason}" if response.json()["retryable"] else ""
    error = next(_validator(json.dumps(known["content"][media_type]["schema"])).iter_errors(response.json()), None)
    return "" if error is None else str(error)


@cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.validator_for({**json.loads(schema), "components": DOCUMENT["components"]})


def values(schema: Mapping[str, Any], name: str, known: Known, depth: int = 5) -> st.SearchStrategy[Json]:
    """What the schema admits, mostly; sometimes anything."""
    fitting = _fitting(schema, name, known, depth)
    return st.one_of(fitting, fitting, fitting, ANY_JSON)


def _fitting(schema: Mapping[str, Any], name: str, known: Known, depth: int) -> st.SearchStrategy[Json]:
    if "$ref" in schema:
        target = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return _fitting(target, name, known, depth)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            return _objects(schema, known, depth)
        case "array":
            return st.lists(values(schema["items"], name, known, depth - 1), max_size=3 if depth > 0 else 0)
        case "boolean":
            return st.booleans()
        case "integer":
            return st.sampled_from(NASTY_INTEGERS) | st.integers(0, 200)
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 100)
        case _ if "pattern" in schema:
            return st.sampled_from(NASTY_INTEGERS).map(str)
        case _:
            return texts(_proto_name(name), known)


def _objects(schema: Mapping[str, Any], known: Known, depth: int) -> st.SearchStrategy[Json]:
    if "properties" not in schema or depth <= 0:
        return st.dictionaries(st.text(max_size=4), ANY_JSON, max_size=2)
    parts = {key: values(part, key, known, depth - 1) for key, part in schema["properties"].items()}
    return st.fixed_dictionaries({}, optional=parts)


def _proto_name(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
