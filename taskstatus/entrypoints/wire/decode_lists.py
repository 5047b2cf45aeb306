"""Requests of the lists and look-ups → what the application asks for."""

from __future__ import annotations

from datetime import datetime, timedelta

from google.protobuf import timestamp_pb2
from taskstatus_pb.v1 import common_pb2, task_list_pb2

from taskstatus.domain import text
from taskstatus.domain.errors import invalid
from taskstatus.domain.ids import TaskId, WorkflowId, parse_task_id, parse_workflow_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import ExternalRef
from taskstatus.domain.task_filter import TaskFilter
from taskstatus.entrypoints.wire.decode_terms import REF_TYPE_MAX
from taskstatus.entrypoints.wire.values import enum_name, from_timestamp

_MICROSECOND = 1_000
"""In nanoseconds."""


def to_task_filter(message: task_list_pb2.TaskFilter) -> TaskFilter:
    """The conditions of a list. Raises RefusedError INVALID_ARGUMENT."""
    return TaskFilter(
        lifecycles=_lifecycles(message),
        task_type=text.check_optional_id("filter.taskType", message.task_type, text.CODE_MAX),
        workflow_id=_workflow_id(message.workflow_id),
        created_from=_moment("filter.createdFrom", message, "created_from"),
        created_before=_moment("filter.createdBefore", message, "created_before"),
        title_contains=text.check_text("filter.titleContains", message.title_contains, text.TITLE_MAX),
        batch_id=text.check_optional_id("filter.batchId", message.batch_id, text.PRODUCT_MAX),
        parent_task_id=_parent_task_id(message.parent_task_id),
    )


def to_external_ref(request: task_list_pb2.LookupExternalRefRequest) -> tuple[ExternalRef, str]:
    """The number, and the scope in which to look; empty when none is named."""
    ref = ExternalRef(
        text.check_id("refType", request.ref_type, REF_TYPE_MAX),
        text.check_id("refValue", request.ref_value, text.REFERENCE_MAX),
    )
    return ref, text.check_optional_id("authorityScope", request.authority_scope, text.SCOPE_MAX)


def _lifecycles(message: task_list_pb2.TaskFilter) -> frozenset[Lifecycle]:
    path = "filter.lifecycleStatuses"
    if len(message.lifecycle_statuses) > len(Lifecycle):
        raise invalid(path, f"must hold at most {len(Lifecycle)} statuses")
    return frozenset(_lifecycle(f"{path}[{i}]", number) for i, number in enumerate(message.lifecycle_statuses))


def _lifecycle(path: str, number: int) -> Lifecycle:
    if number == common_pb2.LIFECYCLE_STATUS_UNSPECIFIED:
        raise invalid(path, "is not a known value")
    return Lifecycle(enum_name(path, common_pb2.LifecycleStatus.DESCRIPTOR, number))


def _workflow_id(written: str) -> WorkflowId | None:
    workflow_id = parse_workflow_id(written)
    if written and workflow_id is None:
        raise invalid("filter.workflowId", "is not the id of a workflow")
    return workflow_id


def _parent_task_id(written: str) -> TaskId | None:
    task_id = parse_task_id(written)
    if written and task_id is None:
        raise invalid("filter.parentTaskId", "is not the id of a task")
    return task_id


def _moment(path: str, message: task_list_pb2.TaskFilter, name: str) -> datetime | None:
    """The first microsecond that is not before the time asked for: tasks have no finer times."""
    if not message.HasField(name):  # type: ignore[arg-type]
        return None
    stamp: timestamp_pb2.Timestamp = getattr(message, name)
    moment = from_timestamp(path, stamp)
    if stamp.nanos % _MICROSECOND == 0 or moment == datetime.max:
        return moment
    return moment + timedelta(microseconds=1)
