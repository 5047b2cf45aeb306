"""``workflow.summary``: one workflow version for people, cut to what its receivers may see (P-4, P-5).

Owner and other viewers get different messages under one version. ``scope`` tells them apart: a client keeps one gate
for each workflow and scope, and shows FULL where it has it.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from taskstatus.domain.durations import json_time
from taskstatus.domain.events import EventType
from taskstatus.domain.ids import format_workflow_id
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_aggregate import MemberCounts
from taskstatus.domain.workflow_views import WorkflowCut

SCHEMA_VERSION = 1
UNSHOWN_COUNTS = frozenset({"stale", "degraded", "reopened"})
"""Counts behind health and status; they are of nobody's interest as numbers."""


def render_workflow_summary(workflow: WorkflowState, cut: WorkflowCut, event_type: EventType) -> dict[str, object]:
    """The whole message."""
    workflow_id, version = format_workflow_id(workflow.workflow_id), str(workflow.version)
    return {
        "kind": "workflow.summary",
        "schemaVersion": SCHEMA_VERSION,
        "workflowId": workflow_id,
        "workflowVersion": version,
        "scope": cut.scope,
        "eventType": event_type,
        "workflow": {
            "id": workflow_id,
            "version": version,
            "title": workflow.title,
            "workflowType": workflow.workflow_type,
            "lifecycleStatus": cut.lifecycle,
            "health": cut.health,
            "aggregationPolicy": workflow.aggregation_policy,
            "ruled": workflow.ruled,
            "rulingReason": workflow.ruling_reason,
            "taskCount": cut.counts.total,
            "taskCounts": shown_counts(cut.counts),
            "createdAt": json_time(workflow.created_at),
            "startedAt": _optional_time(cut.started_at),
            "finishedAt": _optional_time(cut.finished_at),
            "updatedAt": json_time(workflow.committed_at),
        },
    }


def shown_counts(counts: MemberCounts) -> dict[str, int]:
    """How many tasks stand where, by the JSON names of ``TaskCounts``."""
    return {_json_name(name): count for name, count in asdict(counts).items() if name not in UNSHOWN_COUNTS}


def _json_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _optional_time(at: datetime | None) -> str | None:
    return None if at is None else json_time(at)
