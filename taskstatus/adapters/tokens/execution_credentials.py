"""Execution tokens and handles (port ``ExecutionCredentials``; R-4, R-11): issued and checked without storage."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import jwt

from taskstatus.adapters.tokens import execution_handles, execution_tokens
from taskstatus.adapters.tokens.errors import RejectedTokenError
from taskstatus.adapters.tokens.execution_keys import ExecutionKeyRing, load_execution_keys
from taskstatus.adapters.tokens.execution_tokens import EXECUTION_AUDIENCE, EXECUTION_CLAIMS, SERVICE_ISSUER
from taskstatus.adapters.tokens.jws import MAX_TOKEN_CHARS, read_key_address, verified_claims
from taskstatus.adapters.tokens.lru import LruCache
from taskstatus.application.identity import ExecutionBinding, ExecutionGrant, HandleClaim
from taskstatus.application.ports_clock import Clock
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

TOKEN_TTL_SECONDS = 900
CACHE_ENTRIES = 20_000

_logger = logging.getLogger(__name__)
_ResultT = TypeVar("_ResultT")


class JwtExecutionCredentials:
    """Signs with the active key, verifies with every key of the ring; one per process, on one event loop.

    Opened tokens are remembered under the SHA-256 of the whole token, handles under their whole text. That never goes
    stale: they say what they bind, and expiry and generation are judged at each use.
    """

    def __init__(
        self,
        keys: ExecutionKeyRing,
        clock: Clock,
        *,
        token_ttl_seconds: int = TOKEN_TTL_SECONDS,
        cache_entries: int = CACHE_ENTRIES,
    ) -> None:
        if token_ttl_seconds < 1:
            raise ValueError("token_ttl_seconds must be at least 1")
        self._keys = keys
        self._clock = clock
        self._ttl = token_ttl_seconds
        self._opened: LruCache[bytes, ExecutionGrant] = LruCache(cache_entries)
        self._opened_handles: LruCache[str, HandleClaim] = LruCache(cache_entries)

    @classmethod
    def from_file(
        cls, path: Path, clock: Clock, *, token_ttl_seconds: int = TOKEN_TTL_SECONDS
    ) -> JwtExecutionCredentials:
        """Credentials of an execution keys file. Raises CredentialConfigError that names the file and the field."""
        return cls(load_execution_keys(path), clock, token_ttl_seconds=token_ttl_seconds)

    def issue_token(self, binding: ExecutionBinding, generation: int) -> tuple[str, float]:
        """A new execution token and its expiry in Unix seconds."""
        issued_at = int(self._clock.unix_seconds())
        expires_at = issued_at + self._ttl
        claims = execution_tokens.to_claims(binding, generation, issued_at, expires_at)
        key = self._keys.active.token_key
        token = jwt.encode(claims, key.jwk.key, algorithm=key.algorithm, headers={"kid": key.kid})
        return token, float(expires_at)

    def make_handle(self, binding: ExecutionBinding, generation: int) -> str:
        """The handle ``exh_…`` of this execution and generation."""
        return execution_handles.make_handle(self._keys.active, binding.execution_id, generation)

    def open_token(self, token: str) -> ExecutionGrant:
        """What a genuine token binds, expired or not. Raises RefusedError UNAUTHENTICATED for a forged one."""
        return _or_unauthenticated(self._open_token, token)

    def open_handle(self, handle: str) -> HandleClaim:
        """What a genuine handle names. Raises RefusedError UNAUTHENTICATED for a forged one."""
        claim = self._opened_handles.get(handle)
        if claim is None:
            claim = _or_unauthenticated(lambda text: execution_handles.open_handle(self._keys, text), handle)
            self._opened_handles.put(handle, claim)
        return claim

    def _open_token(self, token: str) -> ExecutionGrant:
        if len(token) > MAX_TOKEN_CHARS:
            raise RejectedTokenError("token too long")
        digest = hashlib.sha256(token.encode()).digest()
        grant = self._opened.get(digest)
        if grant is None:
            grant = self._check(token)
            self._opened.put(digest, grant)
        return grant

    def _check(self, token: str) -> ExecutionGrant:
        key = self._keys.by_kid.get(read_key_address(token).kid)
        if key is None:
            raise RejectedTokenError("unknown kid")
        claims = verified_claims(
            token, key.token_key, issuer=SERVICE_ISSUER, audience=EXECUTION_AUDIENCE, required=EXECUTION_CLAIMS
        )
        return execution_tokens.to_grant(claims)


def _or_unauthenticated(opener: Callable[[str], _ResultT], text: str) -> _ResultT:
    try:
        return opener(text)
    except Exception as error:  # noqa: BLE001 - whatever hostile input makes a library raise, it is not genuine
        label = str(error) if isinstance(error, RejectedTokenError) else type(error).__name__
        _logger.info("execution credential refused: %s", label)
        raise RefusedError(Reason.UNAUTHENTICATED, "The execution credential is missing or not genuine.") from None
