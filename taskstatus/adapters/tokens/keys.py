"""Verification keys and JWK Sets. Each key has exactly one algorithm, given by its material, never by a token."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

HS256 = "HS256"
ES256 = "ES256"
RS256 = "RS256"

MIN_RSA_BITS = 2048
MAX_KID_CHARS = 128

_MATERIAL_FIELDS = ("kty", "crv", "x", "y", "n", "e", "k")


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key of one issuer; ``fingerprint`` tells whether a key under the same kid was replaced."""

    kid: str
    algorithm: str
    jwk: PyJWK = field(repr=False, compare=False)
    fingerprint: bytes = field(repr=False)


KeyMap = Mapping[str, VerificationKey]
"""The keys of one issuer by kid."""


def secret_key(kid: str, secret: bytes) -> VerificationKey:
    """An HS256 key. Raises ValueError for a secret that is really a public key, certificate or JWK."""
    encoded = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    key = _key(kid, HS256, {"kty": "oct", "k": encoded})
    try:
        key.jwk.Algorithm.prepare_key(secret)
    except PyJWTError:
        raise ValueError("looks like a public key or a JWK, not like a secret") from None
    return key


def parse_jwks(document: bytes, algorithms: Collection[str]) -> KeyMap:
    """The usable public keys of a JWK Set; others (encryption, other algorithms, private or weak ones) are passed over.

    Raises ValueError when the document is no JWK Set, names a kid twice, or has no usable key: an empty answer is a
    fault of the publisher, not a reason to lock every caller out.
    """
    keys: dict[str, VerificationKey] = {}
    for entry in _entries(document):
        key = _public_key(entry, algorithms)
        if key is None:
            continue
        if key.kid in keys:
            raise ValueError("the JWK Set names a kid twice")
        keys[key.kid] = key
    if not keys:
        raise ValueError(f"the JWK Set has no usable key for {', '.join(sorted(algorithms))}")
    return keys


def _entries(document: bytes) -> list[dict[str, Any]]:
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    match parsed:
        case {"keys": [*entries]}:
            return [entry for entry in entries if isinstance(entry, dict)]
        case _:
            raise ValueError("is not a JWK Set")


def _public_key(entry: dict[str, Any], algorithms: Collection[str]) -> VerificationKey | None:
    kid = entry.get("kid")
    algorithm = _algorithm_of(entry)
    if not isinstance(kid, str) or not 1 <= len(kid) <= MAX_KID_CHARS or algorithm not in algorithms:
        return None
    if not _is_for_verifying(entry, algorithm):
        return None
    try:
        key = _key(kid, algorithm, {name: entry[name] for name in _MATERIAL_FIELDS if name in entry})
    except (PyJWTError, ValueError, TypeError):
        return None
    material = key.jwk.key
    is_weak = isinstance(material, RSAPublicKey) and material.key_size < MIN_RSA_BITS
    return None if is_weak else key


def _algorithm_of(entry: dict[str, Any]) -> str:
    if entry.get("kty") == "EC" and entry.get("crv") == "P-256":
        return ES256
    return RS256 if entry.get("kty") == "RSA" else ""


def _is_for_verifying(entry: dict[str, Any], algorithm: str) -> bool:
    operations = entry.get("key_ops", ["verify"])
    return (
        "d" not in entry
        and entry.get("use", "sig") == "sig"
        and entry.get("alg", algorithm) == algorithm
        and isinstance(operations, list)
        and "verify" in operations
    )


def _key(kid: str, algorithm: str, material: dict[str, Any]) -> VerificationKey:
    fingerprint = hashlib.sha256(json.dumps(material, sort_keys=True).encode()).digest()
    return VerificationKey(kid, algorithm, PyJWK(material, algorithm=algorithm), fingerprint)
