"""Ids, texts and channel names: what is accepted and refused, and that nothing is lost on the way (ID-4, S-1, P-1)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.domain import ids, text
from taskstatus.domain.channels import (
    CHANNEL_MAX,
    channel_of,
    check_user_channel,
    realtime_user,
    task_detail_channel,
    task_user_channel,
    workflow_summary_channel,
)
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from tests.unit.factories import TASK_ID, TENANT, WORKFLOW_ID, an_id

FORMS: list[tuple[Callable[[bytes], str], Callable[[str], bytes | None], str]] = [
    (ids.format_workflow_id, ids.parse_workflow_id, "wf_"),
    (ids.format_task_id, ids.parse_task_id, "task_"),
    (ids.format_execution_id, ids.parse_execution_id, "exec_"),
]
raw_ids = st.builds(
    ids.make_id, st.integers(0, 2**48 - 1), st.integers(0, ids.BUCKET_COUNT - 1), st.integers(0, 2**62 - 1)
)


@pytest.mark.parametrize(
    ("owner", "digest", "bucket"), [("u-88", 0xCCA84E59E17D5D07, 3335), ("u-99", 0xDC74AE5BD58F8AA2, 2722)]
)
def test_s1_frozen_vectors(owner: str, digest: int, bucket: int) -> None:
    assert ids.routing_hash("t-01", owner) == digest
    assert ids.bucket_of_owner("t-01", owner) == bucket


def test_s1_separator_keeps_tenant_and_owner_apart() -> None:
    assert ids.routing_hash("t-01", "u-88") != ids.routing_hash("t-01u", "-88")


@given(unix_ms=st.integers(0, 2**48 - 1), bucket=st.integers(0, 4095), random_62=st.integers(0, 2**62 - 1))
def test_s1_id_is_a_uuid7_that_carries_time_and_bucket(unix_ms: int, bucket: int, random_62: int) -> None:
    raw = ids.make_id(unix_ms, bucket, random_62)
    assert len(raw) == 16
    assert (raw[6] >> 4, raw[8] >> 6) == (7, 0b10)
    assert int.from_bytes(raw[:6], "big") == unix_ms
    assert ids.bucket_of_id(raw) == bucket
    assert int.from_bytes(raw[8:], "big") & (1 << 62) - 1 == random_62


@given(raw=raw_ids)
def test_id4_text_forms_round_trip(raw: bytes) -> None:
    digits = raw.hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    for form, parse, prefix in FORMS:
        assert form(raw) == prefix + digits
        assert parse(form(raw)) == parse(uuid) == raw


GOOD = TASK_ID.hex()
NASTY_IDS = [
    "",
    "task_",
    GOOD[:-1],
    GOOD + "0",
    GOOD.upper(),
    f"TASK_{GOOD}",
    f"Task_{GOOD}",
    f"task_task_{GOOD}",
    f"wf_{GOOD}",
    f" task_{GOOD}",
    f"task_{GOOD} ",
    f"task_{GOOD}\n",
    f"task_{GOOD}\0",
    f"task_{GOOD[:8]}-{GOOD[8:12]}-{GOOD[12:16]}-{GOOD[16:20]}-{GOOD[20:]}",
    f"{{{GOOD}}}",
    f"urn:uuid:{GOOD}",
    GOOD[:12] + "4" + GOOD[13:],
    GOOD[:16] + "f" + GOOD[17:],
    "0" * 32,
    "f" * 32,
    "\uff10" * 32,
    "\u0660" * 32,
    "🙂" * 8,
    "../../etc/passwd",
    "%00",
]


def test_id4_odd_task_id_is_no_id() -> None:
    assert [odd for odd in NASTY_IDS if ids.parse_task_id(odd) is not None] == []


@given(st.text(max_size=40))
def test_id4_no_text_breaks_the_parser(anything: str) -> None:
    for form, parse, _ in FORMS:
        raw = parse(anything)
        assert raw is None or form(raw).endswith(anything.replace("-", "").rpartition("_")[2])


def refused(call: Callable[..., object], *arguments: object) -> str:
    """The field that an INVALID_ARGUMENT names."""
    with pytest.raises(RefusedError) as caught:
        call(*arguments)
    assert caught.value.reason is Reason.INVALID_ARGUMENT
    return caught.value.violations[0].field


ODD_KEYS = [
    "",
    "a b",
    "a ",
    " a",
    "a\0",
    "a\n",
    "a\t",
    "é",
    "e\u0301",
    "🙂",
    "\u200b",
    "\u202e",
    "a\x7f",
    "\ud800",
    "ａ",
]


def test_id4_odd_key_is_refused() -> None:
    assert [refused(text.check_id, "eventId", odd, 64) for odd in ODD_KEYS] == ["eventId"] * len(ODD_KEYS)


def test_id4_visible_ascii_is_kept_byte_for_byte() -> None:
    for good in ("a", "A", "auth0|x", "a#b", "a/b", "evt-01", "x" * 64, "~", "%"):
        assert text.check_id("eventId", good, 64) == good


def test_id4_lengths_are_limits() -> None:
    assert text.check_id("eventId", "x" * 64, 64)
    assert refused(text.check_id, "eventId", "x" * 65, 64) == "eventId"
    assert text.check_optional_id("taskType", "", 64) == ""
    assert refused(text.check_optional_id, "taskType", "x" * 65, 64) == "taskType"


def test_r10_odd_step_id_is_refused() -> None:
    for odd in ("", "a b", "a/b", "é", "a" * 65, "a\n", "a:b", "🙂"):
        assert refused(text.check_step_id, "stepId", odd) == "stepId"


@pytest.mark.parametrize("good", ["02_parse", "a.b-c_d", "A" * 64, "0"])
def test_r10_step_id_alphabet(good: str) -> None:
    assert text.check_step_id("stepId", good) == good


def test_r9_odd_title_is_refused() -> None:
    for odd in ("", " ", "\t\n", "\u00a0", "x" * 201, "a\0b", "a\nb", "\ud800"):
        assert refused(text.check_title, "title", odd) == "title"


def test_r9_title_is_trimmed_before_it_is_measured() -> None:
    assert text.check_title("title", f"  {'x' * 200}\n") == "x" * 200
    assert text.check_title("title", "🙂" * 200) == "🙂" * 200


@given(st.text(max_size=30))
def test_id4_accepted_text_has_no_control_characters(anything: str) -> None:
    try:
        kept = text.check_text("reason", anything, 20)
    except RefusedError:
        return
    assert kept == anything
    assert len(kept) <= 20
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in kept)


@given(st.text(max_size=70))
def test_id4_is_refused_id_agrees_with_the_check(anything: str) -> None:
    visible = 1 <= len(anything) <= 64 and all("!" <= char <= "~" for char in anything)
    assert text.is_refused_id(anything, 64) is not visible


visible_texts = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=64)


@given(st.lists(visible_texts, min_size=1, max_size=3))
def test_p1_channel_parts_round_trip(parts: list[str]) -> None:
    namespace, _, rest = channel_of("task_user", *parts).partition(":")
    assert namespace == "task_user"
    assert [unquote(part) for part in rest.split("/")] == parts
    assert not set(rest) & set(":#$,*& \"'<>|")


@given(visible_texts, visible_texts, visible_texts)
def test_p1_different_people_never_share_a_channel(tenant: str, one: str, other: str) -> None:
    assert (task_user_channel(tenant, one) == task_user_channel(tenant, other)) is (one == other)


def test_p1_channel_names() -> None:
    assert task_user_channel("t-01", "auth0|x") == "task_user:t-01/auth0%7Cx"
    assert task_user_channel("t-01", "a#b") == "task_user:t-01/a%23b"
    assert task_detail_channel(TENANT, TASK_ID) == f"task_detail:t-01/task_{TASK_ID.hex()}"
    assert workflow_summary_channel(TENANT, WORKFLOW_ID) == f"workflow_summary:t-01/wf_{WORKFLOW_ID.hex()}"
    assert realtime_user("t/1", "a|b") == "t%2F1/a%7Cb"


def test_p1_channel_of_exactly_the_limit_passes() -> None:
    free = CHANNEL_MAX - len("task_user:") - 1
    tenant = "t" * 64
    check_user_channel("ownerId", tenant, "o" * (free - 64))
    assert refused(check_user_channel, "ownerId", tenant, "o" * (free - 63)) == "ownerId"


def test_s1_ids_of_the_tests_are_ids() -> None:
    assert ids.parse_task_id(ids.format_task_id(an_id(5))) == an_id(5)
