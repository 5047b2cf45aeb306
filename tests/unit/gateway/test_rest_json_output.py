"""Message to JSON (E-7, T-3): a stable shape, versions as text, whole numbers without a fraction."""

from __future__ import annotations

import orjson
import pytest
from taskstatus_pb.v1 import common_pb2, query_service_pb2, report_service_pb2

from gateway_rest.json_output import encode_message


def test_e7_versions_are_decimal_strings() -> None:
    encoded = orjson.loads(encode_message(report_service_pb2.ReportEventResponse(task_version=2**64 - 1)))
    assert encoded["taskVersion"] == "18446744073709551615"
    assert encoded["stepVersion"] == "0"


def test_fields_without_presence_are_always_there_and_others_only_when_set() -> None:
    encoded = orjson.loads(encode_message(report_service_pb2.ReportEventResponse()))
    assert (encoded["accepted"], encoded["lifecycleStatus"]) == (False, "LIFECYCLE_STATUS_UNSPECIFIED")
    assert "committedAt" not in encoded


@pytest.mark.parametrize(
    ("value", "text"), [(5.0, b"5"), (0.5, b"0.5"), (-0.0, b"-0.0"), (2.0**53, b"9007199254740992"), (1e300, b"1e+300")]
)
def test_whole_numbers_carry_no_fraction(value: float, text: bytes) -> None:
    assert b'"current":' + text + b"," in encode_message(common_pb2.Progress(current=value))


def test_response_body_is_sent_alone() -> None:
    response = query_service_pb2.GetTaskResponse(task=query_service_pb2.TaskSnapshot(task_id="task_1"))
    encoded = orjson.loads(encode_message(response, "task"))
    assert (encoded["taskId"], encoded["steps"]) == ("task_1", [])


def test_missing_response_body_is_null() -> None:
    assert encode_message(query_service_pb2.GetTaskResponse(), "task") == b"null"


def test_text_is_utf8() -> None:
    assert '"é𝄞"'.encode() in encode_message(common_pb2.Progress(unit="é𝄞"))
