"""The command line of a Redis server that keeps nothing: it is an accelerator, never needed for correctness."""

from pathlib import Path

from scripts.stack import ports, probes
from scripts.stack.binaries import Binary
from scripts.stack.programs import Program


def redis_url(port: int) -> str:
    """The address in the form of ``TASKSTATUS_REDIS_URL``."""
    return f"redis://{ports.HOST}:{port}/0"


def program(binary: Binary, folder: Path, port: int, log: Path) -> Program:
    """How to start the server; its working folder is ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    keep_nothing = ["--save", "", "--appendonly", "no", "--dir", str(folder)]
    return Program(
        name=f"{binary.version}",
        command=[*binary.command, "--port", str(port), "--bind", ports.HOST, *keep_nothing],
        log=log,
        ready=lambda: probes.redis_answers(ports.HOST, port),
        listens=redis_url(port),
    )
