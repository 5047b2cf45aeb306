"""Genuine credentials that the service itself would not give out: expired, or of an execution that does not exist."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from taskstatus_pb.v1 import common_pb2

from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.tokens.execution_credentials import JwtExecutionCredentials
from taskstatus.application.identity import ExecutionBinding
from taskstatus.domain.ids import parse_execution_id, parse_task_id, parse_workflow_id
from tests.support.clients import SCOPE, TENANT

LONG_AGO_SECONDS = 7200.0


class _PastClock:
    """A clock that stands two hours back."""

    def unix_seconds(self) -> float:
        return SystemClock().unix_seconds() - LONG_AGO_SECONDS

    def monotonic_seconds(self) -> float:
        return SystemClock().monotonic_seconds()


@dataclass(frozen=True)
class Forger:
    """Signs with the service's own keys."""

    keys_file: Path

    def expired(self, context: common_pb2.ExecutionContext) -> str:
        """The execution's token as it would have been issued two hours ago."""
        credentials = JwtExecutionCredentials.from_file(self.keys_file, _PastClock())
        return credentials.issue_token(_binding_of(context), generation=1)[0]

    def handle_of_nothing(self) -> str:
        """A genuine handle of an execution that nobody registered."""
        context = common_pb2.ExecutionContext(
            workflow_id="wf_01890000000070008000000000000001",
            task_id="task_01890000000070008000000000000001",
            execution_id="exec_01890000000070008000000000000001",
        )
        return JwtExecutionCredentials.from_file(self.keys_file, SystemClock()).make_handle(_binding_of(context), 1)


def _binding_of(context: common_pb2.ExecutionContext) -> ExecutionBinding:
    workflow_id, task_id = parse_workflow_id(context.workflow_id), parse_task_id(context.task_id)
    execution_id = parse_execution_id(context.execution_id)
    assert workflow_id is not None
    assert task_id is not None
    assert execution_id is not None
    return ExecutionBinding(
        tenant_id=TENANT,
        authority_scope=SCOPE,
        workflow_id=workflow_id,
        task_id=task_id,
        task_attempt=context.task_attempt,
        step_id=context.step_id,
        step_attempt=context.step_attempt,
        operation_code=context.operation_code,
        execution_id=execution_id,
        producer_id=context.producer_id,
        definition_version=1,
        definition_task_type="*",
    )
