"""Message to JSON: the protobuf mapping with a stable shape (docs/decisions/rest-json-mapping.md)."""

from __future__ import annotations

from typing import Any

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message

from gateway_rest.fields import type_of
from gateway_rest.scalars import MAX_SAFE_INTEGER


def encode_message(message: Message, response_body: str = "") -> bytes:
    """UTF-8 JSON of the message, or of its field ``response_body`` alone (``null`` when that is missing).

    Fields without presence are always there, so that a page never tells ``false`` from *absent*; 64-bit integers are
    decimal strings; whole numbers carry no ``.0``.
    """
    document: Any = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    if response_body:
        document = document.get(type_of(message).fields_by_name[response_body].json_name)
    return orjson.dumps(_whole_numbers(document))


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if _is_safely_whole(value) else value
    if isinstance(value, dict):
        return {name: _whole_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(element) for element in value]
    return value


def _is_safely_whole(value: float) -> bool:
    # Negative zero has no integer.
    return value.is_integer() and abs(value) <= MAX_SAFE_INTEGER and str(value) != "-0.0"
