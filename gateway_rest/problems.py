"""Refusals as HTTP (names.md, *Reasons*): one table, and problem details of RFC 9457 made from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import orjson
from starlette.responses import Response

from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import RETRYABLE_REASONS, Reason
from taskstatus.entrypoints.wire.statuses import GRPC_STATUS

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
DEFAULT_RETRY_AFTER_SECONDS: Final = 1
"""Told with a retryable refusal that names no pause of its own."""


@dataclass(frozen=True, slots=True)
class HttpMapping:
    """How one reason looks over HTTP."""

    status: int
    title: str


HTTP_MAPPINGS: Final[Mapping[Reason, HttpMapping]] = MappingProxyType(
    {
        Reason.UNAUTHENTICATED: HttpMapping(401, "No valid credential"),
        Reason.TOKEN_EXPIRED: HttpMapping(401, "The credential has expired"),
        Reason.TOKEN_REVOKED: HttpMapping(401, "The credential was revoked"),
        Reason.PERMISSION_DENIED: HttpMapping(403, "Not allowed"),
        Reason.TOKEN_MISMATCH: HttpMapping(403, "The request contradicts the execution token"),
        Reason.PRODUCER_MISMATCH: HttpMapping(403, "Another producer must report this"),
        Reason.OPERATION_MISMATCH: HttpMapping(403, "The execution performs another operation"),
        Reason.EVENT_TYPE_NOT_ALLOWED: HttpMapping(403, "This caller may not report this type of event"),
        Reason.WORKFLOW_NOT_FOUND: HttpMapping(404, "No such workflow"),
        Reason.TASK_NOT_FOUND: HttpMapping(404, "No such task"),
        Reason.STEP_NOT_FOUND: HttpMapping(404, "No such step"),
        Reason.EXECUTION_NOT_FOUND: HttpMapping(404, "No such execution"),
        Reason.DEFINITION_NOT_FOUND: HttpMapping(404, "No such definition"),
        Reason.IDEMPOTENCY_CONFLICT: HttpMapping(409, "The same id came with other content"),
        Reason.VERSION_MISMATCH: HttpMapping(412, "Another version is current"),
        Reason.TRANSITION_NOT_ALLOWED: HttpMapping(409, "The lifecycle does not allow this"),
        Reason.TERMINAL: HttpMapping(409, "Already ended"),
        Reason.NOT_CANCELLABLE: HttpMapping(409, "Can no longer be cancelled"),
        Reason.ALREADY_CLASSIFIED: HttpMapping(409, "Already classified"),
        Reason.DEFINITION_INCOMPATIBLE: HttpMapping(409, "Breaks a published definition"),
        Reason.INVALID_ARGUMENT: HttpMapping(400, "Invalid request"),
        Reason.SCHEMA_NOT_ALLOWED: HttpMapping(422, "The schema is not registered for the operation"),
        Reason.SCHEMA_VIOLATION: HttpMapping(422, "The data does not fit its schema"),
        Reason.BUSINESS_STATUS_NOT_REGISTERED: HttpMapping(422, "The business status is not registered"),
        Reason.PAYLOAD_TOO_LARGE: HttpMapping(413, "Too large"),
        Reason.RATE_LIMITED: HttpMapping(429, "Too many requests"),
        Reason.DYNAMIC_LIMIT_REACHED: HttpMapping(429, "A limit of dynamic registration is reached"),
        Reason.DETAIL_SUBSCRIPTION_LIMIT: HttpMapping(429, "Too many detail subscriptions"),
        Reason.WINDOW_EXCEEDED: HttpMapping(429, "Too many items in flight"),
        Reason.EVENT_TOO_OLD: HttpMapping(410, "The event is too old"),
        Reason.BUCKET_MOVED: HttpMapping(503, "The data is moving"),
        Reason.UNAVAILABLE: HttpMapping(503, "Not available now"),
        Reason.INTERNAL: HttpMapping(500, "A fault of the service"),
        # As answers these come with status 200 and accepted=false; here they are the error of a command.
        Reason.STALE_ATTEMPT: HttpMapping(409, "A later attempt or run is current"),
        Reason.STALE_EXECUTION: HttpMapping(409, "Another execution holds the attempt"),
        Reason.STALE_SEQUENCE: HttpMapping(409, "The sequence does not rise"),
        Reason.PROGRESS_NOT_MONOTONIC: HttpMapping(409, "Progress would go back"),
    }
)
"""Every reason; a test walks the enum."""


@dataclass(eq=False, slots=True)
class HttpProblemError(Exception):
    """A request that HTTP itself refuses, before any method is concerned: it has no reason of the service's own."""

    status: int
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)


def internal_fault() -> RefusedError:
    """What a caller is told of an unforeseen exception: nothing but that it was not their doing."""
    return RefusedError(Reason.INTERNAL, "The service failed. Send the same request again, with the same id.")


def refusal_response(error: RefusedError, trace_id: str) -> Response:
    """The problem of a refusal; ``trace_id`` in hex names the occurrence, empty when there is none."""
    mapping = HTTP_MAPPINGS[error.reason]
    retryable = error.reason in RETRYABLE_REASONS
    document: dict[str, Any] = {
        "type": problem_type(error.reason),
        "title": mapping.title,
        "status": mapping.status,
        "detail": error.message,
        "reason": error.reason.value,
        "code": GRPC_STATUS[error.reason].name,
        "retryable": retryable,
        "violations": [{"field": each.field, "description": each.description} for each in error.violations],
        "metadata": dict(error.metadata),
    }
    headers: dict[str, str] = {}
    if retryable:
        headers["Retry-After"] = str(retry_after(error.retry_after_seconds))
    if mapping.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return _response(document, mapping.status, headers, trace_id)


def http_problem_response(error: HttpProblemError, trace_id: str) -> Response:
    """The problem of a request that HTTP refuses."""
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": error.detail,
        "retryable": False,
    }
    return _response(document, error.status, dict(error.headers), trace_id)


def problem_type(reason: Reason) -> str:
    """The type URI of a reason; a name, not an address."""
    return f"urn:taskstatus:reason:{reason.value}"


def retry_after(seconds: float | None) -> int:
    """Whole seconds for the Retry-After header, at least 1: zero would invite a hot loop."""
    return max(1, math.ceil(DEFAULT_RETRY_AFTER_SECONDS if seconds is None else seconds))


def _response(document: dict[str, Any], status: int, headers: dict[str, str], trace_id: str) -> Response:
    if trace_id:
        document["instance"] = f"urn:taskstatus:trace:{trace_id}"
    return Response(orjson.dumps(document), status, headers, PROBLEM_MEDIA_TYPE)
