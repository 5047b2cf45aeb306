"""Short heartbeat terms for a run of seconds: where the product's figures are constants, they are replaced here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final
from unittest.mock import patch

from taskstatus.bootstrap import health, service
from taskstatus.domain.heartbeat import TermBounds
from taskstatus.entrypoints.wire import decode
from taskstatus.runtime.health_reconciler import ReconcilerConfig
from taskstatus.runtime.heartbeat_coalescer import CoalescerConfig

INTERVAL_SECONDS, PERSIST_SECONDS = 1, 1
TIMEOUT_SECONDS = 3 * INTERVAL_SECONDS + PERSIST_SECONDS
"""The shortest that the product's rule allows for them."""
LOST_AFTER_SECONDS = 3
LOOK_SECONDS = 0.25
GRACE_SECONDS = 1
ANSWER_VARIABLE = "CHAOS_ANSWER_SECONDS"
ANSWER_SECONDS = float(os.environ.get(ANSWER_VARIABLE, "0.25"))
"""How long silent workers have to answer: a round waits for it, and must not make silence of others untold for long."""
SETTINGS: Final = {
    "TASKSTATUS_HEARTBEAT_PERSIST_SECONDS": str(PERSIST_SECONDS),
    "TASKSTATUS_HEALTH_GRACE_SECONDS": str(GRACE_SECONDS),
    "TASKSTATUS_WORKER_LOST_AFTER_SECONDS": str(LOST_AFTER_SECONDS),
}


@contextmanager
def short_terms() -> Iterator[None]:
    """A service that is wired in here allows timeouts of seconds, looks for silence often and retries beats soon."""
    reconciler = partial(ReconcilerConfig, busy_pause_seconds=0.1, idle_pause_seconds=LOOK_SECONDS)
    coalescer = partial(
        CoalescerConfig, first_pause_seconds=0.1, longest_pause_seconds=0.5, answer_seconds=ANSWER_SECONDS
    )
    with ExitStack() as patches:
        patches.enter_context(patch.object(decode, "HEARTBEAT_PERSIST_SECONDS", PERSIST_SECONDS))
        bounds = TermBounds(persist_seconds=PERSIST_SECONDS)
        patches.enter_context(patch.object(service, "_term_bounds", lambda _settings: bounds))
        patches.enter_context(patch.object(service, "CoalescerConfig", coalescer))
        patches.enter_context(patch.object(health, "ReconcilerConfig", reconciler))
        yield
