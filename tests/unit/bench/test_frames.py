"""Hand-built messages are, byte by byte, what the generated classes read as the same events and beats."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from taskstatus_pb.v1 import bind_execution_service_pb2 as pb
from taskstatus_pb.v1 import common_pb2, heartbeat_service_pb2

from bench import frames, workload
from bench.workload import Event, Execution, Window

EXECUTIONS = [Execution(b"w", b"t", bytes([number]), "01_parse", f"exh_{number}") for number in range(3)]
KEYS = {execution.execution_id: 300 + number for number, execution in enumerate(EXECUTIONS)}


def events_of(execution: Execution) -> list[Event]:
    """All events of one execution."""
    window = Window([[execution]], 1)
    return [event for _ in range(workload.EVENTS_PER_EXECUTION) for event in window.next_call()]


@given(value=st.integers(0, 2**64 - 1))
def test_varint_is_protobufs(value: int) -> None:
    message = pb.StreamBeat(heartbeat_seq=value)
    assert pb.StreamBeat.FromString(frames.tag(pb.StreamBeat, "heartbeat_seq") + frames.varint(value)) == message


def test_t2_a_report_frame_holds_every_field_of_its_events() -> None:
    events = [event for execution in EXECUTIONS for event in events_of(execution)]
    frame = pb.StreamExecutionsRequest.FromString(frames.report_frame(70_000, events, KEYS))
    assert frame.correlation == 70_000
    assert len(frame.report.events) == len(events)
    for event, found in zip(events, frame.report.events, strict=True):
        assert found.event_id.hex() == event.event_id
        assert found.event_type == frames.WIRE_TYPES[event.event_type]
        assert found.source_seq == event.source_seq
        assert found.stream_execution_key == KEYS[event.execution.execution_id]
        reported = found.event_type == common_pb2.STEP_PROGRESS
        assert found.HasField("progress") is found.HasField("data") is reported
        if reported:
            assert (found.progress.current, found.progress.total) == (event.number, workload.PROGRESS_EVENTS)
            assert found.progress_seq == event.number
            assert dict(found.data.value) == workload.DATA


@given(seq=st.integers(1, 2**40), count=st.integers(1, 3))
def test_h1_beats_carry_their_number(seq: int, count: int) -> None:
    keys = list(KEYS.values())[:count]
    frame = pb.StreamExecutionsRequest.FromString(frames.beats_frame(9, keys, seq))
    assert [(beat.stream_execution_key, beat.heartbeat_seq) for beat in frame.heartbeat.beats] == [
        (key, seq) for key in keys
    ]
    request = heartbeat_service_pb2.BatchHeartbeatRequest.FromString(frames.beats_request(EXECUTIONS[:count], seq))
    assert [(beat.execution_handle, beat.heartbeat_seq) for beat in request.heartbeats] == [
        (execution.handle, seq) for execution in EXECUTIONS[:count]
    ]
