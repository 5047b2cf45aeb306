"""What a transport knows about one call besides its message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from google.protobuf.message import Message

from taskstatus.domain.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallInfo:
    """Filled by the transport at receipt."""

    transport: str
    """``grpc`` or ``rest``; a label of metrics."""
    bearer_token: str | None
    """The JWT of ``authorization: Bearer …``; never logged."""
    traceparent: str
    """W3C trace context of the span that serves this call; empty when none."""
    received_monotonic: float
    """This process's monotonic clock at receipt, in seconds."""
    received_unix: float
    """This process's wall clock at receipt, in seconds."""


Handler = Callable[[Any, Any, CallInfo], Awaitable[Message]]
"""(request, verified identity of the kind that the access matrix admits, call) → response."""


class Dispatch(Protocol):
    """Serves one call of any method, the same for every transport."""

    async def __call__(self, method: str, request: Message, call: CallInfo) -> Message:
        """The response of ``taskstatus.v1.<Service>/<Method>``.

        Raises RefusedError for everything that the caller is told; any other exception is a fault of the service.
        """
        ...
