"""The fixed pages beside the proto routes: liveness, readiness and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import TypeAlias

from starlette.responses import Response

Page: TypeAlias = Callable[[], Response]

OPENAPI_FILE = "openapi.json"


def fixed_pages(readiness: Callable[[], bool]) -> Mapping[str, Page]:
    """The pages by path; ``readiness`` is asked anew at each ``/readyz``."""
    document = files("gateway_rest").joinpath(OPENAPI_FILE).read_bytes()
    return {
        "/healthz": lambda: _json(b'{"status":"ok"}'),
        "/readyz": lambda: _json(b'{"status":"ready"}') if readiness() else _json(b'{"status":"not ready"}', 503),
        "/openapi.json": lambda: _json(document, headers={"Cache-Control": "public, max-age=300"}),
    }


def _json(content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(content, status, headers, "application/json")
