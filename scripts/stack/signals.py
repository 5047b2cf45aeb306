"""Handling signals for the length of a block, with the earlier handlers put back."""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handling(numbers: Iterable[signal.Signals], handler: Handler) -> Iterator[None]:
    """Let ``handler`` have these signals inside the block. Main thread only."""
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Be ended as by Ctrl-C: what was begun is undone on the way out."""
    raise KeyboardInterrupt
