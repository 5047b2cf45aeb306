"""Tokens with which a browser connects and subscribes (A-1, A-2, A-4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from taskstatus.adapters.tokens import CredentialConfigError, EcdsaRealtimeTokens
from taskstatus.adapters.tokens.realtime_tokens import load_private_key, public_key_pem

from .support import NOW, FakeClock, ec_key

KEY = ec_key()
PUBLIC = public_key_pem(KEY)


@pytest.fixture
def tokens(clock: FakeClock) -> EcdsaRealtimeTokens:
    return EcdsaRealtimeTokens(KEY, "rt-1", clock)


def opened(token: str, audience: str) -> dict[str, Any]:
    options: jwt.types.Options = {"verify_exp": False, "verify_iat": False}
    claims: dict[str, Any] = jwt.decode(token, PUBLIC, ["ES256"], options, audience=audience)
    return claims


def test_a1_connection_token_holds_these_claims_and_no_channel(tokens: EcdsaRealtimeTokens) -> None:
    token, expires_at = tokens.connection_token("t-01/u-88", ["task_user:t-01/u-88"])
    assert opened(token, "task-realtime") == {
        "iss": "task-status-service",
        "aud": "task-realtime",
        "sub": "t-01/u-88",
        "iat": NOW,
        "exp": NOW + 300,
        "channels": ["task_user:t-01/u-88"],
    }
    assert expires_at == NOW + 300


def test_a2_subscription_token_binds_user_channel_and_end(tokens: EcdsaRealtimeTokens) -> None:
    token, expires_at = tokens.subscription_token("t-01/u-88", "task_detail:t-01/task_1")
    assert opened(token, "task-realtime-subscription") == {
        "iss": "task-status-service",
        "aud": "task-realtime-subscription",
        "sub": "t-01/u-88",
        "iat": NOW,
        "exp": NOW + 300,
        "channel": "task_detail:t-01/task_1",
    }
    assert expires_at == NOW + 300


def test_a2_neither_kind_passes_for_the_other(tokens: EcdsaRealtimeTokens) -> None:
    for token, other in (
        (tokens.connection_token("t/u", [])[0], "task-realtime-subscription"),
        (tokens.subscription_token("t/u", "task_detail:t/1")[0], "task-realtime"),
    ):
        with pytest.raises(jwt.InvalidAudienceError):
            opened(token, other)


def test_token_names_algorithm_and_kid(tokens: EcdsaRealtimeTokens) -> None:
    token, _ = tokens.connection_token("t/u", [])
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": "rt-1", "typ": "JWT"}


@pytest.mark.parametrize("ttl_seconds", [301, 0, -1])
def test_token_lives_five_minutes_at_most(clock: FakeClock, ttl_seconds: int) -> None:
    with pytest.raises(ValueError, match="ttl_seconds must be 1 to 300"):
        EcdsaRealtimeTokens(KEY, "rt-1", clock, ttl_seconds=ttl_seconds)


def test_shorter_life_is_configurable(clock: FakeClock) -> None:
    tokens = EcdsaRealtimeTokens(KEY, "rt-1", clock, ttl_seconds=60)
    assert tokens.connection_token("t/u", [])[1] == NOW + 60


def test_key_id_is_required(clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="key_id"):
        EcdsaRealtimeTokens(KEY, "", clock)


@pytest.mark.parametrize("user", ["", "t", "t/", "/u", "t/u/v", "/"])
def test_a4_user_that_could_be_read_in_two_ways_is_an_error(tokens: EcdsaRealtimeTokens, user: str) -> None:
    with pytest.raises(ValueError, match="percent-encoded"):
        tokens.connection_token(user, [])
    with pytest.raises(ValueError, match="percent-encoded"):
        tokens.subscription_token(user, "task_detail:t/1")


def test_empty_channel_is_an_error(tokens: EcdsaRealtimeTokens) -> None:
    with pytest.raises(ValueError, match="channel"):
        tokens.subscription_token("t/u", "")


def pem(key: Any, encryption: KeySerializationEncryption | None = None) -> bytes:
    encoded: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return encoded


def test_key_is_read_from_a_pem_file(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "rt.pem").write_bytes(pem(KEY))
    token, _ = EcdsaRealtimeTokens.from_file(tmp_path / "rt.pem", "rt-1", clock).connection_token("t/u", [])
    assert opened(token, "task-realtime")["sub"] == "t/u"


def test_other_kinds_of_keys_are_refused_naming_the_file(tmp_path: Path, rsa_key: RSAPrivateKey) -> None:
    unusable = {
        "rsa": pem(rsa_key),
        "p384": pem(ec.generate_private_key(ec.SECP384R1())),
        "ed25519": pem(ed25519.Ed25519PrivateKey.generate()),
        "encrypted": pem(KEY, BestAvailableEncryption(b"word")),
        "public": PUBLIC,
        "text": b"no key",
        "empty": b"",
    }
    for name, content in unusable.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CredentialConfigError, match=f"{name}: is not"):
            load_private_key(tmp_path / name)
    with pytest.raises(CredentialConfigError, match="none: No such file"):
        load_private_key(tmp_path / "none")
