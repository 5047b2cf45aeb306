"""One shape for everything that is started and waited for: servers and the project's own processes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scripts.stack import processes
from scripts.stack.processes import Identity
from scripts.stack.progress import StackError


@dataclass(frozen=True)
class Program:
    """How to start one process, and how to know that it is ready.

    ``ready_seconds`` bounds the wait for readiness, ``grace_seconds`` the wait for its end after SIGTERM.
    ``listens`` says for people where it can be reached.
    """

    name: str
    command: list[str]
    log: Path
    ready: Callable[[], bool]
    listens: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    ready_seconds: float = 60.0
    grace_seconds: float = 20.0


def start(program: Program) -> Identity:
    """Start the process and wait until it is ready; on failure nothing is left running and the log's end is told."""
    identity = processes.spawn(program.command, program.log, program.env)
    try:
        _wait_ready(program, identity)
    except BaseException:
        processes.kill(identity)
        raise
    return identity


def _wait_ready(program: Program, identity: Identity) -> None:
    exit_codes: list[int] = []

    def ready_or_ended() -> bool:
        if (code := processes.reap(identity.pid)) is not None:
            exit_codes.append(code)
        return bool(exit_codes) or program.ready()

    reached = processes.wait_until(ready_or_ended, program.ready_seconds)
    if exit_codes:
        what = f"{program.name} ended with code {exit_codes[0]} while starting"
    elif not reached:
        what = f"{program.name} was not ready after {program.ready_seconds:.0f} s"
    else:
        return
    raise StackError(f"{what}; the end of {program.log}:\n{processes.tail(program.log)}")
