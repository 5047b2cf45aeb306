"""Failure messages for people: what is taken out, what is kept, and that they stay bounded (E-12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskstatus.domain.scrubbing import scrubbed
from taskstatus.domain.text import FAILURE_MESSAGE_MAX

HIDDEN = [
    ("Broken: https://storage.example.test/bucket/key?X-Signature=abc", "storage.example.test"),
    ("s3://bucket/tenant/secret.pdf is not readable", "bucket"),
    ("mysql://root:hunter2@db:3306/app refused", "hunter2"),
    ("login failed, password=hunter2", "hunter2"),
    ("Authorization: Bearer abc.def", "abc.def"),
    ("api_key: abcdef", "abcdef"),
    ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln here", "eyJ"),
    ("You have an error in your SQL syntax near 'users'", "users"),
    ("failed: SELECT id, name FROM users WHERE id = 7", "users"),
    ("INSERT INTO task VALUES (1)", "task"),
    ('Traceback (most recent call last): File "parse.py", line 3, in run', "parse.py"),
    ("at com.example.Parser.run(Parser.java:42)", "Parser"),
]
KEPT = [
    "The document could not be read.",
    "Page 3 of 36 is empty: nothing to parse",
    "文件已加密，无法解析。",
    "Please select another file from the list.",
    "Could not delete page 3 from the document.",
    "Update the form and set a title.",
    "Ratio 3:4 is not supported",
    "",
]


def test_e12_what_is_not_for_people_is_taken_out() -> None:
    assert [message for message, hidden in HIDDEN if hidden in scrubbed(message)] == []


def test_e12_sentence_for_people_is_kept() -> None:
    assert [scrubbed(message) for message in KEPT] == KEPT


@pytest.mark.parametrize("piece", ["a://b ", "token x ", "a://b"])
def test_e12_scrubbed_message_is_no_longer_than_allowed(piece: str) -> None:
    message = (piece * FAILURE_MESSAGE_MAX)[:FAILURE_MESSAGE_MAX]
    assert len(scrubbed(message)) <= FAILURE_MESSAGE_MAX


@given(st.text(max_size=60))
def test_e12_scrubbing_again_changes_nothing(message: str) -> None:
    assert scrubbed(scrubbed(message)) == scrubbed(message)
