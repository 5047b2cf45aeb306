"""Where an issuer's keys come from: fixed ones, or a JWK Set that is read again (file or URL).

A refreshing set has one load in flight at most. It is started when the keys have grown old (callers go on with the
keys at hand) or when a kid is unknown (its callers wait for it), and never more often than the retry interval, so that
forged kids cannot make this process hammer an identity provider. A failed load keeps the keys of the last good one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.adapters.tokens.keys import KeyMap, VerificationKey
from taskstatus.application.ports_clock import Clock
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason

REFRESH_AFTER_SECONDS = 300.0
RETRY_AFTER_SECONDS = 10.0
WAIT_SECONDS = 5.0

_logger = logging.getLogger(__name__)


class KeySet(Protocol):
    """The keys of one issuer."""

    @property
    def epoch(self) -> int:
        """A number that changes whenever the keys do; what was verified under another epoch must be verified again."""
        ...

    async def find(self, kid: str) -> VerificationKey | None:
        """The key of a kid, or None. Raises RefusedError UNAVAILABLE when no keys could be loaded so far."""
        ...

    async def aclose(self) -> None:
        """Wait for a load in flight."""
        ...


class FixedKeySet:
    """Keys that change by a restart only."""

    epoch = 0

    def __init__(self, keys: KeyMap) -> None:
        self._keys = dict(keys)

    async def find(self, kid: str) -> VerificationKey | None:
        """The key of a kid, or None."""
        return self._keys.get(kid)

    async def aclose(self) -> None:
        """Nothing is in flight."""


class RefreshingKeySet:
    """Keys that a blocking ``load`` gives; it runs in a thread and raises ValueError, OSError or a config error."""

    def __init__(
        self,
        load: Callable[[], KeyMap],
        clock: Clock,
        *,
        name: str,
        initial: KeyMap | None = None,
        refresh_after_seconds: float = REFRESH_AFTER_SECONDS,
        retry_after_seconds: float = RETRY_AFTER_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._load = load
        self._clock = clock
        self._name = name
        self._keys: KeyMap = dict(initial or {})
        self._epoch = 0
        self._refresh_after = refresh_after_seconds
        self._retry_after = retry_after_seconds
        self._wait = wait_seconds
        self._loaded_at = clock.monotonic_seconds() if initial else None
        self._tried_at: float | None = None
        self._loading: asyncio.Task[None] | None = None

    @property
    def epoch(self) -> int:
        """Rises with each load that brought other keys."""
        return self._epoch

    async def find(self, kid: str) -> VerificationKey | None:
        """The key of a kid, or None. Raises RefusedError UNAVAILABLE when no load has succeeded so far."""
        if self._is_old():
            self._start_loading()
        key = self._keys.get(kid)
        if key is None:
            await self.refresh()
            key = self._keys.get(kid)
        if self._loaded_at is None:
            raise RefusedError(Reason.UNAVAILABLE, "The caller's credential cannot be checked at the moment.")
        return key

    async def refresh(self) -> None:
        """Load again, unless the last try is too recent; join a load in flight. Failures are logged, not raised."""
        self._start_loading()
        if self._loading is not None:
            # asyncio.wait leaves the shared load alone when this caller is cancelled or runs out of time.
            await asyncio.wait({self._loading}, timeout=self._wait)

    async def aclose(self) -> None:
        """Wait for a load in flight; its own time-outs bound it."""
        if self._loading is not None:
            await asyncio.wait({self._loading})

    def _is_old(self) -> bool:
        return self._loaded_at is not None and (
            self._clock.monotonic_seconds() - self._loaded_at >= self._refresh_after
        )

    def _start_loading(self) -> None:
        now = self._clock.monotonic_seconds()
        if self._loading is not None or (self._tried_at is not None and now - self._tried_at < self._retry_after):
            return
        self._tried_at = now
        self._loading = asyncio.create_task(self._run_load(), name=f"keys of {self._name}")

    async def _run_load(self) -> None:
        try:
            self._replace(await asyncio.to_thread(self._load))
        except (ValueError, OSError, CredentialConfigError) as error:
            _logger.warning("keys of issuer %s could not be loaded: %s", self._name, error)
        except Exception:
            _logger.exception("keys of issuer %s could not be loaded", self._name)
        finally:
            self._loading = None

    def _replace(self, keys: KeyMap) -> None:
        self._loaded_at = self._clock.monotonic_seconds()
        if keys != self._keys:
            self._keys = dict(keys)
            self._epoch += 1
