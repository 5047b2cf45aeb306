"""The bearer JWT of services and people (issue 3 point 4, ID-1, A-4)."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from taskstatus.adapters.tokens import JwtIdentityVerifier
from taskstatus.application.identity import Role, ServiceIdentity, UserIdentity
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

from .jwks_server import JwksServer
from .support import (
    AUDIENCE,
    NOW,
    PEOPLE,
    PEOPLE_SECRET,
    PERSON_CLAIMS,
    SERVICE_CLAIMS,
    SERVICE_SECRET,
    SERVICES,
    FakeClock,
    compact,
    ec_key,
    jwks,
    public_jwk,
    secrets_issuer,
    sign,
    sign_by_hand,
    write_identity,
)

pytestmark = pytest.mark.asyncio

REFUSAL = "The caller's credential is missing or not valid."


def service_token(**changes: Any) -> str:
    return sign({**SERVICE_CLAIMS, **changes})


def without(name: str) -> str:
    return sign({key: value for key, value in SERVICE_CLAIMS.items() if key != name})


async def refusal(verifier: JwtIdentityVerifier, token: str) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        await verifier.verify(token)
    return caught.value


async def test_id1_service_identity_comes_from_the_verified_claims(verifier: JwtIdentityVerifier) -> None:
    identity = await verifier.verify(service_token(roles=["worker", "coordinator"]))
    assert identity == ServiceIdentity(
        tenant_id="t-01",
        authority_scope="documents",
        producer_id="parser",
        roles=frozenset({Role.WORKER, Role.COORDINATOR}),
        subject="svc-parser",
        expires_at=NOW + 600,
    )


async def test_id1_person_identity_comes_from_the_verified_claims(verifier: JwtIdentityVerifier) -> None:
    identity = await verifier.verify(sign(PERSON_CLAIMS, PEOPLE_SECRET))
    assert identity == UserIdentity(
        tenant_id="t-01",
        user_id="auth0|u-88",
        projects=frozenset({"p-1", "p-2"}),
        roles=frozenset({"editor"}),
        expires_at=NOW + 600,
    )


async def test_person_without_projects_and_roles_is_accepted(verifier: JwtIdentityVerifier) -> None:
    claims = {name: value for name, value in PERSON_CLAIMS.items() if name not in ("projects", "roles")}
    identity = await verifier.verify(sign(claims, PEOPLE_SECRET))
    assert isinstance(identity, UserIdentity)
    assert identity.projects == identity.roles == frozenset()


async def test_token_signed_by_hand_is_accepted(verifier: JwtIdentityVerifier) -> None:
    assert await verifier.verify(sign_by_hand({"alg": "HS256", "kid": "k1"}, SERVICE_CLAIMS, SERVICE_SECRET))


async def test_audience_list_that_holds_ours_is_accepted(verifier: JwtIdentityVerifier) -> None:
    assert await verifier.verify(service_token(aud=["other", AUDIENCE]))


MALFORMED = {
    "empty": "",
    "word": "token",
    "two_parts": "a.b",
    "four_parts": "YQ.YQ.YQ.YQ",
    "not_base64": "a.b.c",
    "not_ascii": "ä.b.c",
    "surrogate": "\ud800",
    "nul": "\x00",
    "line_break_at_the_end": service_token() + "\n",
    "padding_at_the_end": service_token() + "=",
    "bearer_word": "Bearer " + service_token(),
    "too_long": service_token(filler="x" * 20_000),
    "header_not_object": compact([], dict(SERVICE_CLAIMS)),
    "payload_not_object": compact({"alg": "HS256", "kid": "k1"}, []),
    "deep_nesting": ".".join(base64.urlsafe_b64encode(part).decode() for part in (b"[" * 6000, b"{}1", b"xyz")),
}
FORGED = {
    "other_secret": sign(SERVICE_CLAIMS, b"another-secret-of-32-bytes-or-so!"),
    "peoples_secret": sign(SERVICE_CLAIMS, PEOPLE_SECRET),
    "alg_none": jwt.encode(dict(SERVICE_CLAIMS), "", algorithm="none", headers={"kid": "k1"}),
    "alg_hs512": sign(SERVICE_CLAIMS, SERVICE_SECRET * 2, alg="HS512"),
    "alg_missing": compact({"kid": "k1"}, dict(SERVICE_CLAIMS)),
    "unknown_kid": sign(SERVICE_CLAIMS, kid="k2"),
    "no_kid": sign(SERVICE_CLAIMS, kid=None),
    "kid_not_text": compact({"alg": "HS256", "kid": 1}, dict(SERVICE_CLAIMS)),
    "kid_too_long": sign(SERVICE_CLAIMS, kid="k" * 200),
    "crit": sign(SERVICE_CLAIMS, crit=["exp"], exp=1),
    "b64_true": sign_by_hand({"alg": "HS256", "kid": "k1", "b64": True}, SERVICE_CLAIMS, SERVICE_SECRET),
    "crit_b64_true": sign_by_hand(
        {"alg": "HS256", "kid": "k1", "b64": True, "crit": ["b64"]}, SERVICE_CLAIMS, SERVICE_SECRET
    ),
    "b64_false": compact({"alg": "HS256", "kid": "k1", "b64": False, "crit": ["b64"]}, dict(SERVICE_CLAIMS)),
    "unknown_issuer": service_token(iss="https://elsewhere.example.test"),
    "issuer_with_other_case": service_token(iss=SERVICES.upper()),
    "issuer_with_slash": service_token(iss=SERVICES + "/"),
    "issuer_not_text": compact({"alg": "HS256", "kid": "k1"}, {**SERVICE_CLAIMS, "iss": [SERVICES]}),
    "other_audience": service_token(aud="another"),
    "audience_not_text": service_token(aud=7),
}
BAD_CLAIMS = {
    "exp_text": service_token(exp="never"),
    "exp_true": service_token(exp=True),
    "exp_infinite": service_token(exp=float("inf")),
    "exp_nan": service_token(exp=float("nan")),
    "exp_huge": service_token(exp=10**400),
    "iat_text": service_token(iat="yesterday"),
    "issued_in_the_future": service_token(iat=NOW + 31),
    "not_before_the_future": service_token(nbf=NOW + 31),
    "roles_text": service_token(roles="admin"),
    "roles_of_numbers": service_token(roles=[1]),
    "roles_object": service_token(roles={"admin": True}),
    "tenant_empty": service_token(tenant_id=""),
    "tenant_null": service_token(tenant_id=None),
    "tenant_number": service_token(tenant_id=1),
    "tenant_too_long": service_token(tenant_id="t" * 65),
    "tenant_nul": service_token(tenant_id="t-01\x00"),
    "tenant_trailing_space": service_token(tenant_id="t-01 "),
    "tenant_line_break": service_token(tenant_id="t-01\n"),
    "tenant_surrogate": service_token(tenant_id="\ud800"),
    "tenant_four_bytes": service_token(tenant_id="t\U0001f600"),
    "scope_too_long": service_token(authority_scope="s" * 65),
    "producer_too_long": service_token(producer_id="p" * 129),
    "subject_too_long": service_token(sub="s" * 256),
    "subject_number": service_token(sub=1),
    "person_too_long": sign({**PERSON_CLAIMS, "sub": "u" * 65}, PEOPLE_SECRET),
    "person_projects_text": sign({**PERSON_CLAIMS, "projects": "p-1"}, PEOPLE_SECRET),
}
REQUIRED = ("iss", "aud", "sub", "iat", "exp", "tenant_id", "authority_scope", "producer_id", "roles")
REFUSED = {**MALFORMED, **FORGED, **BAD_CLAIMS, **{f"without_{name}": without(name) for name in REQUIRED}}


@pytest.mark.parametrize("case", REFUSED)
async def test_bad_token_is_unauthenticated_with_the_same_text(
    verifier: JwtIdentityVerifier, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        error = await refusal(verifier, REFUSED[case])
    assert (error.reason, error.message, dict(error.metadata)) == (Reason.UNAUTHENTICATED, REFUSAL, {})
    assert error.__cause__ is None
    signature = REFUSED[case].rpartition(".")[2]
    assert len(signature) < 8 or signature not in caplog.text
    assert "t-01" not in caplog.text


async def test_small_clock_skew_of_the_issuer_is_tolerated(verifier: JwtIdentityVerifier) -> None:
    assert await verifier.verify(service_token(iat=NOW + 29, nbf=NOW + 29))


async def test_longest_ids_are_accepted(verifier: JwtIdentityVerifier) -> None:
    token = service_token(tenant_id="t" * 64, authority_scope="s" * 64, producer_id="p" * 128)
    assert await verifier.verify(token)


async def test_genuine_token_past_exp_is_token_expired(verifier: JwtIdentityVerifier, clock: FakeClock) -> None:
    clock.advance(600)
    error = await refusal(verifier, service_token())
    assert (error.reason, error.message) == (Reason.TOKEN_EXPIRED, "The caller's credential has expired.")


@pytest.mark.parametrize(
    "token",
    [
        sign({**SERVICE_CLAIMS, "exp": 1}, b"another-secret-of-32-bytes-or-so!"),
        sign({**SERVICE_CLAIMS, "exp": 1, "aud": "another"}),
        sign({**SERVICE_CLAIMS, "exp": 1, "tenant_id": ""}),
    ],
    ids=["forged", "other audience", "bad tenant"],
)
async def test_expired_token_with_another_fault_is_unauthenticated(verifier: JwtIdentityVerifier, token: str) -> None:
    assert (await refusal(verifier, token)).reason is Reason.UNAUTHENTICATED


async def test_service_never_passes_as_a_person(verifier: JwtIdentityVerifier) -> None:
    identity = await verifier.verify(service_token(projects=["p-1"], roles=["user"], user_id="u-88"))
    assert isinstance(identity, ServiceIdentity)
    assert identity.roles == frozenset()
    assert (await refusal(verifier, sign(PERSON_CLAIMS, SERVICE_SECRET))).reason is Reason.UNAUTHENTICATED


async def test_person_never_passes_as_a_service(verifier: JwtIdentityVerifier) -> None:
    claims = {**SERVICE_CLAIMS, "iss": PEOPLE, "roles": ["admin"]}
    identity = await verifier.verify(sign(claims, PEOPLE_SECRET))
    assert isinstance(identity, UserIdentity)
    assert (await refusal(verifier, sign(SERVICE_CLAIMS, PEOPLE_SECRET))).reason is Reason.UNAUTHENTICATED


async def test_unknown_service_role_is_passed_over(verifier: JwtIdentityVerifier) -> None:
    identity = await verifier.verify(service_token(roles=["worker", "auditor", "WORKER"]))
    assert identity.roles == frozenset({Role.WORKER})


async def test_persons_label_that_no_grant_can_hold_is_passed_over(verifier: JwtIdentityVerifier) -> None:
    token = sign({**PERSON_CLAIMS, "roles": ["editor", "Document Editors", "r" * 65]}, PEOPLE_SECRET)
    assert (await verifier.verify(token)).roles == frozenset({"editor"})


async def test_key_is_found_by_issuer_and_kid_together(tmp_path: Path, clock: FakeClock) -> None:
    other = "https://other.example.test"
    services = [secrets_issuer(SERVICES, "services.key", "k1"), secrets_issuer(other, "other.key", "k2")]
    (tmp_path / "other.key").write_bytes(b"other-service-secret-of-the-tests")
    verifier = JwtIdentityVerifier.from_file(write_identity(tmp_path, services), clock)
    claims = {**SERVICE_CLAIMS, "iss": other}
    assert await verifier.verify(sign(claims, b"other-service-secret-of-the-tests", "k2"))
    for secret, kid in ((SERVICE_SECRET, "k1"), (SERVICE_SECRET, "k2"), (b"other-service-secret-of-the-tests", "k1")):
        assert (await refusal(verifier, sign(claims, secret, kid))).reason is Reason.UNAUTHENTICATED


def jwks_issuer(issuer: str = SERVICES, **source: Any) -> dict[str, Any]:
    return {"issuer": issuer, "audience": AUDIENCE, "algorithms": ["ES256", "RS256"], **source}


async def test_es256_and_rs256_by_jwks_file(tmp_path: Path, clock: FakeClock, rsa_key: RSAPrivateKey) -> None:
    elliptic = ec_key()
    (tmp_path / "jwks.json").write_bytes(jwks(public_jwk(elliptic, "e"), public_jwk(rsa_key, "r")))
    path = write_identity(tmp_path, [jwks_issuer(jwksFile="jwks.json")])
    verifier = JwtIdentityVerifier.from_file(path, clock)
    assert await verifier.verify(sign(SERVICE_CLAIMS, elliptic, "e", "ES256"))
    assert await verifier.verify(sign(SERVICE_CLAIMS, rsa_key, "r", "RS256"))
    for token in (
        sign(SERVICE_CLAIMS, elliptic, "r", "ES256"),
        sign(SERVICE_CLAIMS, rsa_key, "e", "RS256"),
        sign(SERVICE_CLAIMS, rsa_key, "r", "PS256"),
        sign(SERVICE_CLAIMS, ec_key(), "e", "ES256"),
    ):
        assert (await refusal(verifier, token)).reason is Reason.UNAUTHENTICATED


async def test_public_key_used_as_an_hmac_secret_is_refused(tmp_path: Path, clock: FakeClock) -> None:
    key = ec_key()
    (tmp_path / "jwks.json").write_bytes(jwks(public_jwk(key)))
    verifier = JwtIdentityVerifier.from_file(write_identity(tmp_path, [jwks_issuer(jwksFile="jwks.json")]), clock)
    public = key.public_key()
    for secret in (
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
        json.dumps(public_jwk(key)).encode(),
    ):
        # PyJWT refuses to sign with such a secret, so that the signature is made by hand.
        forged = sign_by_hand({"alg": "HS256", "kid": "k1"}, SERVICE_CLAIMS, secret)
        assert (await refusal(verifier, forged)).reason is Reason.UNAUTHENTICATED


async def test_jwks_url_is_read_at_the_first_token(tmp_path: Path, clock: FakeClock, jwks_server: JwksServer) -> None:
    key = ec_key()
    jwks_server.body = jwks(public_jwk(key))
    path = write_identity(tmp_path, [jwks_issuer(jwksUrl=jwks_server.url)])
    verifier = JwtIdentityVerifier.from_file(path, clock)
    assert jwks_server.requests == []
    assert await verifier.verify(sign(SERVICE_CLAIMS, key, alg="ES256"))
    assert jwks_server.requests == ["/jwks?tenant=1"]
    await verifier.aclose()


async def test_jwks_url_that_never_answered_makes_the_caller_try_again(
    tmp_path: Path, clock: FakeClock, jwks_server: JwksServer
) -> None:
    jwks_server.status = 500
    verifier = JwtIdentityVerifier.from_file(write_identity(tmp_path, [jwks_issuer(jwksUrl=jwks_server.url)]), clock)
    assert (await refusal(verifier, sign(SERVICE_CLAIMS, ec_key(), alg="ES256"))).reason is Reason.UNAVAILABLE
