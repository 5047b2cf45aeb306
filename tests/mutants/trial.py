"""One trial: a fork of the process that has collected the tests, one mutant applied, its tests run until one fails.

The child tells its result through a pipe and ends without clean-up, so that nothing of the mutant outlives it. A test
that hangs under a mutant is failed by an alarm.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from .mutant import Fate, Mutant, Outcome

SECONDS_PER_TEST = 60.0

_MISFIT = re.compile(r"positional argument|keyword argument")
"""How Python says that a function was called with what it does not take."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A running child: its process and the end of the pipe that it answers through."""

    pid: int
    answers: int

    def fate(self, mutant: Mutant) -> Fate:
        """Wait for the child's answer."""
        with os.fdopen(self.answers, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(self.pid, 0)
        if not answer:
            return Fate(mutant, Outcome.BROKEN, f"the process ended with status {status}")
        outcome, detail = json.loads(answer)
        return Fate(mutant, Outcome(outcome), detail)


class MutantIsFaultyError(Exception):
    """The mutant itself broke, so that the test which failed says nothing about the rule."""


class _Failures:
    """Keeps the names of failed tests."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.faults: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Any phase of a test may fail."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_exception_interact(self, call: pytest.CallInfo[object]) -> None:
        """An exception out of the mutant's own code, or of a call that does not fit it, kills nothing."""
        if call.excinfo is None:
            return
        error, place = call.excinfo.value, call.excinfo.traceback[-1].path
        does_not_fit = isinstance(error, TypeError) and _MISFIT.search(str(error)) is not None
        if does_not_fit or Path(place).parent == Path(__file__).parent:
            self.faults.append(f"{place}: {type(error).__name__}: {error}")


def start_trial(
    session: pytest.Session, items: Sequence[pytest.Item], apply: Callable[[], None], *, stop: bool
) -> Trial:
    """Fork; the child applies the change and runs the items, until the first failure when ``stop``."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _live(session, items, apply, stop, writing)
    os.close(writing)
    return Trial(pid, reading)


def _live(
    session: pytest.Session, items: Sequence[pytest.Item], apply: Callable[[], None], stop: bool, writing: int
) -> NoReturn:
    gc.disable()
    _be_quiet()
    try:
        apply()
        failed = _run(session, items, stop)
        answer = (Outcome.KILLED, "\n".join(failed)) if failed else (Outcome.SURVIVED, "")
    except BaseException:  # whatever a mutant provokes is told, and the child ends
        answer = (Outcome.BROKEN, traceback.format_exc())
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(answer).encode())
    os._exit(0)


def _be_quiet() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    signal.signal(signal.SIGALRM, _too_long)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"the test ran for more than {SECONDS_PER_TEST:.0f} s")


def _run(session: pytest.Session, items: Sequence[pytest.Item], stop: bool) -> list[str]:
    failures = _Failures()
    session.config.pluginmanager.register(failures)
    for item, following in zip(items, [*items[1:], None], strict=True):
        signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_TEST)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if failures.faults:
            raise MutantIsFaultyError(failures.faults[0])
        if failures.failed and stop:
            break
    return failures.failed
