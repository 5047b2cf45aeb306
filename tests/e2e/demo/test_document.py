"""What the workers do to a text, and what the watcher concludes: the parts of the demo that need no stack."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from scripts.demo import document
from scripts.demo.__main__ import SAMPLE
from scripts.demo.record import Record, differences
from taskstatus.sdk import StepError

SAMPLE_BYTES = SAMPLE.read_bytes()
NOW = datetime(2026, 11, 30, 12, 0, 1, tzinfo=UTC)
COMMITTED = "2026-11-30T12:00:00.750Z"


def summary(version: int, status: str = "RUNNING") -> dict[str, Any]:
    """A summary as it is published."""
    task = {"lifecycleStatus": status, "asOf": COMMITTED}
    return {"kind": "task.summary", "taskVersion": str(version), "task": task}


def detail(version: int, status: str = "RUNNING") -> dict[str, Any]:
    """A detail as it is published."""
    state = {"taskVersion": str(version), "lifecycleStatus": status}
    trigger = {"committedAt": COMMITTED}
    return {"kind": "task.detail", "taskVersion": str(version), "state": state, "triggerEvent": trigger}


def test_the_sample_is_read() -> None:
    result = document.process(SAMPLE_BYTES)

    assert (result["pages"], result["language"]) == (3, "en")
    assert result["frequentWords"]["the"] > 10
    assert result["sourceBytes"] == len(SAMPLE_BYTES)


@pytest.mark.parametrize("position", [0, len(SAMPLE_BYTES) // 2, len(SAMPLE_BYTES) - 2])
def test_every_byte_counts(position: int) -> None:
    changed = bytearray(SAMPLE_BYTES)
    changed[position] ^= 1

    assert document.process(bytes(changed)) != document.process(SAMPLE_BYTES)


def test_normalising_evens_out_line_ends_and_unicode_forms() -> None:
    one = document.prepare("Café  \r\nzwei\r\n".encode())
    other = document.prepare("\ufeffCafe\u0301\nzwei\n\n".encode())

    assert one.text == other.text == "Café\nzwei\n"
    assert one.source_sha256 != other.source_sha256


@pytest.mark.parametrize("source", [b"\xff\xfe", b"text\x00more"])
def test_what_is_no_text_is_an_input_failure(source: bytes) -> None:
    with pytest.raises(StepError) as caught:
        document.prepare(source)

    assert (caught.value.code, caught.value.category, caught.value.retryable) == ("NOT_TEXT", "INPUT", False)


def test_an_empty_file_has_one_empty_page() -> None:
    result = document.process(b"")

    assert (result["pages"], result["words"], result["language"]) == (1, 0, "unknown")


def test_other_languages_are_told_apart() -> None:
    assert document.process(b"Der Hund und die Katze")["language"] == "de"
    assert document.process(b"le chat et la souris")["language"] == "fr"


def test_a_record_is_complete_with_every_version_and_the_last_state() -> None:
    record = Record()

    assert record.take_message(summary(1), NOW) == 250.0
    record.take_message(summary(3, "SUCCEEDED"), NOW)
    record.take_message(detail(3, "SUCCEEDED"), NOW)
    assert (record.missing, record.complete) == ([2], False)

    record.take_message(summary(2), NOW)
    assert record.complete


def test_c1_a_late_detail_does_not_replace_a_newer_one() -> None:
    record = Record()
    record.take_message(detail(3, "SUCCEEDED"), NOW)
    record.take_message(detail(2), NOW)

    assert record.state["taskVersion"] == "3"


def test_c2_a_snapshot_stands_for_what_the_realtime_server_forgot() -> None:
    record = Record()
    record.take_message(summary(1), NOW)
    events = [{"taskVersion": str(version)} for version in (1, 2, 3)]

    record.fill({"taskVersion": "3", "lifecycleStatus": "SUCCEEDED"}, events)

    assert record.complete
    assert record.only_in_timeline == [2, 3]


def test_states_are_compared_but_for_the_moment_of_reading() -> None:
    ours = {"asOf": "1", "elapsedMs": 5, "steps": [{"stepId": "a", "elapsedMs": 1}], "health": "HEALTHY"}
    theirs = {"asOf": "2", "steps": [{"stepId": "b", "elapsedMs": 9}], "health": "HEALTHY"}

    assert differences(ours, ours | {"asOf": "3"}) == []
    assert differences(ours, theirs) == ["steps[0].stepId: 'a' in the message, 'b' in the snapshot"]
    assert differences({"steps": [1]}, {"steps": []}) == ["steps: [1] in the message, [] in the snapshot"]
