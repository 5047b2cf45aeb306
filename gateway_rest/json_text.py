"""JSON text to a tree that has lost nothing: numbers keep their text, repeated names stay visible.

``json.loads`` alone would round 9007199254740993.0, read 1e400 as infinity and let the last of two equal names win.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

from taskstatus.domain.errors import FieldViolation, RefusedError
from taskstatus.domain.reasons import Reason

MAX_DEPTH = 40
"""Objects and arrays within one another: room for the 32 levels of an event's ``data.value`` inside a batch."""

BODY = "body"
"""The field of violations that concern the whole body."""

_SHOWN_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """A number as written; also NaN and Infinity, which JSON lacks and Python's reader lets pass."""

    text: str


@dataclass(frozen=True, slots=True)
class RepeatedName:
    """Stands for an object in which one name occurs twice."""

    name: str


JsonTree: TypeAlias = "dict[str, JsonTree] | list[JsonTree] | JsonNumber | RepeatedName | str | bool | None"


def parse_json(raw: bytes) -> JsonTree:
    """The tree of a UTF-8 JSON text; RefusedError INVALID_ARGUMENT when it is none."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused_body(f"is not UTF-8 at byte {error.start}") from None
    try:
        tree: JsonTree = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise refused_body(f"is not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise refused_body(too_deep()) from None
    return tree


def refused_body(description: str) -> RefusedError:
    """An INVALID_ARGUMENT about the body as a whole."""
    return RefusedError(Reason.INVALID_ARGUMENT, f"The body {description}", (FieldViolation(BODY, description),))


def too_deep() -> str:
    """The description of a violation of MAX_DEPTH."""
    return f"nests objects and arrays more than {MAX_DEPTH} levels deep"


def shown(name: str) -> str:
    """A caller's own name in a form that every log and reply can carry: bounded, no lone surrogate, no control."""
    if len(name) <= _SHOWN_NAME_CHARS and name.isascii() and name.isprintable():
        return name
    start = name[:_SHOWN_NAME_CHARS].encode("utf-8", "backslashreplace").decode()
    safe = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in start)
    return safe if len(name) <= _SHOWN_NAME_CHARS else f"{safe}…"


def is_unicode(text: str) -> bool:
    """Whether the text holds no lone surrogate (an escape of JSON can write one, UTF-8 cannot)."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _object(pairs: list[tuple[str, JsonTree]]) -> JsonTree:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return RepeatedName(name)
        seen.add(name)
    return members


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=JsonNumber
)
