"""From claimed rows to messages: each summary row as itself, each task's detail once, as it stands now (O-3, O-6, P-2).

Summary channels carry facts, so a summary row is published with the payload that its own transaction stored. A detail
channel carries states of one task behind a version gate, so all pending versions of a task become one message, rendered
from the writer database and numbered with the version that was read. That number goes into every detail publication:
one without it would reset the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import orjson

from relay.publisher import Outcome, Permanent, Publication, Retryable
from relay.rows import ClaimedRow
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.channels import task_detail_channel, task_user_channel, workflow_summary_channel
from taskstatus.domain.ids import TaskId, WorkflowId
from taskstatus.domain.records import AggregateType, Audience, OutboxKind, Projection, TaskView
from taskstatus.domain.state import Grant

PAYLOAD_MAX_BYTES: Final = 256 * 1024
USER_PRINCIPAL: Final = "USER"

RenderDetail = Callable[[TaskView], dict[str, object]]
Shape = tuple[str, str, str]
"""(kind, aggregate type, projection) of a row."""

USER_SUMMARY: Final[Shape] = (OutboxKind.PUBLISH, AggregateType.TASK, Projection.USER_SUMMARY)
TASK_DETAIL: Final[Shape] = (OutboxKind.PUBLISH, AggregateType.TASK, Projection.TASK_DETAIL)
WORKFLOW_SUMMARY: Final[Shape] = (OutboxKind.PUBLISH, AggregateType.WORKFLOW, Projection.WORKFLOW_SUMMARY)


class RenderReader(Protocol):
    """What rendering reads, from the writer database; the methods of ``TaskReader`` with these names."""

    async def task_views(self, task_ids: Sequence[TaskId], *, with_trigger: bool) -> Mapping[TaskId, TaskView]:
        """The tasks as they are now; unknown ids are absent."""
        ...

    async def task_grants(self, task_ids: Sequence[TaskId]) -> Mapping[TaskId, tuple[Grant, ...]]:
        """The grants in force; tasks without one are absent."""
        ...

    async def workflow_grants(self, workflow_ids: Sequence[WorkflowId]) -> Mapping[WorkflowId, tuple[Grant, ...]]:
        """The grants in force; workflows without one are absent."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """A publication and the rows whose fate is its own."""

    publication: Publication
    rows: tuple[ClaimedRow, ...]


@dataclass(slots=True)
class Rendering:
    """What became of a batch of rows; every row is in exactly one place."""

    messages: list[Message] = field(default_factory=list)
    done: list[ClaimedRow] = field(default_factory=list)
    """Nothing is left to tell: the aggregate is gone."""
    failed: list[tuple[ClaimedRow, Outcome]] = field(default_factory=list)

    def fail(self, rows: Sequence[ClaimedRow], outcome: Outcome) -> None:
        """Note that nothing can be published for these rows."""
        self.failed.extend((row, outcome) for row in rows)


class BatchRenderer:
    """Renders batches with at most one read of grants of each kind and one of views, whatever their size."""

    def __init__(
        self,
        reader: RenderReader,
        render_detail: RenderDetail,
        version_epoch: str,
        *,
        payload_max_bytes: int = PAYLOAD_MAX_BYTES,
    ) -> None:
        self._reader = reader
        self._render_detail = render_detail
        self._version_epoch = version_epoch
        self._payload_max_bytes = payload_max_bytes

    async def render(self, rows: Sequence[ClaimedRow]) -> Rendering:
        """Render every row; one that cannot be understood fails alone. Raises StoreUnavailableError."""
        rendering = Rendering()
        grants = await self._grants(rows)
        viewers = await self._viewers(rows)
        details: dict[TaskId, list[ClaimedRow]] = {}
        for row in rows:
            shape = _shape(row)
            if shape == TASK_DETAIL:
                details.setdefault(TaskId(row.aggregate_id), []).append(row)
            elif shape == USER_SUMMARY:
                self._add_stored(rendering, row, _summary_channels(row, grants.get(TaskId(row.aggregate_id))))
            elif shape == WORKFLOW_SUMMARY:
                self._add_stored(rendering, row, _workflow_channels(row, viewers.get(WorkflowId(row.aggregate_id))))
            else:
                rendering.fail([row], Permanent(f"no rule for {'/'.join(shape)}"))
        await self._add_details(rendering, details)
        return rendering

    async def _grants(self, rows: Sequence[ClaimedRow]) -> Mapping[TaskId, tuple[Grant, ...]]:
        shared = {TaskId(row.aggregate_id) for row in rows if row.audience == Audience.USERS}
        return await self._reader.task_grants(sorted(shared)) if shared else {}

    async def _viewers(self, rows: Sequence[ClaimedRow]) -> Mapping[WorkflowId, tuple[Grant, ...]]:
        seen = {WorkflowId(row.aggregate_id) for row in rows if _shape(row) == WORKFLOW_SUMMARY and _is_shared(row)}
        return await self._reader.workflow_grants(sorted(seen)) if seen else {}

    def _add_stored(self, rendering: Rendering, row: ClaimedRow, channels: tuple[str, ...] | None) -> None:
        if channels is None:
            rendering.fail([row], Permanent(f"no rule for audience {row.audience}"))
        elif row.payload is None:
            rendering.fail([row], Permanent("a summary row without a payload"))
        elif len(row.payload) > self._payload_max_bytes:
            rendering.fail([row], self._too_large(row.payload))
        else:
            key = _idempotency_key(row, row.aggregate_version)
            rendering.messages.append(Message(Publication(channels, row.payload, key), (row,)))

    async def _add_details(self, rendering: Rendering, details: Mapping[TaskId, list[ClaimedRow]]) -> None:
        if not details:
            return
        views, unreadable = await self._views(sorted(details))
        for task_id, rows in details.items():
            if task_id in unreadable:
                rendering.fail(rows, unreadable[task_id])
            elif task_id not in views:
                rendering.done.extend(rows)
            else:
                self._add_detail(rendering, rows, views[task_id])

    async def _views(self, task_ids: Sequence[TaskId]) -> tuple[dict[TaskId, TaskView], dict[TaskId, Permanent]]:
        """All views in one call; when a row cannot be decoded, one by one, so that the task at fault stands alone."""
        try:
            return dict(await self._reader.task_views(task_ids, with_trigger=True)), {}
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one task's rows cause must not stop the other tasks
            if len(task_ids) == 1:
                return {}, {task_ids[0]: _defect("the task cannot be read", error)}
        views: dict[TaskId, TaskView] = {}
        unreadable: dict[TaskId, Permanent] = {}
        for task_id in task_ids:
            found, failed = await self._views([task_id])
            views |= found
            unreadable |= failed
        return views, unreadable

    def _add_detail(self, rendering: Rendering, rows: Sequence[ClaimedRow], view: TaskView) -> None:
        version = view.task.version
        ahead = [row for row in rows if row.aggregate_version > version]
        covered = tuple(row for row in rows if row.aggregate_version <= version)
        rendering.fail(ahead, Retryable(f"the state that was read has version {version}, older than the row"))
        if not covered:
            return
        try:
            data = self._detail(view)
        except Exception as error:  # noqa: BLE001 - as above
            rendering.fail(covered, _defect("the detail cannot be rendered", error))
            return
        if len(data) > self._payload_max_bytes:
            rendering.fail(covered, self._too_large(data))
            return
        channel = task_detail_channel(covered[0].tenant_id, TaskId(covered[0].aggregate_id))
        key = _idempotency_key(covered[0], version)
        publication = Publication((channel,), data, key, version=version, version_epoch=self._version_epoch)
        rendering.messages.append(Message(publication, covered))

    def _detail(self, view: TaskView) -> bytes:
        """The message; that of a very large task lacks its earlier runs, and if need be its steps, which it says.

        A page that is told ``stepsOmitted`` reads the snapshot; without any message it would stay on an old state.
        """
        data = orjson.dumps(self._render_detail(view))
        if len(data) > self._payload_max_bytes and len(view.runs) > 1:
            view = replace(view, runs=view.runs[-1:])
            data = orjson.dumps(self._render_detail(view))
        if len(data) > self._payload_max_bytes and view.steps:
            data = orjson.dumps({**self._render_detail(replace(view, steps=())), "stepsOmitted": True})
        return data

    def _too_large(self, data: bytes) -> Permanent:
        return Permanent(f"the message has {len(data)} bytes, at most {self._payload_max_bytes} are allowed")


def _summary_channels(row: ClaimedRow, grants: Sequence[Grant] | None) -> tuple[str, ...] | None:
    """The channels of a task summary, or None for an audience that it cannot have."""
    owner = task_user_channel(row.tenant_id, row.owner_id)
    if row.audience == Audience.OWNER:
        return (owner,)
    if row.audience != Audience.USERS:
        return None
    users = [grant.principal_id for grant in grants or () if grant.principal_type == USER_PRINCIPAL]
    return tuple(dict.fromkeys([owner, *(task_user_channel(row.tenant_id, user) for user in users)]))


def _workflow_channels(row: ClaimedRow, grants: Sequence[Grant] | None) -> tuple[str, ...] | None:
    """The channels of a workflow summary, or None for an audience that it cannot have.

    The whole goes to the owner alone; what everyone may see goes to the workflow's own channel and to each person who
    has a grant on it, but never to the owner's, where it would stand beside the whole (P-4).
    """
    if row.audience == Audience.OWNER:
        return (task_user_channel(row.tenant_id, row.owner_id),)
    if not _is_shared(row):
        return None
    users = [grant.principal_id for grant in grants or () if grant.principal_type == USER_PRINCIPAL]
    others = [task_user_channel(row.tenant_id, user) for user in users if user != row.owner_id]
    return tuple(dict.fromkeys([workflow_summary_channel(row.tenant_id, WorkflowId(row.aggregate_id)), *others]))


def _is_shared(row: ClaimedRow) -> bool:
    return row.audience == Audience.VIEWERS


def _shape(row: ClaimedRow) -> Shape:
    return (row.kind, row.aggregate_type, row.projection)


def _idempotency_key(row: ClaimedRow, rendered_version: int) -> str:
    """Never the row's id: a retry that renders a newer state under the old key would be swallowed."""
    return f"{row.kind}:{row.projection}:{row.aggregate_id.hex()}:{rendered_version}"


def _defect(what: str, error: Exception) -> Permanent:
    return Permanent(f"{what}: {type(error).__name__}: {error}")
