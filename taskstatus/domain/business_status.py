"""Business statuses: what a task is in its team's words, each with the one lifecycle that it means (L-4).

A task type has versions of a definition of its own. The generic statuses exist besides: the service itself sets them
(E-7, L-6), unclassified tasks have no others, and they count as version 0 of every type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.quick_dataclasses import dataclass

RETRY_WAIT = "RETRY_WAIT"
WAITING_USER_ACTION = "WAITING_USER_ACTION"

GENERIC_STATUSES: Mapping[str, Lifecycle] = {
    **{lifecycle.value: lifecycle for lifecycle in Lifecycle},
    RETRY_WAIT: Lifecycle.RUNNING,
    WAITING_USER_ACTION: Lifecycle.RUNNING,
}
"""Each registered status and the one lifecycle that it maps to."""

WAITING_STATUSES = frozenset({RETRY_WAIT, WAITING_USER_ACTION})
"""Set by a failure policy, and taken back when the next attempt is activated."""

GENERIC_STATUS_VERSION = 0
"""The version number of the generic statuses; published definitions begin at 1."""


class Severity(StrEnum):
    """How loud a status is shown."""

    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class StatusPresentation:
    """Names that a page resolves itself, never markup; empty where it has none."""

    color_token: str = ""
    icon_key: str = ""
    title_key: str = ""
    description_key: str = ""


NO_PRESENTATION = StatusPresentation()


@dataclass(frozen=True, slots=True)
class BusinessStatus:
    """One status of a task type."""

    code: str
    lifecycle: Lifecycle
    """The one that it means; an event cannot choose another."""
    allowed_from: frozenset[str] | None = None
    """The statuses after which it may come; None: any."""
    display_name: str = ""
    severity: Severity = Severity.INFO
    sort_order: int = 0
    presentation: StatusPresentation = NO_PRESENTATION

    def may_follow(self, current: str) -> bool:
        """Whether a task in ``current`` may be given it; staying is always allowed."""
        return self.allowed_from is None or current == self.code or current in self.allowed_from


@dataclass(frozen=True, slots=True)
class StatusDefinition:
    """One published version of the statuses of a task type; immutable, since tasks are bound to it for life (L-5)."""

    task_type: str
    version: int
    statuses: tuple[BusinessStatus, ...]
    _by_code: Mapping[str, BusinessStatus] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_code", {status.code: status for status in self.statuses})

    def status(self, code: str) -> BusinessStatus | None:
        """What callers may report under this code; None for everything that the definition does not list."""
        return self._by_code.get(code)

    def contradicts(self, code: str, lifecycle: Lifecycle) -> bool:
        """Whether it gives the status another lifecycle than this."""
        status = self._by_code.get(code)
        return status is not None and status.lifecycle is not lifecycle


@dataclass(frozen=True, slots=True)
class StatusProblem:
    """Why a list of statuses is no definition."""

    index: int
    """Which status of the list."""
    field: str
    """Of the status: ``code``, ``lifecycle`` or ``allowed_from``."""
    message: str


def problems_of(statuses: Sequence[BusinessStatus]) -> list[StatusProblem]:
    """What keeps the statuses from being a definition; empty when they are one.

    Not every lifecycle needs a status: where none is listed the service's own, generic one stands.
    """
    known = {status.code for status in statuses} | GENERIC_STATUSES.keys()
    seen: set[str] = set()
    problems: list[StatusProblem] = []
    for index, status in enumerate(statuses):
        if status.code in seen:
            problems.append(StatusProblem(index, "code", f"{status.code} stands twice"))
        seen.add(status.code)
        generic = GENERIC_STATUSES.get(status.code)
        if generic is not None and generic is not status.lifecycle:
            problems.append(StatusProblem(index, "lifecycle", f"{status.code} is generic and always means {generic}"))
        unknown = sorted((status.allowed_from or frozenset()) - known)
        if unknown:
            problems.append(StatusProblem(index, "allowed_from", f"{unknown[0]} is no status of this definition"))
    return problems


def generic_statuses(task_type: str) -> StatusDefinition:
    """The generic statuses as version 0 of a type, for pages that ask what a task may show."""
    statuses = tuple(
        BusinessStatus(code, lifecycle, sort_order=order)
        for order, (code, lifecycle) in enumerate(GENERIC_STATUSES.items())
    )
    return StatusDefinition(task_type, GENERIC_STATUS_VERSION, statuses)


def lifecycle_of(code: str, statuses: StatusDefinition | None) -> Lifecycle | None:
    """The lifecycle of a status that a caller reports; None where it is not registered.

    ``statuses``: what the task is bound to; None for the generic ones.
    """
    if statuses is None:
        return GENERIC_STATUSES.get(code)
    status = statuses.status(code)
    return None if status is None else status.lifecycle


def may_follow(code: str, current: str, statuses: StatusDefinition | None) -> bool:
    """Whether a registered status may come after the current one; the generic ones follow any."""
    status = None if statuses is None else statuses.status(code)
    return status is None or status.may_follow(current)


def generic_name(lifecycle: Lifecycle) -> str:
    """The business status that a task takes when its lifecycle changes and the event names none (E-7)."""
    return lifecycle.value
