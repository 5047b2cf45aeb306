"""Rows of members counted by where they stand: how they add up to tallies (L-7)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.values import text
from taskstatus.domain.ids import WorkflowId
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.workflow_aggregate import NOBODY, MemberStanding, MemberTally, with_standing
from taskstatus.domain.workflow_views import SeenMembers


def tallies(rows: Iterable[Row]) -> dict[WorkflowId, MemberTally]:
    """The tally of each workflow of which there is a row."""
    found: dict[WorkflowId, MemberTally] = {}
    for row in rows:
        workflow_id = WorkflowId(row[0])
        found[workflow_id] = with_standing(found.get(workflow_id, NOBODY), _standing(row), row[6])
    return found


def seen_members(rows: Iterable[Row]) -> SeenMembers:
    """What one reader sees of one workflow; rows end with first start and last end."""
    tally, starts, ends = NOBODY, list[datetime](), list[datetime]()
    for row in rows:
        tally = with_standing(tally, _standing(row), row[6])
        starts += [row[7]] if row[7] else []
        ends += [row[8]] if row[8] else []
    return SeenMembers(tally.counts, min(starts, default=None), max(ends, default=None))


def _standing(row: Row) -> MemberStanding:
    lifecycle, sensitive, stale, degraded, runs_again = row[1:6]
    return MemberStanding(Lifecycle(text(lifecycle)), bool(sensitive), bool(stale), bool(degraded), bool(runs_again))
