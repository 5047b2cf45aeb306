"""One request message out of body, query, path and Idempotency-Key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gateway_rest.fields import BadValueError, check_oneof, descend, is_given, json_path
from gateway_rest.json_codec import decode_message, refuse_violations
from gateway_rest.paths import percent_decoded
from gateway_rest.query import read_query
from gateway_rest.routes import WHOLE_BODY, Binding, Match
from gateway_rest.scalars import scalar_from_text
from taskstatus.domain.errors import FieldViolation, invalid

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
IDEMPOTENCY_FIELDS: Final = ("event_id", "command_id")
"""Which field the header stands for: the event's id on event routes, the command's on the others (R-6)."""

IF_MATCH: Final = "If-Match"
VERSION_FIELDS: Final = {"expected_task_version": "task", "expected_workflow_version": "workflow"}
"""Which field the header stands for, and the word of its tag (R-8)."""

_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_BARE = re.compile(r"[\x21\x23-\x7e]+")


def build_request(
    match: Match, query: bytes, body: bytes, idempotency_keys: Sequence[str], expected_versions: Sequence[str] = ()
) -> Message:
    """The request message; RefusedError INVALID_ARGUMENT when its parts are malformed or contradict one another."""
    binding = match.binding
    message = binding.request_class()
    if body:
        decode_message(body, _body_target(binding, message))
    if query:
        read_query(query, message, binding.body)
    _apply_path(match, message)
    if idempotency_keys and (field := idempotency_field(binding)) is not None:
        _apply_idempotency_key(field, idempotency_keys, message)
    if expected_versions and (expected := version_field(binding)) is not None:
        _apply_expected_version(expected, expected_versions, message)
    return message


def idempotency_field(binding: Binding) -> FieldDescriptor | None:
    """The field that the Idempotency-Key header stands for; None where a repeat needs no key."""
    if not binding.mutating:
        return None
    fields = binding.descriptor.input_type.fields_by_name
    return next((fields[name] for name in IDEMPOTENCY_FIELDS if name in fields), None)


def version_field(binding: Binding) -> FieldDescriptor | None:
    """The field that the If-Match header stands for; None where a command takes no condition."""
    fields = binding.descriptor.input_type.fields_by_name
    return next((fields[name] for name in VERSION_FIELDS if name in fields), None)


def _apply_expected_version(field: FieldDescriptor, values: Sequence[str], message: Message) -> None:
    """``*`` asks for any version; a weak tag is refused, since only the very version will do (RFC 9110, 13.1.1)."""
    if len(values) != 1:
        raise invalid(IF_MATCH, "is given more than once")
    if values[0].strip() == "*":
        return
    tag = f"{VERSION_FIELDS[field.name]}-version-"
    found = re.fullmatch(rf'"{tag}([1-9][0-9]{{0,18}})"', values[0].strip())
    if found is None:
        raise invalid(IF_MATCH, f'must be one tag such as "{tag}4"')
    given, version = getattr(message, field.name), int(found.group(1))
    if given not in (0, version):
        raise invalid(field.json_name, f"differs from the {IF_MATCH} header")
    setattr(message, field.name, version)


def parse_idempotency_key(values: Sequence[str]) -> str:
    """The key of the header: a quoted string of RFC 9651, or the bare text that most callers send."""
    if len(values) != 1:
        raise invalid(IDEMPOTENCY_KEY, "is given more than once")
    text = values[0].strip()
    if quoted := _QUOTED.fullmatch(text):
        return re.sub(r"\\(.)", r"\1", quoted.group(1))
    if _BARE.fullmatch(text):
        return text
    raise invalid(IDEMPOTENCY_KEY, "must be one quoted string, or visible ASCII without quotes and spaces")


def _body_target(binding: Binding, message: Message) -> Message:
    if not binding.body:
        raise invalid("body", "must be empty: this route takes its request from the path and the query")
    if binding.body == WHOLE_BODY:
        return message
    target: Message = getattr(message, binding.body)
    target.SetInParent()
    return target


def _apply_path(match: Match, message: Message) -> None:
    violations: list[FieldViolation] = []
    for chain, raw in zip(match.binding.path_fields, match.values, strict=True):
        holder, field = descend(message, chain), chain[-1]
        try:
            value = scalar_from_text(field, percent_decoded(raw))
            check_oneof(holder, field)
            if is_given(holder, field) and getattr(holder, field.name) != value:
                raise BadValueError("differs from the value in the path")
            setattr(holder, field.name, value)
        except UnicodeDecodeError:
            violations.append(FieldViolation(json_path(chain), "is not percent-encoded UTF-8 in the path"))
        except BadValueError as error:
            violations.append(FieldViolation(json_path(chain), str(error)))
    refuse_violations(violations)


def _apply_idempotency_key(field: FieldDescriptor, values: Sequence[str], message: Message) -> None:
    key = parse_idempotency_key(values)
    given = getattr(message, field.name)
    if given and given != key:
        raise invalid(field.json_name, f"differs from the {IDEMPOTENCY_KEY} header")
    setattr(message, field.name, key)
