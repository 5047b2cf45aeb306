"""Business statuses: the generic registry that unclassified tasks use (L-4, names.md *Vocabulary*)."""

from __future__ import annotations

from collections.abc import Mapping

from taskstatus.domain.lifecycle import Lifecycle

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


def generic_name(lifecycle: Lifecycle) -> str:
    """The business status that a task takes when its lifecycle changes and the event names none (E-7)."""
    return lifecycle.value
