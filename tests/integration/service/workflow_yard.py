"""Workflows of many tasks, made and moved through a running service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
from taskstatus_pb.v1 import common_pb2, query_service_pb2, register_service_pb2, report_service_pb2, workflow_pb2

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql.engine import Database
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.application.ids_factory import IdFactory
from taskstatus.application.ports_store import TransactionAttempt, WriteTransaction
from taskstatus.domain.commands import Caller
from taskstatus.domain.creation import create_workflow
from taskstatus.domain.ids import (
    TaskId,
    WorkflowId,
    bucket_of_owner,
    format_task_id,
    format_workflow_id,
)
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.state import WorkflowState
from tests.integration.service.conftest import Site
from tests.support.clients import (
    COORDINATOR,
    OWNER,
    SCOPE,
    TENANT,
    event_request,
    task_spec,
    unique,
    workflow_request,
)
from tests.unit.factories import a_task_spec, a_workflow_command


async def workflow_of(site: Site, tasks: int, **fields: Any) -> tuple[str, list[str]]:
    """A new workflow with so many tasks."""
    request = workflow_request(*(task_spec() for _ in range(tasks)), **fields)
    created = await site.coordinator.call(site.coordinator.register.CreateWorkflow, request)
    return created.workflow_id, [task.task_id for task in created.tasks]


async def large_workflow(database: Database, tasks: int) -> tuple[str, list[str]]:
    """A workflow with more tasks than one request may name, created in one transaction all the same."""
    ids, bucket = IdFactory(SystemClock(), SystemRandomness()), bucket_of_owner(TENANT, OWNER)
    specs = [a_task_spec(key=f"task-{number}") for number in range(tasks)]
    command = a_workflow_command(*specs, caller=Caller(TENANT, SCOPE, COORDINATOR), owner_id=OWNER)
    command = replace(command, client_workflow_key=unique("wf"))
    task_ids = [TaskId(ids.new(bucket)) for _ in specs]
    tools = OutboxTools(new_id=ids.new, to_json=orjson.dumps)
    store = MySqlTaskStore(database.writer, SystemClock(), SystemRandomness())

    async def body(tx: WriteTransaction, _attempt: TransactionAttempt) -> WorkflowState:
        workflow_id, now = WorkflowId(ids.new(bucket)), await tx.now()
        workflow, _, changes = create_workflow(command, workflow_id, bucket, task_ids, now, tools)
        await tx.write(changes)
        return workflow

    workflow = await store.transact(body)
    return format_workflow_id(workflow.workflow_id), [format_task_id(task_id) for task_id in task_ids]


async def add_task(site: Site, workflow_id: str, **spec: Any) -> str:
    """One more task."""
    request = register_service_pb2.CreateTaskRequest(
        command_id=unique("cmd"), workflow_id=workflow_id, task=task_spec(**spec)
    )
    return str((await site.coordinator.call(site.coordinator.register.CreateTask, request)).task.task_id)


async def move(site: Site, event_type: common_pb2.EventType.ValueType, sequence: int, *task_ids: str) -> None:
    """Report the same task event of many tasks in one call."""
    events = [event_request(event_type=event_type, source_seq=sequence, task_id=task_id) for task_id in task_ids]
    request = report_service_pb2.BatchReportEventsRequest(events=events)
    answer = await site.coordinator.call(site.coordinator.report_service.BatchReportEvents, request)
    assert all(result.response.accepted for result in answer.results), answer.results[0]


async def snapshot(caller: Any, workflow_id: str) -> workflow_pb2.WorkflowSnapshot:
    """GetWorkflow."""
    request = query_service_pb2.GetWorkflowRequest(workflow_id=workflow_id)
    return (await caller.call(caller.query.GetWorkflow, request)).workflow


def halves(items: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The first and the second."""
    return items[: len(items) // 2], items[len(items) // 2 :]
