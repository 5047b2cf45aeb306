"""Stand-ins for server programs: shell scripts that answer a version, which is all that finding them needs."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.stack.progress import Progress

MakeProgram = Callable[[Path, str], Path]


@pytest.fixture
def progress() -> Progress:
    """Progress whose text a test can read in ``out``."""
    return Progress(out=io.StringIO())


@pytest.fixture
def make_program() -> MakeProgram:
    """Writes a program that prints the given answer."""

    def make(path: Path, answer: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{answer}'\n")
        path.chmod(0o755)
        return path

    return make
