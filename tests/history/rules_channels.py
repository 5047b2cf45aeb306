"""What subscribers received: everything at least once, nothing uncommitted, nothing of others, never back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from taskstatus.domain.channels import task_detail_channel, task_user_channel, workflow_summary_channel
from taskstatus.domain.ids import TaskId, WorkflowId, parse_task_id, parse_workflow_id
from taskstatus.domain.records import Audience, OutboxRecord, Projection
from tests.history.fold import fold_of
from tests.history.model import FinalTables, History, OutboxRow, Publication
from tests.history.rules_events import is_skip


def outbox_reaches_every_channel(history: History) -> Iterator[str]:
    """C2-8, O-3, O-6: every version, or a later one, reached each channel; a protected one as itself on summaries."""
    received = _versions_received(history.publications)
    for row in history.tables.outbox:
        record = row.record
        for channel in channels_of(record, history.tables):
            versions = received.get((channel, record.aggregate_id), set())
            as_itself = record.protected and record.projection is not Projection.TASK_DETAIL
            reached = record.aggregate_version in versions if as_itself else _at_least(versions, record)
            if not reached:
                what = f"version {record.aggregate_version} ({record.event_type})"
                yield f"{channel}: {what} never arrived, its row is {row.status}"


def _at_least(versions: set[int], record: OutboxRecord) -> bool:
    return any(version >= record.aggregate_version for version in versions)


def every_version_has_its_rows(history: History) -> Iterator[str]:
    """E-6: each committed version of a task left one summary and one detail row, and nothing else left one."""
    rows = Counter(
        (row.record.aggregate_id, row.record.aggregate_version, row.record.projection) for row in history.tables.outbox
    )
    wanted = {
        (task_id, version, projection)
        for task_id, version in history.tables.events
        for projection in (Projection.USER_SUMMARY, Projection.TASK_DETAIL)
        if not _stands_for_another(history.tables, task_id, version)
    }
    of_tasks = {key: count for key, count in rows.items() if key[2] is not Projection.WORKFLOW_SUMMARY}
    for task_id, version, projection in wanted - of_tasks.keys():
        yield f"task …{task_id.hex()[-6:]}: version {version} has no {projection} row"
    for aggregate_id, version, projection in of_tasks.keys() - wanted:
        yield f"task …{aggregate_id.hex()[-6:]}: a {projection} row of version {version}, which was never committed"


def _stands_for_another(tables: FinalTables, task_id: TaskId, version: int) -> bool:
    """O-6: of the steps that one rerun skips, the last one's message stands for the others."""
    return is_skip(tables.events[task_id, version]) and is_skip(tables.events.get((task_id, version + 1)))


def nothing_uncommitted_is_shown(history: History) -> Iterator[str]:
    """C2-8: a message is of a committed version, holds what was committed, and comes after the commit."""
    stored = _summaries_stored(history.tables)
    for publication in history.publications:
        message = publication.message
        key, version = _aggregate(message)
        if message["kind"] == "task.detail":
            yield from _detail_is_committed(history, publication, TaskId(key), version)
        elif publication.data not in stored[key, version]:
            yield f"{publication.channel}: version {version} is not what was committed"


def _detail_is_committed(history: History, shown: Publication, task_id: TaskId, version: int) -> Iterator[str]:
    event = history.tables.events.get((task_id, version))
    if event is None:
        yield f"{shown.channel}: version {version} was never committed"
        return
    if not history.clock_stepped and shown.at < event.committed_at:
        yield f"{shown.channel}: version {version} arrived before its commit"
    trigger = shown.message["triggerEvent"]
    if trigger is None or trigger["eventId"] != event.event_id or trigger["taskVersion"] != str(version):
        yield f"{shown.channel}: version {version} is shown with another event"


def detail_shows_one_version(history: History) -> Iterator[str]:
    """Q-2, architecture.md *Costs*: a detail's steps belong to its version, as the replay of the log has them."""
    for publication in history.publications:
        message = publication.message
        key, version = _aggregate(message)
        if message["kind"] != "task.detail" or TaskId(key) not in history.tables.tasks:
            continue
        state = message["state"]
        steps = sorted((s["stepId"], s["stepAttempt"], s["stepVersion"], s["lifecycleStatus"]) for s in state["steps"])
        logged = fold_of(history, TaskId(key)).shown.get(version)
        if logged is not None and logged != (state["lifecycleStatus"], steps):
            yield f"{publication.channel}: version {version} shows {steps}, the log says {logged}"


