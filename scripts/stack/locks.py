"""One lock file per thing that two runs must not build at once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.stack.progress import Progress


@contextmanager
def exclusive(path: Path, progress: Progress) -> Iterator[None]:
    """Hold an advisory lock on ``path``; say so when another run has it and wait until that run ends.

    The kernel drops the lock with the process, so a killed run never leaves it behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"  waiting for another run that holds {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
