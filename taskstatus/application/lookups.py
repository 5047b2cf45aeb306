"""From what a caller knows to tasks and events: a number of another system, an event, a trace (Q-3, ID-5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from taskstatus.application.identity import Identity, ServiceIdentity
from taskstatus.application.ports_lists import RecordedEvent, TaskListReader
from taskstatus.application.query import may_view, task_not_found
from taskstatus.domain import text
from taskstatus.domain.errors import invalid
from taskstatus.domain.state import ExternalRef, TaskState

EVENTS_MAX = 100
"""Events of one id that are shown: an id is unique within its task only."""
TRACE_EVENTS_MAX = 500

_TRACE_ID = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """The tasks that a number names; several only where scopes use the same number."""

    tasks: tuple[TaskState, ...]
    as_of: datetime


@dataclass(frozen=True, slots=True)
class Trace:
    """The first events of a trace, the oldest first."""

    events: Sequence[RecordedEvent]
    truncated: bool
    """Whether there are more."""


class Lookups:
    """LookupExternalRef, LookupEvent and ListTraceEvents."""

    def __init__(self, lists: TaskListReader) -> None:
        self._lists = lists

    async def external_ref(self, identity: Identity, ref: ExternalRef, authority_scope: str) -> NamedTasks:
        """The tasks of a number that the caller may see; people name a scope, or look in every scope of their tenant.

        Raises RefusedError TASK_NOT_FOUND.
        """
        scope = authority_scope or None
        if isinstance(identity, ServiceIdentity):
            if scope not in (None, identity.authority_scope):
                raise task_not_found()
            scope = identity.authority_scope
        ids = await self._lists.referenced(identity.tenant_id, scope, ref)
        states = await self._lists.states(ids, with_grants=not isinstance(identity, ServiceIdentity))
        found = [states.tasks[task_id] for task_id in ids if task_id in states.tasks]
        grants = states.grants
        seen = tuple(t for t in found if may_view(identity, t.envelope, grants.get(t.envelope.task_id, ())))
        if not seen:
            raise task_not_found()
        return NamedTasks(seen, states.as_of)

    async def event(self, caller: ServiceIdentity, event_id: str) -> Sequence[RecordedEvent]:
        """The events of the caller's scope with this id. Raises RefusedError INVALID_ARGUMENT."""
        text.check_id("eventId", event_id, text.EVENT_ID_MAX)
        return await self._lists.events_by_id(caller.tenant_id, caller.authority_scope, event_id, EVENTS_MAX)

    async def trace(self, caller: ServiceIdentity, trace_id_text: str) -> Trace:
        """The events of the caller's scope in a trace. Raises RefusedError INVALID_ARGUMENT."""
        if not _TRACE_ID.match(trace_id_text) or trace_id_text == "0" * 32:
            raise invalid("traceId", "must be 32 digits of 0-9 a-f, not all zero")
        trace_id, limit = bytes.fromhex(trace_id_text), TRACE_EVENTS_MAX
        events = await self._lists.events_of_trace(caller.tenant_id, caller.authority_scope, trace_id, limit + 1)
        return Trace(events[:limit], len(events) > limit)
