"""Running one seed from nothing to its verdict; the same seed gives the same run, in any process."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.history.model import History
from tests.history.validators import Violation, check
from tests.simulation.faults import Trace
from tests.simulation.loop import SimulatedLoop, StuckError
from tests.simulation.options import Fault, Options, options_of, stream
from tests.simulation.world import World

MOST_CALLBACKS = 400_000


@dataclass(frozen=True, slots=True)
class Report:
    """What one seed showed."""

    options: Options
    violations: tuple[Violation, ...]
    history: History | None
    """None when the run itself broke off."""
    faults: Counter[Fault]
    trace: tuple[str, ...] = field(default=())

    @property
    def fingerprint(self) -> str:
        """The same for the same run, whatever the process."""
        return hashlib.sha256(repr(self.history).encode()).hexdigest()[:16]


def run_seed(seed: int, *, trace_wanted: bool = False) -> Report:
    """Run and judge one seed."""
    options = options_of(seed)
    loop = SimulatedLoop(stream(seed, "schedule"), options.ordering, most_callbacks=MOST_CALLBACKS)
    trace = Trace(loop, wanted=trace_wanted)
    history: History | None = None
    faults: Counter[Fault] = Counter()
    try:
        with _quiet():
            world = World(options, loop, trace)
            faults = world.faults.counts
            history = loop.run_until_complete(world.run())
        violations = check(history)
    except StuckError as stuck:
        violations = [Violation("every_event_is_answered", f"the run broke off: {stuck}")]
    finally:
        _close(loop)
    return Report(options, tuple(violations), history, faults, tuple(trace.lines))


def _close(loop: SimulatedLoop) -> None:
    """Let what still waits end, so that no coroutine is left half-way."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
        for task in left:
            if not task.cancelled():
                task.exception()
    loop.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Faults make the product log warnings by the thousand; the trace tells them better."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
