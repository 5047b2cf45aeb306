"""The bearer JWT of a service or a person → a verified identity (port ``IdentityVerifier``; issue 3 point 4, ID-1)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskstatus.adapters.tokens.claims import (
    PERSON_CLAIMS,
    SERVICE_CLAIMS,
    check_times,
    service_identity,
    user_identity,
)
from taskstatus.adapters.tokens.errors import ExpiredTokenError, RejectedTokenError
from taskstatus.adapters.tokens.identity_file import IssuerKind, TrustedIssuer, load_issuers
from taskstatus.adapters.tokens.jws import MAX_TOKEN_CHARS, read_key_address, verified_claims
from taskstatus.adapters.tokens.key_sets import KeySet
from taskstatus.adapters.tokens.lru import LruCache
from taskstatus.application.identity import Identity
from taskstatus.application.ports_clock import Clock
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

CACHE_ENTRIES = 10_000
CACHE_SECONDS = 60.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Verified:
    identity: Identity
    keys: KeySet
    epoch: int
    recheck_at: float
    """Monotonic seconds."""


class JwtIdentityVerifier:
    """Verifies tokens with the keys of their issuer; one per process, on one event loop.

    A verified token is remembered under the SHA-256 of the whole token, until the first of: its ``exp``, the cache
    period, a change of the issuer's keys. Refusals are never remembered.
    """

    def __init__(
        self,
        issuers: Mapping[str, TrustedIssuer],
        clock: Clock,
        *,
        cache_entries: int = CACHE_ENTRIES,
        cache_seconds: float = CACHE_SECONDS,
    ) -> None:
        self._issuers = dict(issuers)
        self._clock = clock
        self._cache_seconds = cache_seconds
        self._cache: LruCache[bytes, _Verified] = LruCache(cache_entries)

    @classmethod
    def from_file(cls, path: Path, clock: Clock) -> JwtIdentityVerifier:
        """A verifier of an identity file. Raises CredentialConfigError that names the file and the field."""
        return cls(load_issuers(path, clock), clock)

    async def verify(self, bearer_token: str) -> Identity:
        """The identity of a genuine, unexpired token (the JWT alone, without ``Bearer``).

        Raises RefusedError UNAUTHENTICATED, or TOKEN_EXPIRED for a token that is genuine but for its ``exp``, or
        UNAVAILABLE while no key of the issuer could be loaded so far.
        """
        try:
            return await self._verify(bearer_token)
        except RefusedError:
            raise
        except ExpiredTokenError:
            raise RefusedError(Reason.TOKEN_EXPIRED, "The caller's credential has expired.") from None
        except Exception as error:  # noqa: BLE001 - whatever hostile input makes a library raise, it is no known caller
            _logger.info("identity token refused: %s", _label(error))
            raise RefusedError(Reason.UNAUTHENTICATED, "The caller's credential is missing or not valid.") from None

    async def aclose(self) -> None:
        """Wait for key loads in flight."""
        for issuer in self._issuers.values():
            await issuer.keys.aclose()

    async def _verify(self, token: str) -> Identity:
        if len(token) > MAX_TOKEN_CHARS:
            raise RejectedTokenError("token too long")
        digest = hashlib.sha256(token.encode()).digest()
        return self._recall(digest) or await self._check(token, digest)

    def _recall(self, digest: bytes) -> Identity | None:
        found = self._cache.get(digest)
        if found is None:
            return None
        is_good = (
            found.epoch == found.keys.epoch
            and self._clock.monotonic_seconds() < found.recheck_at
            and self._clock.unix_seconds() < found.identity.expires_at
        )
        if is_good:
            return found.identity
        self._cache.drop(digest)
        return None

    async def _check(self, token: str, digest: bytes) -> Identity:
        address = read_key_address(token)
        issuer = self._issuers.get(address.issuer)
        if issuer is None:
            raise RejectedTokenError("unknown issuer")
        key = await issuer.keys.find(address.kid)
        if key is None:
            raise RejectedTokenError("unknown kid")
        epoch = issuer.keys.epoch
        required = SERVICE_CLAIMS if issuer.kind is IssuerKind.SERVICE else PERSON_CLAIMS
        claims = verified_claims(token, key, issuer=issuer.issuer, audience=issuer.audience, required=required)
        identity = _identity(issuer.kind, claims)
        check_times(claims, self._clock.unix_seconds())
        recheck_at = self._clock.monotonic_seconds() + self._cache_seconds
        self._cache.put(digest, _Verified(identity, issuer.keys, epoch, recheck_at))
        return identity


def _identity(kind: IssuerKind, claims: Mapping[str, Any]) -> Identity:
    return service_identity(claims) if kind is IssuerKind.SERVICE else user_identity(claims)


def _label(error: Exception) -> str:
    return str(error) if isinstance(error, RejectedTokenError) else type(error).__name__
