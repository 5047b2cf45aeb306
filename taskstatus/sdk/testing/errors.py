"""How the fake service refuses: the status and the details of each reason."""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from taskstatus_pb.v1 import common_pb2

from taskstatus.sdk.errors import ERROR_DOMAIN
from taskstatus.sdk.testing.model import FakeRefusal

RETRYABLE: Final = frozenset({"UNAVAILABLE", "RATE_LIMITED", "INTERNAL", "WINDOW_EXCEEDED", "BUCKET_MOVED"})
STATUS_OF_REASON: Final = {
    reason: status
    for status, reasons in {
        grpc.StatusCode.UNAUTHENTICATED: "UNAUTHENTICATED TOKEN_EXPIRED TOKEN_REVOKED",
        grpc.StatusCode.PERMISSION_DENIED: (
            "PERMISSION_DENIED TOKEN_MISMATCH PRODUCER_MISMATCH OPERATION_MISMATCH EVENT_TYPE_NOT_ALLOWED"
        ),
        grpc.StatusCode.NOT_FOUND: (
            "WORKFLOW_NOT_FOUND TASK_NOT_FOUND STEP_NOT_FOUND EXECUTION_NOT_FOUND DEFINITION_NOT_FOUND"
        ),
        grpc.StatusCode.ALREADY_EXISTS: "IDEMPOTENCY_CONFLICT",
        grpc.StatusCode.ABORTED: "VERSION_MISMATCH",
        grpc.StatusCode.INVALID_ARGUMENT: (
            "INVALID_ARGUMENT SCHEMA_NOT_ALLOWED SCHEMA_VIOLATION BUSINESS_STATUS_NOT_REGISTERED"
        ),
        grpc.StatusCode.RESOURCE_EXHAUSTED: (
            "PAYLOAD_TOO_LARGE RATE_LIMITED DYNAMIC_LIMIT_REACHED DETAIL_SUBSCRIPTION_LIMIT WINDOW_EXCEEDED"
        ),
        grpc.StatusCode.UNAVAILABLE: "UNAVAILABLE BUCKET_MOVED",
        grpc.StatusCode.INTERNAL: "INTERNAL",
    }.items()
    for reason in reasons.split()
}
"""Every other reason is FAILED_PRECONDITION."""


def item_error(refusal: FakeRefusal) -> common_pb2.ItemError:
    """One refused item of a batch or a stream."""
    return common_pb2.ItemError(
        reason=common_pb2.Reason.Value(refusal.reason),
        code=status_code(refusal.reason).value[0],
        message=refusal.message,
        retryable=refusal.reason in RETRYABLE,
    )


def status_code(reason: str) -> grpc.StatusCode:
    """The status of a call that is refused for the reason."""
    return STATUS_OF_REASON.get(reason, grpc.StatusCode.FAILED_PRECONDITION)


def status_of(refusal: FakeRefusal, retry_after_seconds: float | None) -> grpc.Status:
    """The rich status of a refused call."""
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=refusal.reason, domain=ERROR_DOMAIN)]
    if refusal.violations:
        violation = error_details_pb2.BadRequest.FieldViolation
        found = [violation(field=name, description=text) for name, text in refusal.violations.items()]
        details.append(error_details_pb2.BadRequest(field_violations=found))
    if retry_after_seconds is not None:
        delay = duration_pb2.Duration()
        delay.FromNanoseconds(int(retry_after_seconds * 1e9))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    packed = [any_pb2.Any() for _ in details]
    for box, detail in zip(packed, details, strict=True):
        box.Pack(detail)
    code: int = status_code(refusal.reason).value[0]
    return rpc_status.to_status(status_pb2.Status(code=code, message=refusal.message, details=packed))
