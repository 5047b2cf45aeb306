"""Connection and subscription tokens for browsers (A-1, A-2, A-4): ES256, five minutes at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.adapters.tokens.execution_tokens import SERVICE_ISSUER
from taskstatus.adapters.tokens.files import read_file
from taskstatus.adapters.tokens.keys import ES256
from taskstatus.application.ports_clock import Clock

CONNECTION_AUDIENCE: Final = "task-realtime"
SUBSCRIPTION_AUDIENCE: Final = "task-realtime-subscription"
MAX_TTL_SECONDS = 300


class EcdsaRealtimeTokens:
    """Signs with a P-256 key whose public half Centrifugo holds. The two kinds differ in audience and in claims."""

    def __init__(
        self, private_key: EllipticCurvePrivateKey, key_id: str, clock: Clock, *, ttl_seconds: int = MAX_TTL_SECONDS
    ) -> None:
        if not 1 <= ttl_seconds <= MAX_TTL_SECONDS:
            raise ValueError(f"ttl_seconds must be 1 to {MAX_TTL_SECONDS}")
        if not key_id:
            raise ValueError("key_id must not be empty")
        self._private_key = private_key
        self._key_id = key_id
        self._clock = clock
        self._ttl = ttl_seconds

    @classmethod
    def from_file(
        cls, path: Path, key_id: str, clock: Clock, *, ttl_seconds: int = MAX_TTL_SECONDS
    ) -> EcdsaRealtimeTokens:
        """Tokens signed with the key of a PEM file. Raises CredentialConfigError that names the file."""
        return cls(load_private_key(path), key_id, clock, ttl_seconds=ttl_seconds)

    def connection_token(self, user: str, channels: list[str]) -> tuple[str, float]:
        """A connection JWT and its expiry in Unix seconds.

        ``user`` is ``{tenant}/{user}`` with both parts percent-encoded; ValueError unless it has just one slash, since
        two readings of one ``sub`` would be one person's session in another's hands.
        """
        return self._sign(user, CONNECTION_AUDIENCE, {"channels": list(channels)})

    def subscription_token(self, user: str, channel: str) -> tuple[str, float]:
        """A subscription JWT for one user and one channel, and its expiry in Unix seconds; ``user`` as above."""
        if not channel:
            raise ValueError("channel must not be empty")
        return self._sign(user, SUBSCRIPTION_AUDIENCE, {"channel": channel})

    def _sign(self, user: str, audience: str, extra: dict[str, Any]) -> tuple[str, float]:
        tenant, slash, person = user.partition("/")
        if not (tenant and slash and person) or "/" in person:
            raise ValueError("user must be tenant/user with both parts percent-encoded")
        issued_at = int(self._clock.unix_seconds())
        expires_at = issued_at + self._ttl
        claims = {"iss": SERVICE_ISSUER, "aud": audience, "sub": user, "iat": issued_at, "exp": expires_at, **extra}
        token = jwt.encode(claims, self._private_key, algorithm=ES256, headers={"kid": self._key_id})
        return token, float(expires_at)


def load_private_key(path: Path) -> EllipticCurvePrivateKey:
    """The P-256 private key of an unencrypted PEM file. Raises CredentialConfigError that names the file."""
    content = read_file(path)
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CredentialConfigError(f"{path}: is not an unencrypted private key in PEM form") from None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise CredentialConfigError(f"{path}: is not a P-256 (prime256v1) private key")
    return key


def public_key_pem(private_key: EllipticCurvePrivateKey) -> bytes:
    """The public half in PEM form, as Centrifugo's ``client.token.ecdsa_public_key`` wants it."""
    return private_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
