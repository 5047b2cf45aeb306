"""JSON to message (T-3, E-13): what is not the message's JSON form is refused by its path, never guessed."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from taskstatus_pb.v1 import common_pb2, report_service_pb2

from gateway_rest.json_codec import MAX_VIOLATIONS, decode_message
from gateway_rest.json_output import encode_message
from gateway_rest.json_text import MAX_DEPTH
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.wire.values import find_data_fault

from .support import kinds_class


def decode_event(text: str | bytes) -> report_service_pb2.ReportEventRequest:
    event = report_service_pb2.ReportEventRequest()
    decode_message(text.encode() if isinstance(text, str) else text, event)
    return event


def decode_kinds(text: str) -> Message:
    kinds = kinds_class()()
    decode_message(text.encode(), kinds)
    return kinds


def refused_fields(text: str | bytes, target: Message) -> list[str]:
    with pytest.raises(RefusedError) as caught:
        decode_message(text.encode() if isinstance(text, str) else text, target)
    assert caught.value.reason is Reason.INVALID_ARGUMENT
    assert caught.value.violations
    assert all(each.description for each in caught.value.violations)
    return [each.field for each in caught.value.violations]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        pytest.param("[]", "body", id="array"),
        pytest.param("null", "body", id="null"),
        pytest.param('"x"', "body", id="string"),
        pytest.param("1", "body", id="number"),
        pytest.param("", "body", id="empty"),
        pytest.param("   ", "body", id="blank"),
        pytest.param("{", "body", id="cut off"),
        pytest.param("{} {}", "body", id="two values"),
        pytest.param("{'eventId':'e'}", "body", id="single quotes"),
        pytest.param('{"eventId":"e",}', "body", id="trailing comma"),
        pytest.param('{"eventId":"a\nb"}', "body", id="raw control character"),
        pytest.param(b'{"eventId":"\xff"}', "body", id="not UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"eventId":"e"}', "body", id="byte order mark"),
        pytest.param('{"eventId":"e"}'.encode("utf-16"), "body", id="UTF-16"),
        pytest.param("[" * 100_000, "body", id="deep brackets"),
        pytest.param('{"a":' * 100_000, "body", id="deep braces"),
        pytest.param('{"eventId":"a","eventId":"a"}', "eventId", id="name twice"),
        pytest.param('{"eventId":"a","event_id":"a"}', "eventId", id="both forms of a name"),
        pytest.param('{"event_id":null,"eventId":"a"}', "eventId", id="both forms, one null"),
        pytest.param('{"data":{"schema":"s","schema":"s"}}', "data.schema", id="inner name twice"),
        pytest.param('{"data":{"value":{"a":[{"b":1,"b":1}]}}}', "data.value.a[0].b", id="name twice in data"),
        pytest.param('{"nope":1}', "nope", id="unknown field"),
        pytest.param('{"EventId":"e"}', "EventId", id="other case"),
        pytest.param('{"progress":{"nope":1}}', "progress.nope", id="inner unknown field"),
        pytest.param('{"eventId":5}', "eventId", id="number for a string"),
        pytest.param('{"eventId":true}', "eventId", id="bool for a string"),
        pytest.param('{"eventId":{}}', "eventId", id="object for a string"),
        pytest.param('{"eventId":["e"]}', "eventId", id="array for a string"),
        pytest.param('{"eventId":"\\ud800"}', "eventId", id="lone surrogate"),
        pytest.param('{"eventId":"\\udc00\\ud800"}', "eventId", id="surrogates in the wrong order"),
        pytest.param('{"\\ud800":1}', "\\ud800", id="lone surrogate in a name"),
        pytest.param('{"data":{"value":{"a":["\\ud800"]}}}', "data.value.a[0]", id="lone surrogate in data"),
        pytest.param('{"data":{"value":{"\\ud800":1}}}', "data.value.\\ud800", id="lone surrogate in a data name"),
        pytest.param('{"eventType":"STEP_EXPLODED"}', "eventType", id="unknown enum name"),
        pytest.param('{"eventType":"step_started"}', "eventType", id="enum name in lower case"),
        pytest.param('{"eventType":9999}', "eventType", id="unknown enum number"),
        pytest.param('{"eventType":1.5}', "eventType", id="fraction for an enum"),
        pytest.param('{"eventType":"1"}', "eventType", id="enum number as a string"),
        pytest.param('{"eventType":true}', "eventType", id="bool for an enum"),
        pytest.param('{"eventType":1e999999999}', "eventType", id="huge enum number"),
        pytest.param('{"sourceSeq":-1}', "sourceSeq", id="negative for unsigned"),
        pytest.param('{"sourceSeq":18446744073709551616}', "sourceSeq", id="beyond 64 bits"),
        pytest.param('{"sourceSeq":"18446744073709551616"}', "sourceSeq", id="beyond 64 bits, as a string"),
        pytest.param('{"sourceSeq":1.5}', "sourceSeq", id="fraction for an integer"),
        pytest.param('{"sourceSeq":"0x10"}', "sourceSeq", id="hexadecimal"),
        pytest.param('{"sourceSeq":" 1"}', "sourceSeq", id="space before the number"),
        pytest.param('{"sourceSeq":"١"}', "sourceSeq", id="Arabic digit"),
        pytest.param('{"sourceSeq":"1_0"}', "sourceSeq", id="underscore"),
        pytest.param('{"sourceSeq":true}', "sourceSeq", id="bool for an integer"),
        pytest.param('{"sourceSeq":""}', "sourceSeq", id="empty string for an integer"),
        pytest.param('{"sourceSeq":1e999999999}', "sourceSeq", id="huge exponent"),
        pytest.param('{"sourceSeq":' + "9" * 100_000 + "}", "sourceSeq", id="huge integer"),
        pytest.param('{"taskAttempt":4294967296}', "taskAttempt", id="beyond 32 bits"),
        pytest.param('{"durationMs":NaN}', "durationMs", id="NaN"),
        pytest.param('{"durationMs":-Infinity}', "durationMs", id="-Infinity"),
        pytest.param('{"durationMs":"NaN"}', "durationMs", id="NaN as a string"),
        pytest.param('{"durationMs":"Infinity"}', "durationMs", id="Infinity as a string"),
        pytest.param('{"durationMs":1e400}', "durationMs", id="1e400"),
        pytest.param('{"durationMs":"1e400"}', "durationMs", id="1e400 as a string"),
        pytest.param('{"durationMs":true}', "durationMs", id="bool for a number"),
        pytest.param('{"occurredAt":"yesterday"}', "occurredAt", id="no timestamp"),
        pytest.param('{"occurredAt":"2026-01-31T08:00:00"}', "occurredAt", id="timestamp without zone"),
        pytest.param('{"occurredAt":"10000-01-01T00:00:00Z"}', "occurredAt", id="year 10000"),
        pytest.param('{"occurredAt":1700000000}', "occurredAt", id="number for a timestamp"),
        pytest.param('{"occurredAt":{"seconds":1}}', "occurredAt", id="object for a timestamp"),
        pytest.param('{"occurredAt":{"a":1,"a":1}}', "occurredAt", id="name twice for a timestamp"),
        pytest.param('{"progress":[]}', "progress", id="array for a message"),
        pytest.param('{"progress":""}', "progress", id="string for a message"),
        pytest.param('{"data":{"value":[]}}', "data.value", id="array for a Struct"),
        pytest.param('{"data":{"value":"x"}}', "data.value", id="string for a Struct"),
    ],
)
def test_t3_malformed_event_is_refused_by_path(text: str | bytes, field: str) -> None:
    assert refused_fields(text, report_service_pb2.ReportEventRequest()) == [field]


@pytest.mark.parametrize(
    "number",
    [
        "9007199254740993",
        "-9007199254740993",
        "9007199254740993.0",
        "9007199254740993e0",
        "9.007199254740993e15",
        "900719925474099300e-2",
        "1e16",
        "1e300",
        "12345678901234567890",
        "9007199254740992.5",
        "1e400",
        "-1e400",
        "1e99999999999999999999",
        "NaN",
        "Infinity",
        "1" * 5_000,
    ],
)
def test_e13_number_that_would_be_rounded_is_left_to_the_guard_that_refuses_it(number: str) -> None:
    event = decode_event(f'{{"data":{{"value":{{"a":[0,{{"b":{number}}}]}}}}}}')
    fault = find_data_fault(event.data.value, 1)
    assert fault is not None
    assert [each.field for each in fault.violations] == ["data.value.a[1].b"]


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("9007199254740992", 2.0**53),
        ("-9007199254740992", -(2.0**53)),
        ("9007199254740992.0", 2.0**53),
        ("9.007199254740992e15", 2.0**53),
        ("0.1", 0.1),
        ("-0", 0.0),
        ("1e-400", 0.0),
        ("5e-324", 5e-324),
    ],
)
def test_e13_number_within_the_bounds_is_taken(number: str, value: float) -> None:
    event = decode_event(f'{{"data":{{"value":{{"a":{number}}}}}}}')
    assert event.data.value.fields["a"].number_value == value


def test_all_violations_are_named_at_once() -> None:
    fields = refused_fields(
        '{"nope":1,"sourceSeq":-1,"data":{"value":{"a":"\\ud800"}}}', report_service_pb2.ReportEventRequest()
    )
    assert fields == ["nope", "sourceSeq", "data.value.a"]


def test_violations_are_bounded_in_number_and_length() -> None:
    names = ",".join(f'"{"x" * 1000}{index}":1' for index in range(1000))
    with pytest.raises(RefusedError) as caught:
        decode_event("{" + names + "}")
    assert len(caught.value.violations) == MAX_VIOLATIONS
    assert all(len(each.field) < 80 for each in caught.value.violations)


def test_violation_shows_no_control_character() -> None:
    assert refused_fields('{"a\\u0000\\u202eb":1}', report_service_pb2.ReportEventRequest()) == ["a\\u0000\\u202eb"]


def test_batch_names_the_item() -> None:
    text = '{"events":[{"eventId":"a"},{"eventId":7}]}'
    assert refused_fields(text, report_service_pb2.BatchReportEventsRequest()) == ["events[1].eventId"]


@pytest.mark.parametrize("text", ['{"events":[null]}', '{"events":[[]]}', '{"events":["x"]}'])
def test_batch_item_that_is_no_object_is_refused(text: str) -> None:
    assert refused_fields(text, report_service_pb2.BatchReportEventsRequest()) == ["events[0]"]


def test_nesting_is_limited() -> None:
    levels = MAX_DEPTH - 2
    value = '{"a":' * levels + "1" + "}" * levels
    decode_event(f'{{"data":{{"value":{value}}}}}')
    with pytest.raises(RefusedError, match="levels deep"):
        decode_event(f'{{"data":{{"value":{{"a":{value}}}}}}}')
    with pytest.raises(RefusedError, match="levels deep"):
        decode_event('{"data":{"value":{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}}}")


def test_e13_deepest_data_of_a_batch_can_be_written_and_read_as_protobuf() -> None:
    value = '{"a":' * 32 + "1" + "}" * 32
    batch = report_service_pb2.BatchReportEventsRequest()
    decode_message(f'{{"events":[{{"data":{{"value":{value}}}}}]}}'.encode(), batch)
    assert report_service_pb2.BatchReportEventsRequest.FromString(batch.SerializeToString()) == batch


def test_both_name_forms_and_null_are_taken() -> None:
    event = decode_event('{"event_id":"e","taskId":"t","progress":null,"data":{"value":{"a":null}}}')
    assert (event.event_id, event.task_id, event.HasField("progress")) == ("e", "t", False)
    assert event.data.value.fields["a"].WhichOneof("kind") == "null_value"


def test_empty_message_is_given_and_empty_containers_stay() -> None:
    event = decode_event('{"progress":{},"data":{"value":{"a":{},"b":[]}}}')
    assert event.HasField("progress")
    assert json_format.MessageToDict(event.data.value) == {"a": {}, "b": []}


@pytest.mark.parametrize("text", ["1", '"STEP_STARTED"', "1.0", "1e0"])
def test_enum_by_known_name_or_number(text: str) -> None:
    assert decode_event(f'{{"eventType":{text}}}').event_type == common_pb2.STEP_STARTED


@pytest.mark.parametrize("text", ["18446744073709551615", '"18446744073709551615"'])
def test_64_bits_are_exact(text: str) -> None:
    assert decode_event(f'{{"sourceSeq":{text}}}').source_seq == 2**64 - 1


@pytest.mark.parametrize("text", ["5", "5.0", "5e0", "0.5e1", '"5"', '"5.0"'])
def test_integer_in_every_form_of_the_mapping(text: str) -> None:
    assert decode_event(f'{{"sourceSeq":{text}}}').source_seq == 5


@pytest.mark.parametrize(
    ("text", "value"),
    [("", b""), ("AQI=", b"\x01\x02"), ("AQI", b"\x01\x02"), ("-_-_", b"\xfb\xff\xbf"), ("+/+/", b"\xfb\xff\xbf")],
)
def test_base64_is_taken_in_both_alphabets(text: str, value: bytes) -> None:
    assert getattr(decode_kinds(f'{{"aBytes":"{text}"}}'), "a_bytes") == value  # noqa: B009


@pytest.mark.parametrize("text", ["A", "AQI==", "AQ=", "AQJ=", "AQ I", "A?I=", "-/-_", "====", "AQI=AQI="])
def test_base64_is_strict(text: str) -> None:
    assert refused_fields(f'{{"aBytes":"{text}"}}', kinds_class()()) == ["aBytes"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"aFloat":3.5e38}', "aFloat"),
        ('{"aInt32":2147483648}', "aInt32"),
        ('{"aSint64":"-9223372036854775809"}', "aSint64"),
        ('{"aBool":"true"}', "aBool"),
        ('{"left":"a","right":"b"}', "right"),
        ('{"numbers":[1,null]}', "numbers[1]"),
        ('{"numbers":{}}', "numbers"),
        ('{"versions":[]}', "versions"),
        ('{"versions":{"a":-1}}', "versions.a"),
        ('{"versions":{"a":null}}', "versions.a"),
        ('{"versions":{"a":1,"a":1}}', "versions.a"),
        ('{"byNumber":{"x":{}}}', "byNumber.x"),
        ('{"byNumber":{"1":{},"1.0":{}}}', "byNumber.1.0"),
        ('{"byNumber":{"1":{"nope":1}}}', "byNumber.1.nope"),
        ('{"children":[{"children":[{"nope":1}]}]}', "children[0].children[0].nope"),
        ('{"wrapped":1.5}', "wrapped"),
        ('{"wrapped":{"value":1}}', "wrapped"),
        ('{"duration":"1"}', "duration"),
        ('{"mask":[]}', "mask"),
        ('{"listValue":{}}', "listValue"),
        ('{"listValue":[["\\ud800"]]}', "listValue[0][0]"),
    ],
)
def test_t3_malformed_field_of_any_kind_is_refused(text: str, field: str) -> None:
    assert refused_fields(text, kinds_class()()) == [field]


@pytest.mark.parametrize(
    "text",
    [
        '{"aDouble":1.5,"aFloat":0.5,"aInt64":"-5","aUint64":"5","aInt32":-5,"aFixed64":"1","aFixed32":1,"aBool":true}',
        '{"aString":"𝄞 é","aBytes":"AQI=","aUint32":7,"aSfixed32":-1,"aSfixed64":"-1","aSint32":-2,"aSint64":"-2"}',
        '{"colour":"RED","left":"","numbers":[1,2],"versions":{"":"1","ключ":"2"},"byNumber":{"-1":{"right":"x"}}}',
        '{"struct":{"":{"a":[true,null,"x",1.5]}},"anyValue":null,"listValue":[[],{}],"values":[null,1.5]}',
        '{"timestamp":"2026-01-31T08:00:00.000000001Z","duration":"-1.500s","mask":"aBool,aString","wrapped":"7"}',
        '{"child":{"children":[{},{"child":{}}]}}',
    ],
)
def test_t3_what_is_taken_is_what_json_format_takes(text: str) -> None:
    assert decode_kinds(text) == json_format.Parse(text, kinds_class()())


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_SAFE = st.floats(-(2.0**53), 2.0**53) | st.integers(-(2**53), 2**53)
_DATA = st.dictionaries(
    _TEXT,
    st.recursive(
        st.none() | st.booleans() | _SAFE | _TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
_UINT32, _UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
_EVENT_TYPES = st.sampled_from(common_pb2.EventType.values())


@st.composite
def _events(draw: st.DrawFn) -> report_service_pb2.ReportEventRequest:
    fields: dict[str, Any] = {
        field.name: draw(_UINT64 if field.name in ("source_seq", "progress_seq") else _UINT32)
        for field in report_service_pb2.ReportEventRequest.DESCRIPTOR.fields
        if field.name in ("source_seq", "progress_seq", "task_attempt", "step_attempt")
    }
    for name in ("event_id", "task_id", "step_id", "phase_label", "reason"):
        fields[name] = draw(_TEXT)
    event = report_service_pb2.ReportEventRequest(event_type=draw(_EVENT_TYPES), **fields)
    if draw(st.booleans()):
        event.duration_ms = draw(_FINITE)
    if draw(st.booleans()):
        event.progress.current, event.progress.total, event.progress.unit = draw(_FINITE), draw(_FINITE), draw(_TEXT)
    if draw(st.booleans()):
        event.occurred_at.FromNanoseconds(draw(st.integers(-62_135_596_800, 253_402_300_799)) * 10**9)
        event.occurred_at.nanos = draw(st.integers(0, 999_999_999))
    if draw(st.booleans()):
        event.data.schema = draw(_TEXT)
        event.data.value.update(draw(_DATA))
    if draw(st.booleans()):
        event.error.SetInParent()
        if draw(st.booleans()):
            event.error.retryable = draw(st.booleans())
    return event


@settings(max_examples=40)
@given(_events())
def test_t3_event_survives_json_and_back(event: report_service_pb2.ReportEventRequest) -> None:
    assert decode_event(encode_message(event)) == event


@settings(max_examples=40)
@given(_events())
def test_t3_event_in_the_json_of_other_languages_is_the_same(event: report_service_pb2.ReportEventRequest) -> None:
    assert decode_event(json_format.MessageToJson(event)) == event
    assert decode_event(json_format.MessageToJson(event, preserving_proto_field_name=True)) == event


_LEAVES = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


@settings(max_examples=40)
@given(st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
def test_any_json_is_taken_or_refused_and_never_a_fault(document: object) -> None:
    text = json.dumps({"anyValue": document, "aDouble": document, "child": document}).encode()
    kinds = kinds_class()()
    # Whatever else is raised fails the test.
    with contextlib.suppress(RefusedError):
        decode_message(text, kinds)
        assert math.isfinite(getattr(kinds, "a_double"))  # noqa: B009
