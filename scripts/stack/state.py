"""What ``make up`` remembers between runs: processes, ports and settings, in ``.run/stack.json`` and ``.run/env``."""

import json
import os
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.stack import processes
from scripts.stack.processes import Identity


@dataclass
class Entry:
    """One process: who it is, where it listens, where it came from, and a digest of how it was started."""

    pid: int
    started: str
    listens: str
    log: str
    origin: str = ""
    recipe: str = ""

    @property
    def identity(self) -> Identity:
        """The process itself."""
        return Identity(self.pid, self.started)

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return processes.alive(self.identity)


@dataclass
class State:
    """The whole stack. ``ports`` keeps each choice, so that a restarted server comes back at its old address."""

    file: Path
    processes: dict[str, Entry] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path) -> "State":
        """Read the file; an absent or unreadable one is an empty stack."""
        try:
            raw = json.loads(file.read_text())
            entries = {name: Entry(**entry) for name, entry in raw["processes"].items()}
            return cls(file, entries, raw["ports"], raw["settings"])
        except (OSError, ValueError, KeyError, TypeError):
            return cls(file)

    def save(self) -> None:
        """Write ``stack.json`` and ``env`` beside it, each whole or not at all."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        content = asdict(self)
        del content["file"]
        _replace(self.file, json.dumps(content, indent=2) + "\n")
        lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(self.settings.items())]
        _replace(self.file.with_name("env"), "\n".join(["# Written by make up; use it with: . .run/env", *lines, ""]))

    def living(self, name: str) -> Entry | None:
        """The entry of a process that still runs."""
        entry = self.processes.get(name)
        return entry if entry and entry.alive() else None

    def forget(self, name: str) -> None:
        """Drop a process that has been ended, and write the files."""
        self.processes.pop(name, None)
        self.save()


def _replace(file: Path, text: str) -> None:
    temp = file.with_name(f".{file.name}.{os.getpid()}")
    temp.write_text(text)
    temp.replace(file)
