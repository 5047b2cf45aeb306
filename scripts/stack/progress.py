"""What the developer sees of a step: its name at once, a sign of life every few seconds, its time at the end."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

BEAT_SECONDS = 10.0
"""How long a step may be silent before it says that it is still running."""

SLOWEST_BEAT_SECONDS = 30.0
"""A long step says so less and less often, down to this."""


class StackError(Exception):
    """A failure that a developer can mend; the text says what is wrong, ``remedy`` which command mends it."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  to mend it: {self.remedy}" if self.remedy else message


@dataclass
class Progress:
    """Prints steps to ``out`` and remembers how long each took (seconds)."""

    out: TextIO = field(default_factory=lambda: sys.stderr)
    beat_seconds: float = BEAT_SECONDS
    timings: list[tuple[str, float]] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Print one line at once."""
        print(text, file=self.out, flush=True)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Announce ``name``, show that it lives while the block runs, print and keep its time."""
        started = time.monotonic()
        self.say(f"  {name} ...")
        done = threading.Event()
        beat = threading.Thread(target=self._beat, args=(name, started, done), daemon=True)
        beat.start()
        outcome = "failed"
        try:
            yield
            outcome = "done"
        finally:
            done.set()
            beat.join()
            seconds = time.monotonic() - started
            self.timings.append((name, seconds))
            self.say(f"  {name}: {outcome} in {seconds:.1f} s")

    def _beat(self, name: str, started: float, done: threading.Event) -> None:
        pause = self.beat_seconds
        while not done.wait(pause):
            self.say(f"  {name}: still working, {time.monotonic() - started:.0f} s so far")
            pause = min(2 * pause, SLOWEST_BEAT_SECONDS)
