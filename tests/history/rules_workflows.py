"""The workflow axis: versions without gaps, a message for each view of them, an aggregate that follows (L-7)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import orjson

from taskstatus.adapters.memory.members import tally_of
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.records import AggregateType, Audience
from taskstatus.domain.state import TaskState
from taskstatus.domain.workflow_changes import with_members
from tests.history.model import History


def workflow_versions_are_gapless(history: History) -> Iterator[str]:
    """L-7: each version of a workflow has one event, the last is the row's, and each audience has one message of it."""
    logged: defaultdict[WorkflowId, list[int]] = defaultdict(list)
    for workflow_id, version in history.tables.workflow_events:
        logged[workflow_id].append(version)
    messages = Counter(
        (WorkflowId(row.record.aggregate_id), row.record.audience, row.record.aggregate_version)
        for row in history.tables.outbox
        if row.record.aggregate_type is AggregateType.WORKFLOW
    )
    for workflow_id, workflow in history.tables.workflows.items():
        name, wanted = f"workflow …{workflow_id.hex()[-6:]}", list(range(1, workflow.version + 1))
        if sorted(logged[workflow_id]) != wanted:
            yield f"{name}: is at version {workflow.version}, its log has {sorted(logged[workflow_id])}"
        for audience in (Audience.OWNER, Audience.VIEWERS):
            wrong = [version for version in wanted if messages[workflow_id, audience, version] != 1]
            if wrong:
                yield f"{name}: versions {wrong} have not one message for {audience}"


def workflows_follow_their_tasks(history: History) -> Iterator[str]:
    """L-7: once no trigger is left the aggregate is what the members make of it."""
    members: defaultdict[WorkflowId, list[TaskState]] = defaultdict(list)
    for task in history.tables.tasks.values():
        members[task.envelope.workflow_id].append(task)
    for workflow_id, workflow in history.tables.workflows.items():
        if workflow_id in history.tables.unfollowed:
            continue
        settled = with_members(workflow, tally_of(members[workflow_id]), workflow.committed_at)
        if (settled.counts, settled.shared_counts) != (workflow.counts, workflow.shared_counts):
            yield f"workflow …{workflow_id.hex()[-6:]}: counts {workflow.counts}, its tasks are {settled.counts}"
        elif (settled.lifecycle, settled.health) != (workflow.lifecycle, workflow.health):
            yield (
                f"workflow …{workflow_id.hex()[-6:]}: is {workflow.lifecycle}, {workflow.health}; "
                f"its tasks make it {settled.lifecycle}, {settled.health}"
            )


def aggregates_differ(history: History) -> Iterator[str]:
    """L-7: a version is made only when somebody sees a difference to the one before."""
    shown: defaultdict[tuple[bytes, int], dict[str, str]] = defaultdict(dict)
    for row in history.tables.outbox:
        record = row.record
        if record.aggregate_type is AggregateType.WORKFLOW and record.payload is not None:
            key = (record.aggregate_id, record.aggregate_version)
            shown[key][record.audience] = _without_version(record.payload)
    for (workflow_id, version), event in history.tables.workflow_events.items():
        if event.event_type is EventType.WORKFLOW_AGGREGATED and shown[workflow_id, version] == shown.get(
            (workflow_id, version - 1)
        ):
            yield f"workflow …{workflow_id.hex()[-6:]}: version {version} shows what the one before showed"


def _without_version(payload: bytes) -> str:
    workflow = orjson.loads(payload)["workflow"]
    return str({name: value for name, value in workflow.items() if name not in ("version", "updatedAt")})
