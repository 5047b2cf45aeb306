"""Keys, files, tokens and a clock for the tests of credentials."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from taskstatus.application.identity import ExecutionBinding
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, make_id

NOW = 1_800_000_000.0
SERVICES = "https://services.example.test"
PEOPLE = "https://people.example.test"
AUDIENCE = "taskstatus"
SERVICE_SECRET = b"service-secret-of-the-tests-0123"
PEOPLE_SECRET = b"people-secret-of-the-tests-45678"

SERVICE_CLAIMS: Mapping[str, Any] = {
    "iss": SERVICES,
    "aud": AUDIENCE,
    "sub": "svc-parser",
    "iat": int(NOW) - 10,
    "exp": int(NOW) + 600,
    "tenant_id": "t-01",
    "authority_scope": "documents",
    "producer_id": "parser",
    "roles": ["worker"],
}
PERSON_CLAIMS: Mapping[str, Any] = {
    "iss": PEOPLE,
    "aud": AUDIENCE,
    "sub": "auth0|u-88",
    "iat": int(NOW) - 10,
    "exp": int(NOW) + 600,
    "tenant_id": "t-01",
    "projects": ["p-1", "p-2"],
    "roles": ["editor"],
}

BINDING = ExecutionBinding(
    tenant_id="t-01",
    authority_scope="documents",
    workflow_id=WorkflowId(make_id(1_700_000_000_000, 3335, 1)),
    task_id=TaskId(make_id(1_700_000_000_000, 3335, 2)),
    task_attempt=1,
    step_id="02_parse",
    step_attempt=2,
    operation_code="DOCUMENT.PARSE",
    execution_id=ExecutionId(make_id(1_700_000_000_000, 3335, 3)),
    producer_id="parser",
)


@dataclass
class FakeClock:
    """Moves only when told to."""

    unix: float = NOW
    monotonic: float = 1000.0

    def unix_seconds(self) -> float:
        return self.unix

    def monotonic_seconds(self) -> float:
        return self.monotonic

    def advance(self, seconds: float) -> None:
        self.unix += seconds
        self.monotonic += seconds


@dataclass
class SteppingClock:
    """Each reading of the monotonic clock is a step later than the one before."""

    step: float
    monotonic: float = field(default=0.0)

    def unix_seconds(self) -> float:
        return NOW

    def monotonic_seconds(self) -> float:
        self.monotonic += self.step
        return self.monotonic


def sign(
    claims: Mapping[str, Any], secret: Any = SERVICE_SECRET, kid: str | None = "k1", alg: str = "HS256", **header: Any
) -> str:
    """A JWT with these claims and header fields."""
    fields = {**({"kid": kid} if kid is not None else {}), **header}
    return jwt.encode(dict(claims), secret, algorithm=alg, headers=fields)


def compact(header: object, payload: object, signature: bytes = b"x" * 32) -> str:
    """A token of any header and payload, with a signature of no worth."""
    parts = (json.dumps(header).encode(), json.dumps(payload).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def sign_by_hand(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes) -> str:
    """An HS256 token with header fields and secrets that PyJWT would refuse to sign with."""
    signing_input = compact(dict(header), dict(claims)).rpartition(".")[0]
    signature = hmac.digest(secret, signing_input.encode(), "sha256")
    return f"{signing_input}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def secrets_issuer(issuer: str, secret_file: str, kid: str = "k1") -> dict[str, Any]:
    """An HS256 issuer of an identity file."""
    keys = [{"kid": kid, "secretFile": secret_file}]
    return {"issuer": issuer, "audience": AUDIENCE, "algorithms": ["HS256"], "keys": keys}


def write_identity(
    directory: Path, services: list[dict[str, Any]] | None = None, people: list[dict[str, Any]] | None = None
) -> Path:
    """An identity file and the two secrets; by default one HS256 issuer each, both with kid ``k1``."""
    (directory / "services.key").write_bytes(SERVICE_SECRET + b"\n")
    (directory / "people.key").write_bytes(PEOPLE_SECRET)
    document = {
        "services": [secrets_issuer(SERVICES, "services.key")] if services is None else services,
        "people": [secrets_issuer(PEOPLE, "people.key")] if people is None else people,
    }
    path = directory / "identity.json"
    path.write_text(json.dumps(document))
    return path


def ec_key() -> EllipticCurvePrivateKey:
    """A new P-256 key."""
    return generate_private_key(SECP256R1())


def public_jwk(key: EllipticCurvePrivateKey | RSAPrivateKey, kid: str = "k1", **fields: Any) -> dict[str, Any]:
    """The public half as a JWK."""
    if isinstance(key, EllipticCurvePrivateKey):
        jwk = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        jwk = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    jwk.pop("key_ops", None)
    return {**jwk, "kid": kid, **fields}


def jwks(*keys: dict[str, Any]) -> bytes:
    """A JWK Set document."""
    return json.dumps({"keys": list(keys)}).encode()
