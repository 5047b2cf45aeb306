"""How the servicers of the fake answer a call: what they share with the server that holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import grpc.aio
from google.protobuf.message import Message

Context = grpc.aio.ServicerContext[Any, Any]
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class Serve(Protocol):
    """Notes the call, applies the next fault, and answers with ``work(producer, request)``."""

    async def __call__(
        self, request: Request, context: Context, work: Callable[[str, Request], Response]
    ) -> Response: ...
