"""From any transport to a handler: authenticate, check access, serve, and map passing faults (E-2, T-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from google.protobuf.message import Message

from taskstatus.application.access import check_access
from taskstatus.application.identity import Identity
from taskstatus.application.ports_clock import Clock
from taskstatus.application.ports_credentials import IdentityVerifier
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.wire.call import CallInfo, Handler
from taskstatus.entrypoints.wire.handlers import missing_bearer

UNAVAILABLE_RETRY_SECONDS = 1.0
OK = "OK"


class CallObserver(Protocol):
    """What is measured of every call, whatever the transport (N-3)."""

    def call_ended(self, transport: str, method: str, status: str, seconds: float) -> None:
        """One call was answered with ``OK``, a reason, or INTERNAL."""
        ...


class Authenticate(Protocol):
    """Who calls, and whether they may; for transports that do not go through the dispatcher."""

    async def __call__(self, method: str, call: CallInfo) -> Identity:
        """The verified caller of ``taskstatus.v1.<Service>/<Method>``. Raises RefusedError."""
        ...


class Dispatcher:
    """The port ``Dispatch`` over the handlers of one service."""

    def __init__(
        self, verifier: IdentityVerifier, handlers: Mapping[str, Handler], clock: Clock, observer: CallObserver
    ) -> None:
        self._verifier = verifier
        self._handlers = handlers
        self._clock = clock
        self._observer = observer

    async def __call__(self, method: str, request: Message, call: CallInfo) -> Message:
        """See the port."""
        status: str = Reason.INTERNAL
        try:
            response = await self._serve(method, request, call)
            status = OK
            return response
        except RefusedError as refusal:
            status = refusal.reason
            raise
        finally:
            seconds = self._clock.monotonic_seconds() - call.received_monotonic
            self._observer.call_ended(call.transport, method, status, seconds)

    async def authenticate(self, method: str, call: CallInfo) -> Identity:
        """The verified caller, who may use the method. Raises RefusedError."""
        if not call.bearer_token:
            raise missing_bearer()
        identity = await self._verifier.verify(call.bearer_token)
        check_access(method, identity)
        return identity

    async def _serve(self, method: str, request: Message, call: CallInfo) -> Message:
        identity = await self.authenticate(method, call)
        try:
            return await self._handlers[method](request, identity, call)
        except StoreUnavailableError as error:
            raise RefusedError(
                Reason.UNAVAILABLE,
                "the store cannot be reached now; send the same request again",
                retry_after_seconds=UNAVAILABLE_RETRY_SECONDS,
            ) from error
