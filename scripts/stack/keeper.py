"""Keeps the processes of one run folder: starts what does not run as wanted, remembers ports, ends what it started."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from scripts.stack import ports, processes, programs
from scripts.stack.programs import Program
from scripts.stack.progress import Progress
from scripts.stack.state import Entry, State

HUNG_SECONDS = 10.0
"""A process that runs but does not answer for this long is started again."""


@dataclass
class Keeper:
    """The processes of the run folder ``folder``. One at a time may change a folder: hold its lock."""

    folder: Path
    state: State
    progress: Progress
    _fixed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, folder: Path, progress: Progress) -> "Keeper":
        """The keeper of a run folder with what it remembers."""
        return cls(folder, State.load(folder / "stack.json"), progress)

    def log(self, name: str) -> Path:
        """The log file of a process."""
        file = self.folder / "logs" / f"{name}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def port(self, name: str, use: str, preferred: int) -> int:
        """The port of a running process as it is; else its last one, or ``preferred``, or the next free one."""
        key = f"{name}.{use}"
        if key not in self._fixed and not (key in self.state.ports and self.state.living(name)):
            wanted = self.state.ports.get(key, preferred)
            self.state.ports[key] = ports.prefer(wanted, self._taken())
            if self.state.ports[key] != wanted:
                self.progress.say(f"  port {wanted} is taken, {name} uses {self.state.ports[key]}")
        self._fixed.add(key)
        return self.state.ports[key]

    def _taken(self) -> set[int]:
        """Ports that are spoken for, though perhaps nobody listens there yet."""
        return {p for key, p in self.state.ports.items() if key in self._fixed or self.state.living(key.split(".")[0])}

    def ensure(self, name: str, program: Program, origin: str) -> None:
        """Leave a process alone that runs as wanted and answers; start it (again) otherwise."""
        recipe = _digest(program)
        entry = self.state.living(name)
        if entry and entry.recipe == recipe and processes.wait_until(program.ready, HUNG_SECONDS):
            self.progress.say(f"  {program.name}: runs already (pid {entry.pid})")
            return
        if entry:
            why = "its settings changed" if entry.recipe != recipe else "it does not answer"
            self.progress.say(f"  {program.name}: starting again, {why}")
            self.stop(name, program.grace_seconds)
        with self.progress.step(f"start {program.name}"):
            identity = programs.start(program)
        entry = Entry(identity.pid, identity.started, program.listens, str(program.log), origin, recipe)
        self.state.processes[name] = entry
        self.state.save()

    def stop(self, name: str, grace_seconds: float = 60.0) -> None:
        """End a process of ours, if it still runs, and forget it."""
        if entry := self.state.living(name):
            with self.progress.step(f"stop {name}"):
                if not processes.stop(entry.identity, grace_seconds):
                    self.progress.say(
                        f"  {name} did not end within {grace_seconds:.0f} s and was killed; see {entry.log}"
                    )
        self.state.forget(name)


def _digest(program: Program) -> str:
    """A digest of the command and of its environment: a change of either makes a running process a wrong one."""
    content = json.dumps([program.command, sorted(program.env.items())])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
