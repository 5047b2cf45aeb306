"""Mutants of lists, cursors and look-ups: what a page holds, what a cursor is good for, who sees what (Q-1, P-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from taskstatus.application import cursors, lookups, query, task_lists
from taskstatus.application.identity import ServiceIdentity
from taskstatus.application.lookups import Lookups
from taskstatus.application.task_lists import TaskLists
from taskstatus.domain.state import TaskEnvelope
from taskstatus.domain.task_filter import TaskFilter
from taskstatus.entrypoints.wire import decode_lists

from .mutant import Mutant
from .patching import Apply, always, around, instead_of, method

CURSORS, PAGES, STATUSES, LOOKUPS = "cursors", "pages", "many statuses", "look-ups"

Change = Callable[..., Any]


def list_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _of_any_query(original: Change, _: Any, position: bytes) -> Any:
    return original((), position)


def _unchecked(original: Change, bound: Any, cursor: str, size: int) -> bytes:
    try:
        return bytes(original(bound, cursor, size))
    except Exception:
        packed = cursors.base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_")
        if len(packed) != size + cursors.CHECK_BYTES:
            raise
        return packed[:size]


def _any_spelling(original: Change, bound: Any, cursor: str, size: int) -> bytes:
    return bytes(original(bound, cursor.rstrip("=").strip(), size))


def _longer_words(original: Change, bound: Any, cursor: str, size: int) -> bytes:
    for end in range(len(cursor), 0, -1):
        if len(cursors.base64.urlsafe_b64decode(cursor[:end] + "=" * (-end % 4))) == size + cursors.CHECK_BYTES:
            return bytes(original(bound, cursor[:end], size))
    return bytes(original(bound, cursor, size))


def _in_seconds(original: Change, moment: Any) -> int:
    return int(original(moment.replace(microsecond=0)))


def _without_condition(index: int) -> Change:
    """A cursor does not know one condition of its query."""

    def change(original: Change, chosen: TaskFilter) -> Any:
        parts = list(original(chosen))
        parts[index] = None
        return tuple(parts)

    return change


def _of_any_caller(original: Change, identity: Any) -> Any:
    return original(identity)[:1]


def _of_any_scope(original: Change, identity: Any) -> Any:
    return original(identity)[:2] if isinstance(identity, ServiceIdentity) else original(identity)


def _page_one_short(original: Change, bound: Any, page: Any) -> Any:
    return original(bound, replace(page, next_position=None))


def _up_to_any(original: Change, limit: int) -> int:
    return int(original(min(limit, task_lists.PAGE_LIMIT_MAX))) if limit >= 0 else int(original(limit))


def _all_by_default(original: Change, limit: int) -> int:
    return int(original(limit or task_lists.PAGE_LIMIT_MAX))


def _no_negative(original: Change, limit: int) -> int:
    return int(original(max(limit, 0)))


async def _named_twice(original: Change, self: TaskLists, identity: Any, workflow: str, chosen: Any, *args: Any) -> Any:
    return await original(self, identity, workflow, replace(chosen, workflow_id=None), *args)


async def _any_person(original: Change, self: TaskLists, identity: Any, workflow_id: Any) -> None:
    access = await self._lists.workflow_access(workflow_id)
    if access is not None and not isinstance(identity, ServiceIdentity):
        identity = replace(identity, tenant_id=access.tenant_id)
    await original(self, identity, workflow_id)


async def _any_service(original: Change, self: TaskLists, identity: Any, workflow_id: Any) -> None:
    access = await self._lists.workflow_access(workflow_id)
    if access is not None and isinstance(identity, ServiceIdentity):
        identity = replace(identity, authority_scope=access.authority_scope)
    await original(self, identity, workflow_id)


async def _any_tenants_service(original: Change, self: TaskLists, identity: Any, workflow_id: Any) -> None:
    access = await self._lists.workflow_access(workflow_id)
    if access is not None and isinstance(identity, ServiceIdentity):
        identity = replace(identity, tenant_id=access.tenant_id)
    await original(self, identity, workflow_id)


async def _owner_or_grantee_only(original: Change, self: TaskLists, identity: Any, workflow_id: Any) -> None:
    access = await self._lists.workflow_access(workflow_id)
    if access is not None and not isinstance(identity, ServiceIdentity):
        owns = access.owner_id == identity.user_id
        if not owns and not task_lists.permits(access.grants, identity, "VIEW"):
            identity = replace(identity, user_id="nobody", projects=frozenset(), roles=frozenset())
    await original(self, identity, workflow_id)


async def _everybody(*_: Any) -> None:
    return None


def _reader_is(kind: str) -> Apply:
    """Every list is a person's, or everybody's."""

    def change(original: Change, reader: Any, *args: Any, **named: Any) -> Any:
        return original(None if kind == "nobody" else reader, *args, **named)

    return around(task_lists.TaskListQuery, change)


def _newest_first(original: Change, *args: Any, **named: Any) -> Any:
    asked = original(*args, **named)
    return replace(asked, oldest_first=False)


def _oldest_first(original: Change, *args: Any, **named: Any) -> Any:
    asked = original(*args, **named)
    return replace(asked, oldest_first=True)


def _greater_is_known(original: Change, self: TaskLists, identity: Any, asked: Any, known: Any) -> Any:
    async def run() -> Any:
        found = await original(self, identity, asked, known)
        newer = [
            task
            for task in found.tasks
            if any(version > task.version and parse(key) == task.envelope.task_id for key, version in known.items())
        ]
        kept = tuple(task for task in found.tasks if task not in newer)
        return replace(found, tasks=kept)

    parse = task_lists.parse_task_id
    return run()


def _never_known(original: Change, self: TaskLists, identity: Any, asked: Any, known: Any) -> Any:
    return original(self, identity, asked, dict.fromkeys(known, 0))


def _twice_allowed(original: Change, asked: Any, known: Any) -> Any:
    return original(list(dict.fromkeys(asked)), known)


def _any_known(original: Change, asked: Any, known: Any) -> Any:
    return original(asked, {key: version for key, version in known.items() if key in asked})


def _any_number_of_ids(original: Change, asked: Any, known: Any) -> Any:
    try:
        return original(asked, known)
    except Exception:
        if len(asked) <= task_lists.STATUSES_MAX:
            raise
        return original(asked[: task_lists.STATUSES_MAX], known)


def _sees_all(original: Change, identity: Any, envelope: TaskEnvelope, grants: Any) -> bool:
    """A service sees other scopes of its tenant."""
    if isinstance(identity, ServiceIdentity):
        identity = replace(identity, authority_scope=envelope.authority_scope)
    return bool(original(identity, envelope, grants))


def _service_of_any_tenant(original: Change, identity: Any, envelope: TaskEnvelope, grants: Any) -> bool:
    if isinstance(identity, ServiceIdentity):
        identity = replace(identity, tenant_id=envelope.tenant_id)
    return bool(original(identity, envelope, grants))


def _grants_unread(original: Change, identity: Any, envelope: TaskEnvelope, _: Any) -> bool:
    return bool(original(identity, envelope, ()))


async def _other_scopes_too(original: Change, self: Lookups, identity: Any, ref: Any, scope: str) -> Any:
    if isinstance(identity, ServiceIdentity) and scope:
        identity = replace(identity, authority_scope=scope)
    return await original(self, identity, ref, scope)


async def _scope_unheard(original: Change, self: Lookups, identity: Any, ref: Any, scope: str) -> Any:
    return await original(self, identity, ref, scope if isinstance(identity, ServiceIdentity) else "")


def _found_by(name: str, position: int, value: object) -> Apply:
    """Events are looked for elsewhere: the reader is asked with another argument."""

    async def change(original: Change, self: Lookups, caller: Any, text: str) -> Any:
        return await original(_Asking(self, name, position, value), caller, text)

    method_of = {"events_by_id": "event", "events_of_trace": "trace"}[name]
    return method(Lookups, method_of, change)


class _Asking:
    """Look-ups whose reader is asked with one argument changed."""

    def __init__(self, own: Lookups, name: str, position: int, value: object) -> None:
        self._lists = _Reader(own._lists, name, position, value)


class _Reader:
    def __init__(self, reader: Any, name: str, position: int, value: object) -> None:
        self._reader = reader
        self._changed = (name, position, value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._reader, name)
        changed, position, value = self._changed
        if name != changed:
            return found

        def ask(*args: Any) -> Any:
            return found(*args[:position], value, *args[position + 1 :])

        return ask


def _whole_trace(original: Change, events: Any, truncated: bool) -> Any:
    del truncated
    return original(events, False)


def _moment_cut(original: Change, path: str, message: Any, name: str) -> Any:
    moment = original(path, message, name)
    return moment if moment is None else moment - timedelta(microseconds=1)


def _lifecycle_unchecked(original: Change, path: str, number: int) -> Any:
    return original(path, number or 1)


def _nothing_odd(original: Change, written: str) -> Any:
    try:
        return original(written)
    except Exception:
        return None


def _no_position(original: Change, micros: int) -> Any:
    return original(min(max(micros, 0), cursors._ALL_MICROSECONDS))


def _bounded_memberships(limit: int) -> Apply:
    def apply() -> None:
        task_lists.MEMBERSHIPS_MAX = limit

    return apply


def _of_no_query(original: Change, bound: Any, cursor: str, size: int) -> bytes:
    return bytes(original((*bound, "no query"), cursor, size))


CONDITIONS = ("lifecycles", "type", "workflow", "first time", "last time", "title", "batch", "parent")
"""What a list may be cut to, in the order in which a cursor knows it."""

RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    CURSORS: {
        "a cursor is of any query": ("Q-1", around(cursors._check, _of_any_query)),
        "a cursor may be changed": ("Q-1", around(cursors.read_cursor, _unchecked)),
        "a cursor may be padded": ("Q-1", around(cursors.read_cursor, _any_spelling)),
        "a cursor may go on": ("Q-1", around(cursors.read_cursor, _longer_words)),
        "a cursor knows seconds": ("Q-1", around(cursors.to_micros, _in_seconds)),
        "a position in no time": ("Q-1", around(cursors.from_micros, _no_position)),
        "a cursor is of any caller": ("Q-1", around(task_lists._caller_parts, _of_any_caller)),
        "a cursor is of any scope": ("Q-1", around(task_lists._caller_parts, _of_any_scope)),
        **{
            f"a cursor does not know the {name}": ("Q-1", around(task_lists._parts, _without_condition(index)))
            for index, name in enumerate(CONDITIONS)
        },
        "no cursor is any good": ("Q-1", around(cursors.read_cursor, _of_no_query)),
    },
    PAGES: {
        "the first page is the last": ("Q-1", around(task_lists._listing, _page_one_short)),
        "pages of any size": ("Q-1", around(task_lists._page_limit, _up_to_any)),
        "pages of less than nothing": ("Q-1", around(task_lists._page_limit, _no_negative)),
        "a page is as large as it may be": ("Q-1", around(task_lists._page_limit, _all_by_default)),
        "a workflow is named twice": ("Q-1", method(TaskLists, "workflow_tasks", _named_twice)),
        "lists of one membership less": ("Q-1", _bounded_memberships(task_lists.MEMBERSHIPS_MAX - 1)),
        "lists of one membership more": ("Q-1", _bounded_memberships(task_lists.MEMBERSHIPS_MAX + 1)),
        "people of any tenant": ("P-4", method(TaskLists, "_check_visible", _any_person)),
        "services of any scope": ("P-4", method(TaskLists, "_check_visible", _any_service)),
        "services of any tenant": ("P-4", method(TaskLists, "_check_visible", _any_tenants_service)),
        "a granted task does not show its workflow": (
            "P-4",
            method(TaskLists, "_check_visible", _owner_or_grantee_only),
        ),
        "every workflow is there": ("P-4", method(TaskLists, "_check_visible", _everybody)),
        "every list is everybody's": ("P-4", _reader_is("nobody")),
        "a workflow begins with its newest": ("P-4", around(task_lists.TaskListQuery, _newest_first)),
        "my tasks begin with the oldest": ("Q-1", around(task_lists.TaskListQuery, _oldest_first)),
        "a filter's time is the microsecond before": ("Q-1", around(decode_lists._moment, _moment_cut)),
        "no status is a status": ("Q-1", around(decode_lists._lifecycle, _lifecycle_unchecked)),
        "an odd workflow is none": ("Q-1", around(decode_lists._workflow_id, _nothing_odd)),
        "an odd parent is none": ("Q-1", around(decode_lists._parent_task_id, _nothing_odd)),
    },
    STATUSES: {
        "a greater version is known": ("Q-1", method(TaskLists, "statuses", _greater_is_known)),
        "no version is known": ("Q-1", method(TaskLists, "statuses", _never_known)),
        "an id may stand twice": ("Q-1", around(task_lists._parse_asked, _twice_allowed)),
        "a version of no id": ("Q-1", around(task_lists._parse_asked, _any_known)),
        "any number of ids": ("Q-1", around(task_lists._parse_asked, _any_number_of_ids)),
        "other scopes are seen": ("P-4", around(query.may_view, _sees_all)),
        "other tenants are seen": ("P-4", around(query.may_view, _service_of_any_tenant)),
        "grants are not read": ("P-4", around(query.may_view, _grants_unread)),
    },
    LOOKUPS: {
        "a service names another scope": ("ID-5", method(Lookups, "external_ref", _other_scopes_too)),
        "a person's scope is not heard": ("ID-5", method(Lookups, "external_ref", _scope_unheard)),
        "a number shows what one may not see": ("ID-5", instead_of(query.may_view, always(True))),
        "events of any tenant": ("Q-3", _found_by("events_by_id", 0, "t-01")),
        "events of any scope": ("Q-3", _found_by("events_by_id", 1, "documents")),
        "traces of any tenant": ("Q-3", _found_by("events_of_trace", 0, "t-01")),
        "traces of any scope": ("Q-3", _found_by("events_of_trace", 1, "documents")),
        "any number of events": ("Q-3", _found_by("events_by_id", 3, 2**31)),
        "a cut trace is whole": ("Q-3", around(lookups.Trace, _whole_trace)),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
