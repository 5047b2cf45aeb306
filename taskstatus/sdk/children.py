"""Registering a child by the execution under which it shall run (R-4)."""

from __future__ import annotations

from taskstatus.sdk.connection import Connection
from taskstatus.sdk.context import ExecutionContext
from taskstatus.sdk.event_ids import random_command_id
from taskstatus.sdk.manifest import DynamicStep


async def register_child(
    connection: Connection, parent: ExecutionContext, parent_handle: str, step: DynamicStep
) -> ExecutionContext:
    """The child's context; ``parent_handle`` is the credential of the parent, which must run.

    Raises TaskStatusError.
    """
    request = step.to_request(parent.task_id, random_command_id())
    request.parent_execution_handle = parent_handle
    answer = await connection.call(connection.register.RegisterExecution, request)
    return ExecutionContext.from_message(answer.context)
