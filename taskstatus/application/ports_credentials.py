"""Ports for credentials: who calls, what an execution's token or handle says, and tokens for browsers."""

from __future__ import annotations

from typing import Protocol

from taskstatus.application.identity import ExecutionBinding, ExecutionGrant, HandleClaim, Identity


class IdentityVerifier(Protocol):
    """Verifies the bearer JWT of a service or a person."""

    async def verify(self, bearer_token: str) -> Identity:
        """The identity of a genuine, unexpired token.

        Raises RefusedError UNAUTHENTICATED (missing, forged, wrong issuer or audience, malformed) or TOKEN_EXPIRED.
        """
        ...


class ExecutionCredentials(Protocol):
    """Issues and checks execution tokens and handles; needs no storage (architecture.md, *Ids*)."""

    def issue_token(self, binding: ExecutionBinding, generation: int) -> tuple[str, float]:
        """A new execution token and its expiry in Unix seconds."""
        ...

    def make_handle(self, binding: ExecutionBinding, generation: int) -> str:
        """The opaque handle, ``exh_…``; the same arguments give an equally good handle at any time."""
        ...

    def open_token(self, token: str) -> ExecutionGrant:
        """What a genuine token binds, expired or not. Raises RefusedError UNAUTHENTICATED for a forged one."""
        ...

    def open_handle(self, handle: str) -> HandleClaim:
        """What a genuine handle names. Raises RefusedError UNAUTHENTICATED for a forged one."""
        ...


class RealtimeTokens(Protocol):
    """Signs the short tokens with which a browser connects and subscribes (A-1, A-2); keys never leave the service."""

    def connection_token(self, user: str, channels: list[str]) -> tuple[str, float]:
        """A connection JWT for ``{tenant}/{user}`` with its server-side channels, and its expiry in Unix seconds."""
        ...

    def subscription_token(self, user: str, channel: str) -> tuple[str, float]:
        """A subscription JWT for one user and one channel, and its expiry in Unix seconds."""
        ...
