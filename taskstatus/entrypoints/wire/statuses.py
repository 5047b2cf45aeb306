"""Reason → gRPC status, the one table of that side (names.md, *Reasons*).

The answers (STALE_ATTEMPT and the like) reach a status only where a *command* meets them: FAILED_PRECONDITION.
"""

from __future__ import annotations

from collections.abc import Mapping

import grpc

from taskstatus.domain.reasons import Reason

GRPC_STATUS: Mapping[Reason, grpc.StatusCode] = {
    Reason.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.TOKEN_EXPIRED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.TOKEN_REVOKED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.PERMISSION_DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.TOKEN_MISMATCH: grpc.StatusCode.PERMISSION_DENIED,
    Reason.PRODUCER_MISMATCH: grpc.StatusCode.PERMISSION_DENIED,
    Reason.OPERATION_MISMATCH: grpc.StatusCode.PERMISSION_DENIED,
    Reason.EVENT_TYPE_NOT_ALLOWED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.WORKFLOW_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.TASK_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.STEP_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.EXECUTION_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.DEFINITION_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.IDEMPOTENCY_CONFLICT: grpc.StatusCode.ALREADY_EXISTS,
    Reason.VERSION_MISMATCH: grpc.StatusCode.ABORTED,
    Reason.TRANSITION_NOT_ALLOWED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.TERMINAL: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.NOT_CANCELLABLE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.ALREADY_CLASSIFIED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.DEFINITION_INCOMPATIBLE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.SCHEMA_NOT_ALLOWED: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.SCHEMA_VIOLATION: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.BUSINESS_STATUS_NOT_REGISTERED: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.PAYLOAD_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.RATE_LIMITED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.DYNAMIC_LIMIT_REACHED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.DETAIL_SUBSCRIPTION_LIMIT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.WINDOW_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.EVENT_TOO_OLD: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.BUCKET_MOVED: grpc.StatusCode.UNAVAILABLE,
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.INTERNAL: grpc.StatusCode.INTERNAL,
    Reason.STALE_ATTEMPT: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.STALE_EXECUTION: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.STALE_SEQUENCE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.PROGRESS_NOT_MONOTONIC: grpc.StatusCode.FAILED_PRECONDITION,
}

GRPC_CODE_NUMBERS: Mapping[Reason, int] = {reason: status.value[0] for reason, status in GRPC_STATUS.items()}
