"""Execution tokens and handles (R-4, R-11)."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskstatus.adapters.tokens import JwtExecutionCredentials
from taskstatus.adapters.tokens.execution_keys import ExecutionKey, make_key_ring
from taskstatus.adapters.tokens.execution_tokens import to_claims
from taskstatus.application.identity import ExecutionBinding, ExecutionGrant, HandleClaim
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EXECUTION_EVENTS
from taskstatus.domain.ids import ExecutionId, make_id
from taskstatus.domain.reasons import Reason

from .support import BINDING, NOW, FakeClock, sign

SECRET = b"0123456789abcdef0123456789abcdef"
OTHER_SECRET = b"fedcba9876543210fedcba9876543210"
RING = make_key_ring("v1", {"v1": SECRET})
CREDENTIALS = JwtExecutionCredentials(RING, FakeClock())
TOKEN, _ = CREDENTIALS.issue_token(BINDING, 7)
HANDLE = CREDENTIALS.make_handle(BINDING, 7)
REFUSAL = "The execution credential is missing or not genuine."

properties = settings(deadline=None, max_examples=50)
generations = st.integers(0, 2**32 - 1)
execution_ids = st.builds(
    lambda *parts: ExecutionId(make_id(*parts)),
    st.integers(0, 2**48 - 1),
    st.integers(0, 4095),
    st.integers(0, 2**62 - 1),
)
texts = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=64)
attempts = st.integers(1, 2**31 - 1)
bindings = st.builds(
    ExecutionBinding,
    tenant_id=texts,
    authority_scope=texts,
    workflow_id=execution_ids,
    task_id=execution_ids,
    task_attempt=attempts,
    step_id=texts,
    step_attempt=attempts,
    operation_code=texts,
    execution_id=execution_ids,
    producer_id=texts,
)


def refused_token(credentials: JwtExecutionCredentials, token: str) -> None:
    with pytest.raises(RefusedError) as caught:
        credentials.open_token(token)
    assert (caught.value.reason, caught.value.message) == (Reason.UNAUTHENTICATED, REFUSAL)


def refused_handle(credentials: JwtExecutionCredentials, handle: str) -> None:
    with pytest.raises(RefusedError) as caught:
        credentials.open_handle(handle)
    assert (caught.value.reason, caught.value.message) == (Reason.UNAUTHENTICATED, REFUSAL)


@properties
@given(binding=bindings, generation=generations)
def test_r4_token_round_trip(binding: ExecutionBinding, generation: int) -> None:
    token, expires_at = CREDENTIALS.issue_token(binding, generation)
    assert CREDENTIALS.open_token(token) == ExecutionGrant(binding, EXECUTION_EVENTS, generation, expires_at)


@properties
@given(execution_id=execution_ids, generation=generations)
def test_r4_handle_round_trip(execution_id: ExecutionId, generation: int) -> None:
    handle = CREDENTIALS.make_handle(replace(BINDING, execution_id=execution_id), generation)
    assert CREDENTIALS.open_handle(handle) == HandleClaim(execution_id, generation)


@properties
@given(generation=generations, other=generations)
def test_r11_other_generation_gives_another_handle(generation: int, other: int) -> None:
    same = CREDENTIALS.make_handle(BINDING, generation) == CREDENTIALS.make_handle(BINDING, other)
    assert same == (generation == other)


@properties
@given(position=st.integers(0, len(HANDLE) - 1), flip=st.integers(1, 127))
def test_handle_with_any_byte_changed_is_refused(position: int, flip: int) -> None:
    changed = chr(ord(HANDLE[position]) ^ flip)
    refused_handle(CREDENTIALS, HANDLE[:position] + changed + HANDLE[position + 1 :])


@pytest.mark.parametrize("byte", range(42))
def test_handle_with_any_bit_of_its_content_flipped_is_refused(byte: int) -> None:
    for bit in range(8):
        raw = bytearray(base64.urlsafe_b64decode(HANDLE.removeprefix("exh_")))
        raw[byte] ^= 1 << bit
        refused_handle(CREDENTIALS, "exh_" + base64.urlsafe_b64encode(raw).decode())


@properties
@given(position=st.integers(0, len(TOKEN) - 1), flip=st.integers(1, 127))
def test_token_with_any_byte_changed_is_refused(position: int, flip: int) -> None:
    changed = chr(ord(TOKEN[position]) ^ flip)
    refused_token(CREDENTIALS, TOKEN[:position] + changed + TOKEN[position + 1 :])


@properties
@given(text=st.text(max_size=80) | st.text(max_size=60).map("exh_".__add__))
def test_any_other_text_is_refused(text: str) -> None:
    refused_handle(CREDENTIALS, text)
    refused_token(CREDENTIALS, text)


def test_handle_vector_is_frozen() -> None:
    binding = replace(BINDING, execution_id=ExecutionId(bytes.fromhex("018bcfe568007d0780000000000000ff")))
    assert CREDENTIALS.make_handle(binding, 0) == "exh_AS5viwGLz-VoAH0HgAAAAAAAAP8AAAAAQ5E5nLQ6QDoWvnoFLw6sHutE"
    assert CREDENTIALS.make_handle(binding, 7) == "exh_AS5viwGLz-VoAH0HgAAAAAAAAP8AAAAH4p8_sK9plPDdfGmY7t6HPs5L"


def test_handle_is_56_characters_after_its_prefix() -> None:
    assert HANDLE.startswith("exh_")
    assert len(HANDLE) == 60


def test_handle_of_another_version_is_refused_though_its_mac_is_right() -> None:
    def handle(version: bytes) -> str:
        body = version + RING.active.tag + BINDING.execution_id + (7).to_bytes(4, "big")
        mac = hmac.digest(RING.active.handle_key, b"taskstatus/execution-handle/v1\x00" + body, "sha256")[:18]
        return "exh_" + base64.urlsafe_b64encode(body + mac).decode()

    assert handle(b"\x01") == HANDLE
    refused_handle(CREDENTIALS, handle(b"\x02"))


@pytest.mark.parametrize("change", ["{}\n", "{}=", " {}", "{}A"])
def test_handle_has_one_spelling(change: str) -> None:
    refused_handle(CREDENTIALS, change.format(HANDLE))


@pytest.mark.parametrize(("execution_id", "generation"), [(b"x" * 15, 0), (b"x" * 16, -1), (b"x" * 16, 2**32)])
def test_handle_of_impossible_arguments_is_an_error(execution_id: bytes, generation: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        CREDENTIALS.make_handle(replace(BINDING, execution_id=ExecutionId(execution_id)), generation)


def test_token_names_issuer_audience_kid_and_times() -> None:
    claims = jwt.decode(TOKEN, options={"verify_signature": False})
    assert jwt.get_unverified_header(TOKEN) == {"alg": "HS256", "kid": "v1", "typ": "JWT"}
    assert (claims["iss"], claims["aud"]) == ("task-status-service", "task-execution")
    assert (claims["iat"], claims["exp"]) == (NOW, NOW + 900)


def test_token_ttl_is_configurable_and_positive() -> None:
    assert JwtExecutionCredentials(RING, FakeClock(), token_ttl_seconds=60).issue_token(BINDING, 0)[1] == NOW + 60
    with pytest.raises(ValueError, match="token_ttl_seconds"):
        JwtExecutionCredentials(RING, FakeClock(), token_ttl_seconds=0)


def test_r11_genuine_expired_token_is_opened() -> None:
    clock = FakeClock()
    credentials = JwtExecutionCredentials(RING, clock)
    token, expires_at = credentials.issue_token(BINDING, 7)
    clock.advance(86_400)
    for _ in range(2):
        assert credentials.open_token(token).expires_at == expires_at < clock.unix_seconds()


def test_retired_key_verifies_and_the_active_one_signs() -> None:
    rotated = JwtExecutionCredentials(make_key_ring("v2", {"v1": SECRET, "v2": OTHER_SECRET}), FakeClock())
    assert rotated.open_token(TOKEN).binding == BINDING
    assert rotated.open_handle(HANDLE) == HandleClaim(BINDING.execution_id, 7)
    token, _ = rotated.issue_token(BINDING, 7)
    assert jwt.get_unverified_header(token)["kid"] == "v2"
    assert rotated.open_handle(rotated.make_handle(BINDING, 7)) == rotated.open_handle(HANDLE)
    refused_token(CREDENTIALS, token)
    refused_handle(CREDENTIALS, rotated.make_handle(BINDING, 7))


def test_removed_key_verifies_no_more() -> None:
    without = JwtExecutionCredentials(make_key_ring("v2", {"v2": OTHER_SECRET}), FakeClock())
    refused_token(without, TOKEN)
    refused_handle(without, HANDLE)


def test_same_kid_with_another_secret_is_refused() -> None:
    other = JwtExecutionCredentials(make_key_ring("v1", {"v1": OTHER_SECRET}), FakeClock())
    refused_token(other, TOKEN)
    refused_handle(other, HANDLE)


def test_neither_key_nor_the_secret_itself_does_the_other_ones_work() -> None:
    claims = to_claims(BINDING, 7, int(NOW), int(NOW) + 900)
    assert CREDENTIALS.open_token(sign(claims, RING.active.token_key.jwk.key, "v1"))
    refused_token(CREDENTIALS, sign(claims, RING.active.handle_key, "v1"))
    refused_token(CREDENTIALS, sign(claims, SECRET, "v1"))


@pytest.mark.parametrize(
    "changes",
    [
        *({"iss": "another"}, {"aud": "task-realtime"}, {"aud": ["another"]}, {"sub": "exec_1"}, {"wf": "wf_1"}),
        *({"tsk": 1}, {"run": "1"}, {"run": True}, {"att": 1.5}, {"ten": None}, {"evt": "STEP_STARTED"}),
        *({"gen": None}, {"exp": "never"}),
    ],
    ids=str,
)
def test_token_of_another_shape_is_refused(changes: dict[str, object]) -> None:
    claims = {**to_claims(BINDING, 7, int(NOW), int(NOW) + 900), **changes}
    refused_token(CREDENTIALS, sign(claims, RING.active.token_key.jwk.key, "v1"))


@pytest.mark.parametrize("name", sorted(to_claims(BINDING, 7, 0, 0)))
def test_token_without_one_of_its_claims_is_refused(name: str) -> None:
    claims = to_claims(BINDING, 7, int(NOW), int(NOW) + 900)
    del claims[name]
    refused_token(CREDENTIALS, sign(claims, RING.active.token_key.jwk.key, "v1"))


def test_unknown_event_type_is_passed_over() -> None:
    claims = {**to_claims(BINDING, 7, int(NOW), int(NOW) + 900), "evt": ["STEP_STARTED", "STEP_OF_TOMORROW"]}
    grant = CREDENTIALS.open_token(sign(claims, RING.active.token_key.jwk.key, "v1"))
    assert grant.allowed_events == {"STEP_STARTED"}


class CountingKeys(dict[str, ExecutionKey]):
    """Counts look-ups, of which there is one per full check of a token."""

    lookups = 0

    def get(self, kid: str, default: Any = None) -> Any:
        self.lookups += 1
        return super().get(kid, default)


def test_opened_token_is_remembered_and_the_memory_is_bounded() -> None:
    keys = CountingKeys(RING.by_kid)
    credentials = JwtExecutionCredentials(replace(RING, by_kid=keys), FakeClock(), cache_entries=1)
    assert credentials.open_token(TOKEN) is credentials.open_token(TOKEN)
    assert keys.lookups == 1
    credentials.open_token(credentials.issue_token(BINDING, 8)[0])
    credentials.open_token(TOKEN)
    assert keys.lookups == 3


def test_credentials_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "execution-keys.json"
    encoded = base64.urlsafe_b64encode(SECRET).decode()
    path.write_text(json.dumps({"active": "v1", "keys": {"v1": encoded}}))
    credentials = JwtExecutionCredentials.from_file(path, FakeClock(), token_ttl_seconds=60)
    assert credentials.make_handle(BINDING, 7) == HANDLE
    assert credentials.open_token(TOKEN).binding == BINDING
