"""The identity file: strict, with errors that name the file and the field and show no secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taskstatus.adapters.tokens import CredentialConfigError, JwtIdentityVerifier
from taskstatus.adapters.tokens.files import MAX_FILE_BYTES
from taskstatus.adapters.tokens.identity_file import load_issuers

from .support import (
    AUDIENCE,
    PEOPLE,
    SERVICE_SECRET,
    SERVICES,
    FakeClock,
    ec_key,
    jwks,
    public_jwk,
    secrets_issuer,
    write_identity,
)


def issuer(**changes: Any) -> dict[str, Any]:
    merged = {**secrets_issuer(SERVICES, "services.key"), **changes}
    return {name: value for name, value in merged.items() if value is not ...}


def jwks_issuer(**changes: Any) -> dict[str, Any]:
    return issuer(keys=..., algorithms=["ES256"], **changes)


INVALID = {
    "missing issuer": (issuer(issuer=...), "services.0.issuer"),
    "issuer not text": (issuer(issuer=1), "services.0.issuer"),
    "empty audience": (issuer(audience=""), "services.0.audience"),
    "no algorithm": (issuer(algorithms=[]), "services.0.algorithms"),
    "alg none": (issuer(algorithms=["none"]), "services.0.algorithms.0"),
    "unknown field": (issuer(secret="oops"), "services.0.secret"),
    "snake case": (issuer(keys=..., jwks_file="jwks.json"), "services.0.jwks_file"),
    "no source": (issuer(keys=...), "services.0: needs exactly one"),
    "two sources": (issuer(jwksFile="jwks.json"), "services.0: needs exactly one"),
    "no key": (issuer(keys=[]), "services.0.keys"),
    "kid twice": (issuer(keys=[{"kid": "a", "secretFile": "services.key"}] * 2), "services.0.keys"),
    "empty kid": (issuer(keys=[{"kid": "", "secretFile": "services.key"}]), "services.0.keys.0.kid"),
    "secrets for ES256": (issuer(algorithms=["HS256", "ES256"]), "algorithms must be just HS256"),
    "JWKS for HS256": (issuer(keys=..., jwksFile="jwks.json"), "HS256 cannot be among"),
    "http url": (jwks_issuer(jwksUrl="http://idp.example.test/jwks"), "services.0.jwksUrl"),
    "file url": (jwks_issuer(jwksUrl="file:///jwks"), "services.0.jwksUrl"),
    "secret file missing": (
        issuer(keys=[{"kid": "a", "secretFile": "none.key"}]),
        "services.0.keys.0.secretFile: ",
    ),
    "short secret": (issuer(keys=[{"kid": "a", "secretFile": "short.key"}]), "services.0.keys.0.secretFile: "),
    "secret is a key": (issuer(keys=[{"kid": "a", "secretFile": "jwk.key"}]), "services.0.keys.0.secretFile: "),
    "jwks file missing": (jwks_issuer(jwksFile="none.json"), "services.0.jwksFile: "),
    "jwks file empty": (jwks_issuer(jwksFile="empty.json"), "services.0.jwksFile: "),
    "shared secret": (issuer(keys=[{"kid": "a", "secretFile": "people.key"}]), "shares a secret"),
    "issuer twice": (issuer(issuer=PEOPLE), "in one place only"),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_file_is_refused_naming_file_and_field(tmp_path: Path, clock: FakeClock, case: str) -> None:
    entry, expected = INVALID[case]
    (tmp_path / "short.key").write_bytes(b"s" * 31 + b"\n")
    (tmp_path / "jwk.key").write_text('{"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0"}')
    (tmp_path / "empty.json").write_text('{"keys": []}')
    path = write_identity(tmp_path, [entry])
    with pytest.raises(CredentialConfigError) as caught:
        load_issuers(path, clock)
    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
    assert "oops" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"services": []}', b'{"services": [], "people": [], "x": 1}'])
def test_broken_document_is_refused_naming_the_file(tmp_path: Path, clock: FakeClock, content: bytes) -> None:
    path = tmp_path / "identity.json"
    path.write_bytes(content)
    with pytest.raises(CredentialConfigError, match=r"identity\.json: "):
        JwtIdentityVerifier.from_file(path, clock)


def test_missing_file_is_refused_naming_it(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(CredentialConfigError, match=r"none\.json: No such file"):
        load_issuers(tmp_path / "none.json", clock)


def test_oversized_file_is_refused(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "identity.json"
    path.write_bytes(b" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(CredentialConfigError, match="larger"):
        load_issuers(path, clock)


def test_absolute_paths_are_taken_as_they_are(tmp_path: Path, clock: FakeClock) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "s.key").write_bytes(SERVICE_SECRET)
    path = write_identity(tmp_path, [secrets_issuer(SERVICES, str(elsewhere / "s.key"))])
    assert load_issuers(path, clock)[SERVICES].audience == AUDIENCE


def test_file_without_people_is_valid(tmp_path: Path, clock: FakeClock) -> None:
    assert set(load_issuers(write_identity(tmp_path, people=[]), clock)) == {SERVICES}


@pytest.mark.asyncio
async def test_jwks_file_is_read_again_for_an_unknown_kid(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "jwks.json").write_bytes(jwks(public_jwk(ec_key(), "a")))
    keys = load_issuers(write_identity(tmp_path, [jwks_issuer(jwksFile="jwks.json")]), clock)[SERVICES].keys
    (tmp_path / "jwks.json").write_bytes(jwks(public_jwk(ec_key(), "b")))
    assert await keys.find("b") is not None
    assert await keys.find("a") is None
    (tmp_path / "jwks.json").unlink()
    clock.advance(10)
    assert await keys.find("c") is None
    assert await keys.find("b") is not None
