"""The execution keys file and the keys derived from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskstatus.adapters.tokens import CredentialConfigError
from taskstatus.adapters.tokens.execution_keys import load_execution_keys, make_key_ring

SECRET_TEXT = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"  # base64url of the 32 characters 0123456789abcdef twice
SECRET = b"0123456789abcdef0123456789abcdef"


def write(directory: Path, document: object) -> Path:
    path = directory / "execution-keys.json"
    path.write_text(json.dumps(document))
    return path


def test_file_gives_active_and_retired_keys(tmp_path: Path) -> None:
    document = {"active": "new", "keys": {"new": SECRET_TEXT, "old": SECRET_TEXT[:-1] + "Y="}}
    ring = load_execution_keys(write(tmp_path, document))
    assert ring.active.kid == "new"
    assert set(ring.by_kid) == {"new", "old"}
    assert ring.by_kid["old"].handle_key == ring.active.handle_key


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"keys": {"a": SECRET_TEXT}}, "active: "),
        ({"active": "b", "keys": {"a": SECRET_TEXT}}, "document: active names no key"),
        ({"active": "a", "keys": {}}, "document: active names no key"),
        ({"active": "a", "keys": {"a": SECRET_TEXT[:-3]}}, "keys: a must be base64url"),
        ({"active": "a", "keys": {"a": "!" * 43}}, "keys: a must be base64url"),
        ({"active": "a", "keys": {"a": "ä" * 43}}, "keys: a must be base64url"),
        ({"active": "a", "keys": {"a": 1}}, "keys.a: "),
        ({"active": "a", "keys": {"a": SECRET_TEXT, "b c": SECRET_TEXT}}, "keys.b c"),
        ({"active": "a", "keys": {"a": SECRET_TEXT}, "extra": 1}, "extra: "),
    ],
)
def test_invalid_file_is_refused_naming_file_and_field(tmp_path: Path, document: object, expected: str) -> None:
    with pytest.raises(CredentialConfigError) as caught:
        load_execution_keys(write(tmp_path, document))
    assert f"execution-keys.json: {expected}" in str(caught.value)
    assert SECRET_TEXT[:-3] not in str(caught.value)


def test_token_and_handle_keys_are_separate_and_frozen() -> None:
    key = make_key_ring("v1", {"v1": SECRET}).active
    assert key.tag.hex() == "2e6f8b"
    assert key.token_key.jwk.key.hex() == "6243dd8fd9137ce1087df3127643e2dd7e7afdcf62aee574f9144e03f91006e4"
    assert key.handle_key.hex() == "c3c8622b80e23f77c72166aa20e50d42460ae6d31d9d25882210f53a58a20043"


def test_key_shows_no_secret() -> None:
    key = make_key_ring("v1", {"v1": SECRET}).active
    assert repr(key) == f"ExecutionKey(kid='v1', tag={key.tag!r})"


def test_kids_with_the_same_tag_are_refused(tmp_path: Path) -> None:
    kids = ("k772", "k3363")
    with pytest.raises(CredentialConfigError, match="same tag"):
        load_execution_keys(write(tmp_path, {"active": kids[0], "keys": dict.fromkeys(kids, SECRET_TEXT)}))
