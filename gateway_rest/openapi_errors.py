"""The error responses of a route: what any route may answer, and the reasons that its comment names."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from gateway_rest.openapi_schemas import Json
from gateway_rest.problems import HTTP_MAPPINGS, PROBLEM_MEDIA_TYPE
from gateway_rest.routes import Binding
from taskstatus.domain.reasons import RETRYABLE_REASONS, Reason

PROBLEM_SCHEMA: Final = "Problem"

_EVERYWHERE = (
    Reason.UNAUTHENTICATED,
    Reason.TOKEN_EXPIRED,
    Reason.PERMISSION_DENIED,
    Reason.INVALID_ARGUMENT,
    Reason.UNAVAILABLE,
    Reason.INTERNAL,
)
_WITH_BODY = (Reason.PAYLOAD_TOO_LARGE,)
_RETRY_AFTER: Final[Json] = {
    "Retry-After": {"description": "Whole seconds to wait.", "schema": {"type": "integer", "minimum": 1}}
}


def error_responses(binding: Binding, comment: str) -> Json:
    """Responses by status, as text and rising."""
    reasons = {*_EVERYWHERE, *(_WITH_BODY if binding.body else ()), *reasons_named(comment)}
    by_status: dict[int, list[Reason]] = defaultdict(list)
    for reason in Reason:
        if reason in reasons:
            by_status[HTTP_MAPPINGS[reason].status].append(reason)
    responses = {str(status): _response(found) for status, found in sorted(by_status.items())}
    if binding.body:
        responses["415"] = _problem("The body is not `application/json` in UTF-8 without Content-Encoding.")
    return dict(sorted(responses.items()))


def reasons_named(comment: str) -> frozenset[Reason]:
    """The reasons listed after the word *Reasons* of a method's comment; what stands before it are answers."""
    _, _, listed = comment.partition("Reasons")
    return frozenset(reason for reason in Reason if re.search(rf"\b{reason.value}\b", listed))


def problem_schema() -> Json:
    """Problem details (RFC 9457) as this adapter writes them."""
    text: Json = {"type": "string"}
    return {
        "type": "object",
        "description": "Problem details of RFC 9457. `reason` and `code` are missing when HTTP itself refuses.",
        "required": ["type", "title", "status", "detail", "retryable"],
        "properties": {
            "type": {**text, "format": "uri", "description": "`urn:taskstatus:reason:` with the reason."},
            "title": text,
            "status": {"type": "integer"},
            "detail": {**text, "description": "A sentence for the caller; holds nothing secret."},
            "instance": {**text, "format": "uri", "description": "`urn:taskstatus:trace:` with the trace id."},
            "reason": {**text, "enum": [reason.value for reason in Reason]},
            "code": {**text, "description": "The name of the gRPC status of the same refusal."},
            "retryable": {"type": "boolean", "description": "Whether the same request may be sent again later."},
            "violations": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["field", "description"],
                    "properties": {
                        "field": {**text, "description": "Its path in the JSON form of the request."},
                        "description": text,
                    },
                },
            },
            "metadata": {"type": "object", "additionalProperties": text},
        },
    }


def _response(reasons: list[Reason]) -> Json:
    response = _problem(", ".join(f"`{reason.value}`" for reason in reasons))
    if any(reason in RETRYABLE_REASONS for reason in reasons):
        response["headers"] = dict(_RETRY_AFTER)
    return response


def _problem(description: str) -> Json:
    schema = {"$ref": f"#/components/schemas/{PROBLEM_SCHEMA}"}
    return {"description": description, "content": {PROBLEM_MEDIA_TYPE: {"schema": schema}}}
