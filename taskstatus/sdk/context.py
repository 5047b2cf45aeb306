"""What one execution is bound to, as it travels from the coordinator to the worker (R-4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from google.protobuf import json_format
from taskstatus_pb.v1 import common_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """Ids, terms and credentials of one execution. Hand it over as :meth:`to_dict`; never log that: secrets."""

    workflow_id: str
    task_id: str
    task_attempt: int
    step_id: str
    step_attempt: int
    execution_id: str
    operation_code: str
    producer_id: str
    source_seq_start: int = 1
    input_ref: str = ""
    heartbeat_interval_seconds: int = 0
    heartbeat_timeout_seconds: int = 0
    execution_token: str = field(default="", repr=False)
    execution_token_expires_at: datetime | None = None
    execution_handle: str = field(default="", repr=False)
    task_version: int = 0
    created: bool = False
    task_type: str = ""
    operation_definition_version: int = 0
    """Bound to the execution for life; 0: the generic profile."""
    status_definition_version: int = 0
    """Bound to the task; 0: the generic statuses."""
    may_register_children: bool = False
    """Whether ``register_child`` of its reporter is allowed: the task's policy names its operation as a parent."""

    @classmethod
    def from_message(cls, message: common_pb2.ExecutionContext) -> Self:
        """From the wire form."""
        same = {found.name: getattr(message, found.name) for found in fields(cls) if found.name != _EXPIRY}
        return cls(**same, execution_token_expires_at=_expiry(message))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form of the wire message, which :meth:`to_dict` makes. Raises ValueError for anything else.

        Unknown fields are passed over: a newer coordinator may send more.
        """
        message = common_pb2.ExecutionContext()
        try:
            json_format.ParseDict(dict(data), message, ignore_unknown_fields=True)
        except json_format.ParseError as error:
            raise ValueError(f"not an execution context: {error}") from None
        if not message.execution_id or not (message.execution_handle or message.execution_token):
            raise ValueError("not an execution context: execution id or credential is missing")
        return cls.from_message(message)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of the wire message: lowerCamelCase, 64-bit integers as strings."""
        same = {found.name: getattr(self, found.name) for found in fields(self) if found.name != _EXPIRY}
        message = common_pb2.ExecutionContext(**same)
        if self.execution_token_expires_at is not None:
            message.execution_token_expire_time.FromDatetime(self.execution_token_expires_at)
        return json_format.MessageToDict(message)


_EXPIRY = "execution_token_expires_at"


def _expiry(message: common_pb2.ExecutionContext) -> datetime | None:
    if not message.HasField("execution_token_expire_time"):
        return None
    return message.execution_token_expire_time.ToDatetime(tzinfo=UTC)
