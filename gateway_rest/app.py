"""The REST application, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry import trace
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from gateway_rest.endpoint import EndpointLimits, RestEndpoint
from gateway_rest.entity_tags import ETAG
from gateway_rest.headers import SecurityHeaders
from gateway_rest.pages import fixed_pages
from gateway_rest.request_message import IDEMPOTENCY_KEY, IF_MATCH
from gateway_rest.routes import RouteTable, load_bindings, stub_files
from gateway_rest.tracing import TRACER_NAME
from taskstatus.application.ports_clock import Clock
from taskstatus.entrypoints.wire.call import Dispatch


@dataclass(frozen=True, slots=True)
class RestSettings:
    """What an operator may set."""

    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call, such as ``https://board.example``; none by default."""
    max_body_bytes: int = 1024 * 1024
    request_timeout_seconds: float = 30.0


def create_app(
    dispatch: Dispatch,
    clock: Clock,
    readiness: Callable[[], bool],
    settings: RestSettings,
    tracer_provider: trace.TracerProvider | None = None,
) -> Starlette:
    """The application over one dispatch; the process's own tracer provider unless one is given."""
    routes = RouteTable(load_bindings(stub_files()))
    endpoint = RestEndpoint(
        dispatch,
        clock,
        routes,
        fixed_pages(readiness),
        EndpointLimits(settings.max_body_bytes, settings.request_timeout_seconds),
        trace.get_tracer(TRACER_NAME, tracer_provider=tracer_provider),
    )
    app = Starlette(middleware=_middleware(settings, routes))
    # No route of Starlette's own: its patterns match the decoded path, and a line feed in it would be nobody's.
    app.router.default = endpoint
    return app


def _middleware(settings: RestSettings, routes: RouteTable) -> list[Middleware]:
    cors = Middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_methods=sorted({binding.http_method for binding in routes.bindings} | {"HEAD"}),
        allow_headers=["Authorization", "Content-Type", IDEMPOTENCY_KEY, IF_MATCH, "traceparent", "tracestate"],
        expose_headers=["Retry-After", "Allow", ETAG],
    )
    return [Middleware(SecurityHeaders), cors]
