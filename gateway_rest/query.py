"""Query parameters to request fields."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from gateway_rest.fields import (
    BadValueError,
    check_oneof,
    descend,
    is_map,
    is_well_known,
    json_path,
    resolve_path,
    type_of,
)
from gateway_rest.json_codec import refuse_violations, well_known_from_json
from gateway_rest.json_text import shown
from gateway_rest.scalars import scalar_from_text
from taskstatus.domain.errors import FieldViolation, invalid

MAX_PARAMETERS: Final = 200


def read_query(raw: bytes, target: Message, body: str) -> None:
    """Set the fields that the query names, in either name form and dotted for fields of fields.

    A field that the route takes from its body (``body``: ``*`` or a field's name) is not taken from the query.
    Raises RefusedError INVALID_ARGUMENT for unknown, repeated, misplaced or malformed parameters.
    """
    violations: list[FieldViolation] = []
    given: set[str] = set()
    for name, text in _parameters(raw):
        chain = _chain(target, name)
        if chain is None or body in ("*", chain[0].name):
            violations.append(FieldViolation(shown(name), "is not a query parameter of this route"))
            continue
        path = json_path(chain)
        try:
            if path in given and not chain[-1].is_repeated:
                raise BadValueError("is given more than once")
            given.add(path)
            _set(descend(target, chain), chain[-1], text)
        except BadValueError as error:
            violations.append(FieldViolation(path, str(error)))
    refuse_violations(violations)


def _parameters(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except UnicodeDecodeError:
        raise invalid("query", "is not percent-encoded UTF-8") from None
    except ValueError:
        raise invalid("query", f"holds more than {MAX_PARAMETERS} parameters") from None


def _chain(target: Message, name: str) -> tuple[FieldDescriptor, ...] | None:
    try:
        return resolve_path(type_of(target), name)
    except KeyError:
        return None


def _set(holder: Message, field: FieldDescriptor, text: str) -> None:
    check_oneof(holder, field)
    if field.message_type is None:
        value = scalar_from_text(field, text)
        if field.is_repeated:
            getattr(holder, field.name).append(value)
        else:
            setattr(holder, field.name, value)
    elif is_well_known(field.message_type) and not is_map(field) and not field.is_repeated:
        well_known_from_json(text, getattr(holder, field.name))
    else:
        raise BadValueError("cannot be given as a query parameter")
