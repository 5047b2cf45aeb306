"""The one endpoint behind every route: find the method, build its message, dispatch, answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

from opentelemetry import trace
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway_rest.entity_tags import ETAG, entity_tag
from gateway_rest.intake import bearer_token, read_body
from gateway_rest.json_output import encode_message
from gateway_rest.pages import Page
from gateway_rest.problems import (
    HttpProblemError,
    http_problem_response,
    internal_fault,
    refusal_response,
)
from gateway_rest.request_message import IDEMPOTENCY_KEY, IF_MATCH, build_request
from gateway_rest.routes import Match, OtherMethods, RouteTable
from gateway_rest.tracing import RequestSpan, request_span
from taskstatus.application.ports_clock import Clock
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.wire.call import CallInfo, Dispatch

LARGE_BYTES: Final = 32 * 1024
"""More than one event may have; some milliseconds of conversion."""

P = ParamSpec("P")
T = TypeVar("T")

_logger = logging.getLogger("taskstatus.rest")


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """What one request may take."""

    max_body_bytes: int
    timeout_seconds: float
    """From receipt to answer; past it the caller is told UNAVAILABLE, whatever still becomes of the command."""


@dataclass(frozen=True, slots=True)
class RestEndpoint:
    """ASGI application that serves the proto routes and the fixed pages."""

    dispatch: Dispatch
    clock: Clock
    routes: RouteTable
    pages: Mapping[str, Page]
    limits: EndpointLimits
    tracer: trace.Tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; nothing is sent to a client that has gone."""
        try:
            response = await self._respond(scope, receive)
        except ClientDisconnect:
            return
        if scope["method"] == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        http_method, path = scope["method"], raw_path(scope)
        if (page := self.pages.get(path)) is not None:
            return _page_response(page, http_method)
        found = self.routes.find(http_method, path)
        if not isinstance(found, Match):
            return _unmatched_response(found, http_method)
        return await self._serve(found, scope, receive)

    async def _serve(self, match: Match, scope: Scope, receive: Receive) -> Response:
        started = self.clock.monotonic_seconds()
        unix = self.clock.unix_seconds()
        headers, route = Headers(scope=scope), match.binding.template.text
        with request_span(self.tracer, headers, scope["method"], route) as span:
            response, error = await self._outcome(match, scope, receive, span, (started, unix))
            span.finish(response.status_code, error)
            _logger.info(
                "request served",
                extra={
                    "httpMethod": scope["method"],
                    "route": route,
                    "status": response.status_code,
                    "errorCode": error,
                    "durationMs": round((self.clock.monotonic_seconds() - started) * 1000, 3),
                    "traceId": span.trace_id,
                },
            )
        return response

    async def _outcome(
        self, match: Match, scope: Scope, receive: Receive, span: RequestSpan, received: tuple[float, float]
    ) -> tuple[Response, str]:
        """The response and what it is to be counted under; every exception but a gone client ends here."""
        try:
            return await self._in_time(self._answer(match, scope, receive, span, received)), ""
        except RefusedError as error:
            refusal = error
        except HttpProblemError as error:
            return http_problem_response(error, span.trace_id), f"HTTP_{error.status}"
        except ClientDisconnect:
            raise
        except Exception:
            _logger.exception(
                "a fault of the service", extra={"route": match.binding.template.text, "traceId": span.trace_id}
            )
            refusal = internal_fault()
        return refusal_response(refusal, span.trace_id), refusal.reason.value

    async def _in_time(self, answer: Coroutine[None, None, Response]) -> Response:
        deadline = asyncio.timeout(self.limits.timeout_seconds)
        try:
            async with deadline:
                return await answer
        except TimeoutError:
            # Somebody else's time-out, from inside the service, is a fault and not this one.
            if deadline.expired():
                raise _too_late() from None
            raise

    async def _answer(
        self, match: Match, scope: Scope, receive: Receive, span: RequestSpan, received: tuple[float, float]
    ) -> Response:
        headers = Headers(scope=scope)
        body = await read_body(headers, receive, self.limits.max_body_bytes)
        keys, versions = headers.getlist(IDEMPOTENCY_KEY), headers.getlist(IF_MATCH)
        message = await beside_the_loop(len(body), build_request, match, scope["query_string"], body, keys, versions)
        call = CallInfo("rest", bearer_token(headers), span.traceparent, *received)
        answer = await self.dispatch(match.binding.method, message, call)
        encoded = await beside_the_loop(answer.ByteSize(), encode_message, answer, match.binding.response_body)
        tag = entity_tag(answer)
        return Response(encoded, media_type="application/json", headers=None if tag is None else {ETAG: tag})


async def beside_the_loop(size: int, convert: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Convert in a thread when there is so much of it (bytes) that other requests would have to wait."""
    if size <= LARGE_BYTES:
        return convert(*args, **kwargs)
    return await asyncio.to_thread(convert, *args, **kwargs)


def raw_path(scope: Scope) -> str:
    """The path as sent, percent-encoding kept, so that an encoded slash never becomes a separator."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1")


def _page_response(page: Page, http_method: str) -> Response:
    if http_method in ("GET", "HEAD"):
        return page()
    return _other_methods_response(("GET", "HEAD", "OPTIONS"), http_method)


def _unmatched_response(found: OtherMethods | None, http_method: str) -> Response:
    if found is None:
        return http_problem_response(HttpProblemError(404, "There is no such route."), "")
    return _other_methods_response(found.allowed, http_method)


def _other_methods_response(allowed: tuple[str, ...], http_method: str) -> Response:
    headers = {"Allow": ", ".join(allowed)}
    if http_method == "OPTIONS":
        return Response(status_code=204, headers=headers)
    return http_problem_response(HttpProblemError(405, "This route has other methods.", headers), "")


def _too_late() -> RefusedError:
    return RefusedError(
        Reason.UNAVAILABLE,
        "The answer took too long; the command may still be carried out. Send the same again, with the same id.",
    )
