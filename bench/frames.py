"""Messages of the load, put together from bytes: the load shares the machine with what it measures.

Protobuf merges what is sent of a message in parts, so that an event is the bytes that all of its kind have in common,
and after them its own few fields. The generated classes make the common part, and the tests of this module's reader:
the service, which parses every frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2, report_service_pb2

from bench import workload
from bench.workload import Event, Execution
from taskstatus.domain.events import EventType

Template = report_service_pb2.CompactEvent

WIRE_TYPES = {
    EventType.STEP_STARTED: common_pb2.STEP_STARTED,
    EventType.STEP_PROGRESS: common_pb2.STEP_PROGRESS,
    EventType.STEP_COMPLETED: common_pb2.STEP_COMPLETED,
}
_LENGTH_DELIMITED = 2


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def tag(message: type, field: str) -> bytes:
    """What stands before a field's value."""
    known = message.DESCRIPTOR.fields_by_name[field]  # type: ignore[attr-defined]
    wire_type = _LENGTH_DELIMITED if known.type in (known.TYPE_BYTES, known.TYPE_STRING, known.TYPE_MESSAGE) else 0
    return varint(known.number << 3 | wire_type)


def delimited(prefix: bytes, content: bytes) -> bytes:
    """A field whose value has a length."""
    return prefix + varint(len(content)) + content


_CORRELATION = tag(pb.StreamExecutionsRequest, "correlation")
_REPORT = tag(pb.StreamExecutionsRequest, "report")
_HEARTBEAT = tag(pb.StreamExecutionsRequest, "heartbeat")
_EVENT_ID = tag(Template, "event_id")
_SOURCE_SEQ = tag(Template, "source_seq")
_KEY = tag(Template, "stream_execution_key")
_PROGRESS_SEQ = tag(Template, "progress_seq")
_EVENTS = tag(pb.StreamReport, "events")
_BEATS = tag(pb.StreamHeartbeat, "beats")
_BEAT_KEY = tag(pb.StreamBeat, "stream_execution_key")
_BEAT_SEQ = tag(pb.StreamBeat, "heartbeat_seq")
_HANDLE = tag(heartbeat_service_pb2.Heartbeat, "execution_handle")
_UNARY_SEQ = tag(heartbeat_service_pb2.Heartbeat, "heartbeat_seq")
_HEARTBEATS = tag(heartbeat_service_pb2.BatchHeartbeatRequest, "heartbeats")


def _template(kind: EventType) -> bytes:
    event = Template(event_type=WIRE_TYPES[kind])
    if kind is EventType.STEP_COMPLETED:
        event.duration_ms = workload.PROGRESS_EVENTS * 1000
    elif kind is EventType.STEP_PROGRESS:
        event.phase_code = workload.PHASE
        event.data.schema = workload.DATA_SCHEMA
        event.data.value.update(workload.DATA)
    return event.SerializeToString()


_TEMPLATES = {kind: _template(kind) for kind in WIRE_TYPES}
_progress_of: dict[tuple[int, int], bytes] = {}


def _progress(event: Event) -> bytes:
    """The progress of an event, the same for all executions."""
    key = (event.number, event.last)
    if key not in _progress_of:
        pages = common_pb2.Progress(current=event.number, total=event.last - 1, unit=workload.PROGRESS_UNIT)
        part = Template(progress=pages).SerializeToString()
        _progress_of[key] = part + _PROGRESS_SEQ + varint(event.number)
    return _progress_of[key]


def compact_event(event: Event, key: int) -> bytes:
    """A CompactEvent of a bound execution."""
    kind = event.event_type
    own = _progress(event) if kind is EventType.STEP_PROGRESS else b""
    event_id = delimited(_EVENT_ID, bytes.fromhex(event.event_id))
    return b"".join((_TEMPLATES[kind], own, event_id, _SOURCE_SEQ, varint(event.source_seq), _KEY, varint(key)))


def report_frame(correlation: int, events: Iterable[Event], keys: Mapping[bytes, int]) -> bytes:
    """A frame of events; ``keys`` are the stream's numbers by execution."""
    body = b"".join(delimited(_EVENTS, compact_event(event, keys[event.execution.execution_id])) for event in events)
    return _CORRELATION + varint(correlation) + delimited(_REPORT, body)


def bind_frame(correlation: int, executions: Sequence[Execution]) -> bytes:
    """A frame that binds executions by their handles."""
    wanted = [pb.BindExecutionRequest(execution_handle=execution.handle) for execution in executions]
    return pb.StreamExecutionsRequest(
        correlation=correlation, bind=pb.StreamBind(executions=wanted)
    ).SerializeToString()


def finish_frame(correlation: int) -> bytes:
    """The frame after which the stream ends."""
    return pb.StreamExecutionsRequest(correlation=correlation, finish=pb.StreamFinish()).SerializeToString()


def beats_frame(correlation: int, keys: Iterable[int], seq: int) -> bytes:
    """A frame with one beat of each bound execution."""
    own = _BEAT_SEQ + varint(seq)
    body = b"".join(delimited(_BEATS, _BEAT_KEY + varint(key) + own) for key in keys)
    return _CORRELATION + varint(correlation) + delimited(_HEARTBEAT, body)


def beats_request(executions: Iterable[Execution], seq: int) -> bytes:
    """A BatchHeartbeatRequest with one beat of each execution, by its handle."""
    own = _UNARY_SEQ + varint(seq)
    return b"".join(
        delimited(_HEARTBEATS, delimited(_HANDLE, execution.handle.encode()) + own) for execution in executions
    )
