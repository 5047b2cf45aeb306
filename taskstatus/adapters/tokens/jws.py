"""Opening a signed token: an unverified look for the key's address, then the check by PyJWT with that key alone."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from taskstatus.adapters.tokens.errors import RejectedTokenError
from taskstatus.adapters.tokens.keys import MAX_KID_CHARS, VerificationKey

MAX_TOKEN_CHARS = 16 * 1024

_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
# The service's Clock judges times (claims.py), so that PyJWT's own reading of the clock is switched off.
_OPTIONS: jwt.types.Options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}


@dataclass(frozen=True, slots=True)
class KeyAddress:
    """Which key a token claims to be signed with. Unverified: good for choosing the key and for nothing else."""

    issuer: str
    kid: str


def read_key_address(token: str) -> KeyAddress:
    """The (iss, kid) that a token names.

    Raises RejectedTokenError, for header parameters that change how a token is read (``crit``, ``b64``) too, and
    ValueError or RecursionError for content that is no JSON.
    """
    if len(token) > MAX_TOKEN_CHARS:
        raise RejectedTokenError("token too long")
    parts = _COMPACT.fullmatch(token)
    if parts is None:
        raise RejectedTokenError("not a compact JWS")
    header = _json_object(parts[1])
    if "crit" in header or "b64" in header:
        raise RejectedTokenError("header extension")
    kid, issuer = header.get("kid"), _json_object(parts[2]).get("iss")
    if not isinstance(kid, str) or not isinstance(issuer, str) or not 1 <= len(kid) <= MAX_KID_CHARS:
        raise RejectedTokenError("no kid or issuer")
    return KeyAddress(issuer, kid)


def verified_claims(
    token: str, key: VerificationKey, *, issuer: str, audience: str, required: Sequence[str]
) -> dict[str, Any]:
    """The claims of a token that this key signed, with this issuer and audience; times are not judged.

    Raises a PyJWTError (or, for hostile content, another Exception) when anything is wrong.
    """
    claims: dict[str, Any] = jwt.decode(
        token,
        key=key.jwk,
        algorithms=[key.algorithm],
        options={**_OPTIONS, "require": list(required)},
        audience=audience,
        issuer=issuer,
    )
    return claims


def _json_object(segment: str) -> dict[str, Any]:
    parsed = json.loads(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))
    if not isinstance(parsed, dict):
        raise RejectedTokenError("not a JSON object")
    return parsed
