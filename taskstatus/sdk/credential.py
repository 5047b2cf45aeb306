"""An execution's token and handle: bound on start-up, the token renewed before it ends (R-11)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from taskstatus_pb.v1 import (
    bind_execution_service_pb2,
    heartbeat_service_pb2,
    register_service_pb2,
    report_service_pb2,
)

from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext

RENEW_BEFORE: Final = timedelta(seconds=60)
"""Leaves room for a re-send and for the difference between two machines' clocks."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where an execution stands in its own sequence."""

    next_source_seq: int
    resumed: bool
    """Something was reported before, by this process or by one that is gone."""


class ExecutionCredential:
    """The secrets of one execution; reports carry the handle, which lives as long as the execution."""

    def __init__(self, connection: Connection, context: ExecutionContext) -> None:
        self._connection = connection
        self._execution_id = context.execution_id
        self._token = context.execution_token
        self._token_expires_at = context.execution_token_expires_at
        self._handle = context.execution_handle

    async def bind(self) -> Position:
        """Ask where the execution stands; writes nothing.

        Raises PreconditionFailedError STALE_ATTEMPT or TERMINAL when it is over, and other TaskStatusErrors.
        """
        if not self._handle:
            # Gives the handle too, and takes a genuine token that has expired, as BindExecution does not.
            await self._renew()
        request = bind_execution_service_pb2.BindExecutionRequest(execution_handle=self._handle)
        response = await self._connection.call(self._connection.bind.BindExecution, request)
        self._handle = response.execution_handle
        self._keep(response.context.execution_token, response.context.execution_token_expire_time.ToDatetime(UTC))
        return Position(response.next_source_seq, response.next_source_seq > 1)

    @property
    def handle(self) -> str:
        """The short form; empty before it is bound, if the context had none."""
        return self._handle

    async def token(self) -> str:
        """A token that is good for a while, for whatever takes no handle. Raises TaskStatusError."""
        await self._renew_in_time()
        return self._token

    def put_into(self, request: report_service_pb2.ReportEventRequest | heartbeat_service_pb2.Heartbeat) -> None:
        """Fill in the short form."""
        request.execution_handle = self._handle

    async def _renew_in_time(self) -> None:
        expires_at = self._token_expires_at
        if not self._token or expires_at is None or expires_at - self._connection.timing.now() < RENEW_BEFORE:
            await self._renew()

    async def _renew(self) -> None:
        request = register_service_pb2.RenewExecutionRequest(
            execution_id=self._execution_id,
            execution_handle=self._handle,
            execution_token="" if self._handle else self._token,
        )
        response = await self._connection.call(self._connection.register.RenewExecution, request)
        self._handle = response.execution_handle
        self._keep(response.execution_token, response.execution_token_expire_time.ToDatetime(UTC))

    def _keep(self, token: str, expires_at: datetime) -> None:
        self._token = token
        self._token_expires_at = expires_at
