"""Ids of facts and commands. An id is made once for a fact; every re-send carries the same one."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable

EventIds = Callable[[str, str, int], str]
"""Makes an event's id from the execution's (or task's) id, the event type and the source sequence."""


def random_event_ids(owner_id: str, event_type: str, source_seq: int) -> str:
    """A new random id."""
    return f"evt_{uuid.uuid4().hex}"


def deterministic_event_ids(owner_id: str, event_type: str, source_seq: int) -> str:
    """The same id for the same place in the same stream, so that a reconciler can make the same event again (W-2).

    The content must then be the same too: other content under the id is refused with IDEMPOTENCY_CONFLICT.
    """
    digest = hashlib.sha256("\x1f".join((owner_id, event_type, str(source_seq))).encode())
    return f"evt_{digest.hexdigest()[:32]}"


def random_command_id() -> str:
    """A new random id of a command."""
    return f"cmd_{uuid.uuid4().hex}"


def command_id_of(method: str, target_id: str, key: str) -> str:
    """The same id for the same method, target and key; a random one without a key (R-6).

    The id is unique within its task or workflow: a key may be used again for another method or another task.
    """
    if not key:
        return random_command_id()
    digest = hashlib.sha256("\x1f".join((method, target_id, key)).encode())
    return f"cmd_{digest.hexdigest()[:32]}"
