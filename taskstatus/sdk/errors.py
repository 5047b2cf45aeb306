"""What a call can end with, rebuilt from the service's ``google.rpc`` details: one class per way to react.

``TaskStatusError`` is the base. ``reason`` is a name of ``taskstatus.v1.Reason``; when nobody from the service answered
(a refused connection, a deadline), it is ``UNAVAILABLE``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from taskstatus_pb.v1 import common_pb2

ERROR_DOMAIN: Final = "taskstatus.v1"
UNAVAILABLE: Final = "UNAVAILABLE"
INTERNAL: Final = "INTERNAL"

RESENT_REASONS: Final = frozenset({"RATE_LIMITED", "BUCKET_MOVED", UNAVAILABLE, INTERNAL})
"""The same request with the same id may succeed later; the SDK sends it again by itself."""
PASSING_LIMITS: Final = frozenset({"DYNAMIC_LIMIT_REACHED", "DETAIL_SUBSCRIPTION_LIMIT", "WINDOW_EXCEEDED"})
"""A limit that passes only when the caller gives something back; retryable, but never by itself."""


_Detail = TypeVar("_Detail", bound=Message)


@dataclass(frozen=True, slots=True)
class Violation:
    """One invalid field: its path in the JSON form of the request, and what is wrong with it."""

    field: str
    description: str


class TaskStatusError(Exception):
    """A refused or failed call, or a refused item of a batch. Nothing was written unless ``retryable``."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        violations: Iterable[Violation] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.violations = tuple(violations)
        self.retry_after_seconds = retry_after_seconds

    @property
    def retryable(self) -> bool:
        """Whether the same request, with the same id, may succeed later."""
        return self.reason in RESENT_REASONS or self.reason in PASSING_LIMITS


class UnauthenticatedError(TaskStatusError):
    """No valid credential: get one (UNAUTHENTICATED), renew it (TOKEN_EXPIRED), or stop (TOKEN_REVOKED)."""


class PermissionDeniedError(TaskStatusError):
    """A valid credential that may not do this."""


class NotFoundError(TaskStatusError):
    """No such thing in the caller's tenant and scope."""


class ConflictError(TaskStatusError):
    """The same key or id came with other content, or another version is current."""


class PreconditionFailedError(TaskStatusError):
    """The state does not allow it. STALE_ATTEMPT, STALE_EXECUTION and TERMINAL: stop working."""


class InvalidArgumentError(TaskStatusError):
    """The request is malformed; ``violations`` name the fields."""


class LimitError(TaskStatusError):
    """Too many or too large; ``retry_after_seconds`` says when to send again, where that helps."""


class UnavailableError(TaskStatusError):
    """The service could not answer in time, and perhaps it did act: only the same id may be sent again."""


_CLASSES: Final = {
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: ConflictError,
    grpc.StatusCode.ABORTED: ConflictError,
    grpc.StatusCode.FAILED_PRECONDITION: PreconditionFailedError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgumentError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: LimitError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.INTERNAL: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: UnavailableError,
}
_NOBODY_ANSWERED: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
    }
)
"""Without details these come from the connection: the service itself always gives a reason."""
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def from_call(error: grpc.aio.AioRpcError) -> TaskStatusError:
    """The typed error of a failed call."""
    status = _rich_status(error)
    details = list(status.details)
    info = _detail(details, error_details_pb2.ErrorInfo())
    if info is None or info.domain != ERROR_DOMAIN:
        return _without_details(error.code(), error.details() or "")
    return _class_of(error.code())(
        info.reason,
        status.message,
        violations=_violations(details),
        retry_after_seconds=_retry_after(details),
    )


def from_item(error: common_pb2.ItemError) -> TaskStatusError:
    """The typed error of one refused item of a batch."""
    return _class_of(_CODES.get(error.code, grpc.StatusCode.UNKNOWN))(
        common_pb2.Reason.Name(error.reason),
        error.message,
        violations=[Violation(found.field, found.description) for found in error.field_violations],
    )


def _rich_status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    """Empty when there is none, or when something on the way changed the code that it repeats."""
    try:
        # Has the three methods that are used, though it is not the class that the types name.
        found = rpc_status.from_call(error)  # type: ignore[arg-type]
    except ValueError:
        found = None
    return found or status_pb2.Status()


def _without_details(code: grpc.StatusCode, message: str) -> TaskStatusError:
    if code in _NOBODY_ANSWERED:
        return UnavailableError(UNAVAILABLE, message or "the service did not answer")
    return _class_of(code)(code.name, message)


def _class_of(code: grpc.StatusCode) -> type[TaskStatusError]:
    return _CLASSES.get(code, TaskStatusError)


def _violations(details: Iterable[Any]) -> list[Violation]:
    bad_request = _detail(details, error_details_pb2.BadRequest())
    if bad_request is None:
        return []
    return [Violation(found.field, found.description) for found in bad_request.field_violations]


def _retry_after(details: Iterable[Any]) -> float | None:
    info = _detail(details, error_details_pb2.RetryInfo())
    return None if info is None else float(info.retry_delay.ToTimedelta().total_seconds())


def _detail(details: Iterable[Any], wanted: _Detail) -> _Detail | None:
    return next((wanted for packed in details if packed.Unpack(wanted)), None)