def detail_never_goes_back(history: History) -> Iterator[str]:
    """C2-9: on a detail channel every message is numbered with its state's version, and the numbers only rise."""
    last: dict[str, int] = {}
    for publication in history.publications:
        message = publication.message
        if message["kind"] != "task.detail":
            continue
        version = int(message["taskVersion"])
        if publication.version != version or message["state"]["taskVersion"] != str(version):
            yield f"{publication.channel}: a message of version {version} went out as {publication.version}"
        if version <= last.get(publication.channel, 0):
            yield f"{publication.channel}: version {version} after {last[publication.channel]}"
        last[publication.channel] = version


def channels_hold_only_their_own(history: History) -> Iterator[str]:
    """C2-10, P-1: a message stands on the channels of its own task or workflow, owner and grantees, of its tenant."""
    allowed: defaultdict[bytes, set[str]] = defaultdict(set)
    for row in history.tables.outbox:
        allowed[row.record.aggregate_id] |= set(channels_of(row.record, history.tables))
    for publication in history.publications:
        key, _ = _aggregate(publication.message)
        if publication.channel not in allowed[key]:
            yield f"{publication.channel}: holds a message of {key.hex()[-6:]}, which does not belong there"


def outbox_is_drained(history: History) -> Iterator[str]:
    """C2-12, O-4: after the faults every row is PUBLISHED."""
    left = Counter(row.status for row in history.tables.outbox if row.status != "PUBLISHED")
    if left:
        yield f"rows left in the outbox: {dict(left)}"


def without_faults_nothing_is_published_twice(history: History) -> Iterator[str]:
    """O-6, last sentence."""
    if not history.faultless:
        return
    seen = Counter((one.channel, *_aggregate(one.message)) for one in history.publications)
    for (channel, _, version), count in seen.items():
        if count > 1:
            yield f"{channel}: version {version} was published {count} times without any fault"


def channels_of(record: OutboxRecord, tables: FinalTables) -> tuple[str, ...]:
    """Every channel that a row's message must reach (P-1, P-4); grants as they are at the end."""
    owner = task_user_channel(record.tenant_id, record.owner_id)
    if record.projection is Projection.WORKFLOW_SUMMARY:
        return (owner,) if record.audience is Audience.OWNER else _shared_channels(record, tables)
    if record.projection is Projection.TASK_DETAIL:
        return (task_detail_channel(record.tenant_id, TaskId(record.aggregate_id)),)
    grants = tables.grants.get(TaskId(record.aggregate_id), ()) if record.audience is Audience.USERS else ()
    users = [grant.principal_id for grant in grants if grant.principal_type == "USER"]
    return tuple(dict.fromkeys([owner, *(task_user_channel(record.tenant_id, user) for user in users)]))


def _shared_channels(record: OutboxRecord, tables: FinalTables) -> tuple[str, ...]:
    workflow_id = WorkflowId(record.aggregate_id)
    grants = tables.workflows[workflow_id].grants
    users = [grant.principal_id for grant in grants if grant.principal_type == "USER"]
    others = [task_user_channel(record.tenant_id, user) for user in users if user != record.owner_id]
    return tuple(dict.fromkeys([workflow_summary_channel(record.tenant_id, workflow_id), *others]))


def _versions_received(publications: tuple[Publication, ...]) -> Mapping[tuple[str, bytes], set[int]]:
    received: defaultdict[tuple[str, bytes], set[int]] = defaultdict(set)
    for publication in publications:
        key, version = _aggregate(publication.message)
        received[publication.channel, key].add(version)
    return received


def _summaries_stored(tables: FinalTables) -> Mapping[tuple[bytes, int], set[bytes | None]]:
    """One of a task's version; of a workflow's one for its owner and one for everyone else."""
    stored: defaultdict[tuple[bytes, int], set[bytes | None]] = defaultdict(set)
    for row in filter(_is_summary, tables.outbox):
        stored[row.record.aggregate_id, row.record.aggregate_version].add(row.record.payload)
    return stored


def _is_summary(row: OutboxRow) -> bool:
    return row.record.projection is not Projection.TASK_DETAIL


def _aggregate(message: Mapping[str, str]) -> tuple[bytes, int]:
    """The id and version that a message is about."""
    if message["kind"] == "workflow.summary":
        return parse_workflow_id(message["workflowId"]) or b"", int(message["workflowVersion"])
    return parse_task_id(message["taskId"]) or b"", int(message["taskVersion"])
