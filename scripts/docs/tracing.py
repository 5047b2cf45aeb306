"""What a call really passes: the modules that it enters, and the guard that answers it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from taskstatus.domain.guards import GUARDS

PACKAGES = ("taskstatus.", "relay.")


class _Profile(Protocol):
    def __call__(self, frame: FrameType, event: str, argument: Any, /) -> object: ...


@contextmanager
def modules_entered() -> Iterator[list[str]]:
    """A list that fills with dotted names, in the order of their first function call, while the block runs."""
    names: list[str] = []

    def note(frame: FrameType, event: str, argument: Any, /) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith(PACKAGES) and name not in names:
            names.append(name)

    with _profiled(note):
        yield names


@contextmanager
def answering_guards() -> Iterator[list[str]]:
    """A list that fills with the names of the guards that gave a verdict while the block runs."""
    names_of_checks = {guard.check.__code__: guard.name for guard in GUARDS}
    names: list[str] = []

    def note(frame: FrameType, event: str, argument: Any, /) -> None:
        if event == "return" and argument is not None and frame.f_code in names_of_checks:
            names.append(names_of_checks[frame.f_code])

    with _profiled(note):
        yield names


@contextmanager
def _profiled(note: _Profile) -> Iterator[None]:
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)
