"""Starting, recognising and ending operating-system processes.

A process is recognised by its number *and* its start time: numbers are used again, and a state file may be older
than the process that now has the number. Nothing is ever ended by name.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.stack.progress import StackError

POLL_SECONDS = 0.05
"""How often a condition is asked for while something starts or ends."""

REGISTRY_VARIABLE = "TASKSTATUS_PROCESS_REGISTRY"
"""Names a file in which every started process is noted, so that a test run that dies can be swept up after."""


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: str


def identify(pid: int) -> Identity | None:
    """The identity of a running process; None when there is none, or only its unreaped remains."""
    started = _start_time(pid)
    return Identity(pid, started) if started else None


def alive(identity: Identity) -> bool:
    """Whether this very process still runs."""
    return identify(identity.pid) == identity


def _start_time(pid: int) -> str | None:
    """Start time in clock ticks since boot on Linux, as ``ps`` prints it elsewhere."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    found = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], check=False, capture_output=True, text=True
    ).stdout.strip()
    return None if not found or found.startswith("Z") else found.partition(" ")[2].strip()


def spawn(command: list[str], log: Path, env: Mapping[str, str] | None = None) -> Identity:
    """Start ``command`` in its own session, so that Ctrl-C in the terminal does not reach it; output goes to ``log``.

    ``posix_spawn`` and not ``Popen``: the process is meant to outlive the object that started it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            {**os.environ, **(env or {})},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        raise StackError(f"cannot start {command[0]}: {error}") from error
    identity = identify(pid) or Identity(pid, "ended")
    if registry := os.environ.get(REGISTRY_VARIABLE):
        with Path(registry).open("a") as file:
            file.write(f"{identity.pid} {identity.started}\n")
    return identity


def registered(registry: Path) -> list[Identity]:
    """The processes noted in a registry file, newest first."""
    lines = registry.read_text().splitlines() if registry.exists() else []
    pairs = (line.partition(" ") for line in reversed(lines))
    return [Identity(int(pid), started) for pid, _, started in pairs if pid.isdigit()]


def reap(pid: int) -> int | None:
    """The exit code of an ended child of ours, told once; None while it runs or when it is not our child."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if ended else None


def send(identity: Identity, number: signal.Signals) -> None:
    """Send a signal, if the process still runs."""
    if alive(identity):
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)


def stop(identity: Identity, grace_seconds: float = 20.0) -> bool:
    """End a process: SIGTERM, then SIGKILL after ``grace_seconds``. True when it ended by itself."""
    send(identity, signal.SIGTERM)
    send(identity, signal.SIGCONT)  # a stopped process hears SIGTERM only when it goes on
    if wait_ended(identity, grace_seconds):
        return True
    kill(identity)
    return False


def kill(identity: Identity) -> None:
    """SIGKILL to the process and to what it started in its session, and wait until it is gone."""
    if alive(identity):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(identity.pid, signal.SIGKILL)
    send(identity, signal.SIGKILL)
    wait_ended(identity, 10.0)


def wait_ended(identity: Identity, seconds: float) -> bool:
    """Wait until the process has ended; False when it still runs after ``seconds``.

    A child of ours has ended when it is reaped: before that its other threads may still hold files and ports, and
    its number still looks taken to the lock files of MySQL.
    """

    def ended() -> bool:
        try:
            return os.waitpid(identity.pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return not alive(identity)

    return wait_until(ended, seconds)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Ask for ``condition`` until it holds; False when it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, for the text of an error."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "(empty log)"


def succeeds(command: list[str]) -> bool:
    """Whether a short command ends with 0; its output is not wanted."""
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
