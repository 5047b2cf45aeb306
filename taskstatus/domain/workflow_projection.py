"""The projector's decision: from a workflow and its members as counted to a version, or to none (L-7).

It may be taken any number of times, after any of the members' changes and in any order: a version is made only when
what somebody sees is another than before, and the last one is a function of the members as they are.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime

from taskstatus.domain.events import EventType
from taskstatus.domain.health_changes import SERVICE_PRODUCER
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.records import ChangeSet
from taskstatus.domain.state import WorkflowState
from taskstatus.domain.workflow_aggregate import MemberCounts, MemberTally
from taskstatus.domain.workflow_changes import with_members
from taskstatus.domain.workflow_events import WorkflowFact, record_version
from taskstatus.domain.workflow_views import WorkflowCut, full_cut, shared_cut


def project(
    changes: ChangeSet, workflow: WorkflowState, tally: MemberTally, now: datetime, tools: OutboxTools
) -> WorkflowState:
    """The workflow as its members make it, with what is to be written added to ``changes``.

    Counts that nobody sees, such as how many tasks are stale, are kept without a version.
    """
    committed_at = max(now, workflow.committed_at)
    counted = with_members(workflow, tally, committed_at)
    if counted == workflow:
        return workflow
    if _shown(counted) == _shown(workflow):
        changes.workflows.append(counted)
        return counted
    after = replace(counted, version=workflow.version + 1, committed_at=committed_at)
    changes.workflows.append(after)
    record_version(changes, after, _aggregated(after), tools)
    return after


def _shown(workflow: WorkflowState) -> tuple[object, ...]:
    return tuple(part for cut in (full_cut(workflow), shared_cut(workflow)) for part in _shown_of(cut))


def _shown_of(cut: WorkflowCut) -> tuple[object, ...]:
    return cut.lifecycle, cut.health, _only_shown(cut.counts), cut.started_at, cut.finished_at


def _only_shown(counts: MemberCounts) -> MemberCounts:
    return replace(counts, stale=0, degraded=0, reopened=0)


def _aggregated(workflow: WorkflowState) -> WorkflowFact:
    """No command is behind it: the id and the digest are made of the version that it is."""
    event_id = f"aggregated-{workflow.version}"
    content = workflow.workflow_id + event_id.encode()
    return WorkflowFact(EventType.WORKFLOW_AGGREGATED, event_id, SERVICE_PRODUCER, hashlib.sha256(content).digest())
