"""Values that have broken programs before, and strategies of whole messages from their descriptors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("TASKSTATUS_FUZZ_EXAMPLES", "3"))
"""Examples of each method or operation; more for a long run. The seed is fixed, so that a failure comes again."""
BURST = 8
"""Requests of one example, sent at once."""
DEPTH = 4

PROFILE = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

NASTY_TEXT: Sequence[str] = (
    "",
    " ",
    "0",
    "-1",
    "null",
    "a\0b",
    "evt ",
    "É",
    "e\u0301",
    "\u202e\u200b",
    "😀",
    "\uffff",
    "../../etc/passwd",
    "' OR 1=1 -- ",
    "%s%n{0}",
    "<script>",
    "task_",
    "task_01890000000070008000000000000001",
    "wf_01890000000070008000000000000001",
    "exec_ffffffffffffffffffffffffffffffff",
    "01890000-0000-7000-8000-000000000001",
    "exh_AAAA",
    "eyJhbGciOiJub25lIn0.e30.",
    "dyn_x",
    "x" * 65,
    "x" * 5_000,
)
NASTY_INTEGERS: Sequence[int] = (0, 1, 2, 99, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1)
NASTY_DOUBLES: Sequence[float] = (0.0, -0.0, 1.0, 1.5, -1.0, 1e-320, 2.0**53, 1e308, float("inf"), float("nan"))

Known = Mapping[str, Sequence[str]]
"""Live values by the name of the field (as in the proto) that may take them."""

_BOUNDS: Mapping[int, tuple[int, int]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def texts(name: str, known: Known) -> st.SearchStrategy[str]:
    """Text of a field: a live value where there is one, something nasty, or anything."""
    anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    strategies = [st.sampled_from(NASTY_TEXT), anything]
    if known.get(name):
        strategies = [st.sampled_from(known[name])] * 3 + strategies
    return st.one_of(strategies)


def messages(descriptor: Descriptor, known: Known, depth: int = DEPTH) -> st.SearchStrategy[Message]:
    """Messages of a type: each field is left out, or given something."""
    message_class = GetMessageClass(descriptor)
    fields = {field.name: _field(field, known, depth) for field in descriptor.fields if _fits(field, depth)}

    def build(values: Mapping[str, Any]) -> Message:
        message = message_class()
        for name, value in values.items():
            _set(message, name, value)
        return message

    return st.fixed_dictionaries({}, optional=fields).map(build)


def _fits(field: FieldDescriptor, depth: int) -> bool:
    return field.message_type is None or depth > 0


def _set(message: Message, name: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, Message):
                getattr(message, name)[key].CopyFrom(item)
            else:
                getattr(message, name)[key] = item
    elif isinstance(value, list):
        getattr(message, name).extend(value)
    elif isinstance(value, Message):
        getattr(message, name).CopyFrom(value)
    else:
        setattr(message, name, value)


def _field(field: FieldDescriptor, known: Known, depth: int) -> st.SearchStrategy[Any]:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        values = _single(entry.fields_by_name["value"], known, depth)
        keys = st.sampled_from(("a", "pages", "😀", "", *known.get("task_ids", ())))
        return st.dictionaries(keys, values, max_size=3)
    single = _single(field, known, depth)
    return st.lists(single, max_size=3) if field.is_repeated else single


def _single(field: FieldDescriptor, known: Known, depth: int) -> st.SearchStrategy[Any]:
    kind = field.cpp_type
    if field.message_type is not None:
        return messages(field.message_type, known, depth - 1)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return st.sampled_from([*field.enum_type.values_by_number, 999])
    if kind in _BOUNDS:
        low, high = _BOUNDS[kind]
        return st.sampled_from([number for number in NASTY_INTEGERS if low <= number <= high]) | st.integers(low, high)
    simple: Mapping[int, Callable[[], st.SearchStrategy[Any]]] = {
        FieldDescriptor.CPPTYPE_BOOL: st.booleans,
        FieldDescriptor.CPPTYPE_DOUBLE: lambda: st.sampled_from(NASTY_DOUBLES) | st.floats(),
        FieldDescriptor.CPPTYPE_FLOAT: lambda: st.floats(width=32),
    }
    if kind in simple:
        return simple[kind]()
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=48)
    return texts(field.name, known)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes with a few of them changed, removed, doubled or added."""
    raw = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(raw)))
        match draw(st.sampled_from(("change", "remove", "double", "add", "cut"))):
            case "change" if at < len(raw):
                raw[at] ^= draw(st.integers(1, 255))
            case "remove":
                del raw[at : at + draw(st.integers(1, 4))]
            case "double":
                raw[at:at] = raw[at : at + 16]
            case "cut":
                del raw[at:]
            case _:
                raw[at:at] = draw(st.binary(min_size=1, max_size=6))
    return bytes(raw)


def partly(whole: Message, other: Message) -> Message:
    """A good message with the fields of another one laid over it."""
    mixed = type(whole)()
    mixed.CopyFrom(whole)
    for field, _ in other.ListFields():
        mixed.ClearField(field.name)
    mixed.MergeFrom(other)
    return mixed
