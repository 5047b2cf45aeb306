"""RefusedError → a gRPC status with google.rpc details (AIP-193)."""

from __future__ import annotations

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from taskstatus.domain.errors import RefusedError
from taskstatus.entrypoints.wire.statuses import GRPC_CODE_NUMBERS

ERROR_DOMAIN = "taskstatus.v1"


def to_grpc_status(refusal: RefusedError) -> grpc.Status:
    """The status with ErrorInfo, and BadRequest or RetryInfo where they apply."""
    details: list[Message] = [
        error_details_pb2.ErrorInfo(reason=refusal.reason, domain=ERROR_DOMAIN, metadata=dict(refusal.metadata))
    ]
    if refusal.violations:
        details.append(_bad_request(refusal))
    if refusal.retry_after_seconds is not None:
        details.append(_retry_info(refusal.retry_after_seconds))
    status = status_pb2.Status(
        code=GRPC_CODE_NUMBERS[refusal.reason], message=refusal.message, details=[_packed(detail) for detail in details]
    )
    return rpc_status.to_status(status)


def _bad_request(refusal: RefusedError) -> error_details_pb2.BadRequest:
    return error_details_pb2.BadRequest(
        field_violations=[
            error_details_pb2.BadRequest.FieldViolation(field=violation.field, description=violation.description)
            for violation in refusal.violations
        ]
    )


def _retry_info(seconds: float) -> error_details_pb2.RetryInfo:
    delay = duration_pb2.Duration()
    delay.FromNanoseconds(int(seconds * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)


def _packed(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
