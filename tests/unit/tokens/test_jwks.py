"""JWK Sets: what is taken from them, and how they are fetched."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from taskstatus.adapters.tokens.jwks_http import MAX_DOCUMENT_BYTES, JwksFetchError, check_jwks_url, fetch_jwks
from taskstatus.adapters.tokens.keys import parse_jwks, secret_key

from .jwks_server import JwksServer
from .support import FakeClock, SteppingClock, ec_key, jwks, public_jwk

BOTH = ("ES256", "RS256")


def test_keys_get_their_algorithm_from_their_material(rsa_key: rsa.RSAPrivateKey) -> None:
    keys = parse_jwks(jwks(public_jwk(ec_key(), "e", alg="ES256", use="sig"), public_jwk(rsa_key, "r")), BOTH)
    assert {kid: key.algorithm for kid, key in keys.items()} == {"e": "ES256", "r": "RS256"}


def p384_jwk() -> dict[str, Any]:
    return public_jwk(ec.generate_private_key(ec.SECP384R1()))


def weak_rsa_jwk() -> dict[str, Any]:
    return public_jwk(rsa.generate_private_key(public_exponent=65537, key_size=1024))


def off_curve_jwk() -> dict[str, Any]:
    entry = public_jwk(ec_key())
    return {**entry, "x": entry["y"]}


UNUSABLE: dict[str, Callable[[], dict[str, Any]]] = {
    "encryption": lambda: public_jwk(ec_key(), use="enc"),
    "signing only": lambda: public_jwk(ec_key(), key_ops=["sign"]),
    "operations not a list": lambda: public_jwk(ec_key(), key_ops="verify"),
    "other algorithm": lambda: public_jwk(ec_key(), alg="ES384"),
    "private": lambda: public_jwk(ec_key(), d="AQ"),
    "symmetric": lambda: {"kty": "oct", "kid": "k1", "k": "c2VjcmV0" * 8},
    "other curve": p384_jwk,
    "off the curve": off_curve_jwk,
    "weak": weak_rsa_jwk,
    "no kid": lambda: {**public_jwk(ec_key()), "kid": None},
    "empty kid": lambda: public_jwk(ec_key(), ""),
    "long kid": lambda: public_jwk(ec_key(), "k" * 129),
    "no coordinates": lambda: {"kty": "EC", "crv": "P-256", "kid": "k1"},
    "coordinate not text": lambda: public_jwk(ec_key(), x=1),
    "unknown type": lambda: {"kty": "OKP", "crv": "Ed25519", "kid": "k1"},
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_key_is_passed_over(case: str) -> None:
    document = jwks(UNUSABLE[case](), public_jwk(ec_key(), "good"))
    assert list(parse_jwks(document, BOTH)) == ["good"]


def test_algorithm_that_the_issuer_does_not_use_is_passed_over(rsa_key: rsa.RSAPrivateKey) -> None:
    document = jwks(public_jwk(rsa_key, "r"), public_jwk(ec_key(), "e"))
    assert list(parse_jwks(document, ["ES256"])) == ["e"]


@pytest.mark.parametrize(
    "document",
    [b"", b"{", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b'{"keys": [1]}', b"[" * 100_000, b"\xff\xfe\x00"],
)
def test_document_without_usable_keys_is_an_error(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|JWK Set"):
        parse_jwks(document, BOTH)


def test_kid_named_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse_jwks(jwks(public_jwk(ec_key()), public_jwk(ec_key())), BOTH)


def test_secret_that_is_a_jwk_is_an_error() -> None:
    with pytest.raises(ValueError, match="public key or a JWK"):
        secret_key("k", json.dumps(public_jwk(ec_key())).encode())


def test_key_shows_no_secret() -> None:
    assert "ssss" not in repr(secret_key("k", b"s" * 32))


@pytest.mark.parametrize(
    "url",
    [
        "https://idp.example.test/jwks",
        "https://idp.example.test:8443/jwks?tenant=1",
        "http://127.0.0.1:8000/jwks",
        "http://[::1]/jwks",
        "http://localhost/jwks",
    ],
)
def test_safe_url_is_accepted(url: str) -> None:
    check_jwks_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "jwks.json",
        "file:///etc/passwd",
        "ftp://127.0.0.1/jwks",
        "data:application/json,{}",
        "http://idp.example.test/jwks",
        "http://127.0.0.1.example.test/jwks",
        "http://10.0.0.1/jwks",
        "https:///jwks",
        "https://user:word@idp.example.test/jwks",
        "https://idp.example.test/jwks#part",
        "https://idp.example.test:port/jwks",
    ],
)
def test_unsafe_url_is_refused_before_anything_is_opened(url: str, clock: FakeClock) -> None:
    with pytest.raises(ValueError, match=r".+"):
        check_jwks_url(url)
    with pytest.raises(ValueError, match=r".+"):
        fetch_jwks(url, clock)


def test_document_is_fetched(jwks_server: JwksServer, clock: FakeClock) -> None:
    jwks_server.body = b'{"keys": []}'
    assert fetch_jwks(jwks_server.url, clock) == b'{"keys": []}'
    assert jwks_server.requests == ["/jwks?tenant=1"]


@pytest.mark.parametrize("location", ["/other", "file:///etc/passwd", "https://idp.example.test/jwks"])
def test_redirect_is_never_followed(jwks_server: JwksServer, clock: FakeClock, location: str) -> None:
    jwks_server.status, jwks_server.headers = 302, {"Location": location}
    with pytest.raises(JwksFetchError, match="status 302"):
        fetch_jwks(jwks_server.url, clock)
    assert len(jwks_server.requests) == 1


def test_oversized_document_is_an_error(jwks_server: JwksServer, clock: FakeClock) -> None:
    jwks_server.body = b" " * (MAX_DOCUMENT_BYTES + 1)
    with pytest.raises(JwksFetchError, match="larger"):
        fetch_jwks(jwks_server.url, clock)


def test_document_that_trickles_past_the_deadline_is_an_error(jwks_server: JwksServer) -> None:
    jwks_server.body = b"{}"
    with pytest.raises(JwksFetchError, match="too long"):
        fetch_jwks(jwks_server.url, SteppingClock(step=10.0))


def test_server_that_is_down_is_an_error(jwks_server: JwksServer, clock: FakeClock) -> None:
    jwks_server.status = 503
    with pytest.raises(JwksFetchError, match="status 503"):
        fetch_jwks(jwks_server.url, clock)
