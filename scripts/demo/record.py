"""What the watcher has seen of one task, and whether that is everything. Pure; fed with messages and snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

SUMMARY: Final = "task.summary"
DETAIL: Final = "task.detail"
TERMINAL: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "TIMED_OUT"})
MOVING_FIELDS: Final = frozenset({"asOf", "elapsedMs"})
"""Depend on when a state was read."""


@dataclass
class Record:
    """Versions per kind, the newest state, and the delays. A message of another task is not passed in."""

    summaries: set[int] = field(default_factory=set)
    details: set[int] = field(default_factory=set)
    timeline: set[int] = field(default_factory=set)
    """Read from the timeline when the realtime server had lost its history."""
    delays_ms: list[float] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    """Of the newest detail, whichever way it came."""
    final_version: int | None = None

    def take_message(self, message: dict[str, Any], received: datetime) -> float | None:
        """Note a summary or detail; milliseconds from its commit to ``received``, None when it came as history."""
        version, kind = int(message["taskVersion"]), message["kind"]
        if kind == SUMMARY:
            self.summaries.add(version)
            status, committed = message["task"]["lifecycleStatus"], message["task"]["asOf"]
        else:
            self.details.add(version)
            self.take_state(message["state"])
            status, committed = message["state"]["lifecycleStatus"], message["triggerEvent"]["committedAt"]
        if status in TERMINAL:
            self.final_version = version
        delay_ms = (received - parse_time(committed)).total_seconds() * 1000
        self.delays_ms.append(delay_ms)
        return delay_ms

    def take_state(self, state: dict[str, Any]) -> None:
        """Keep the newest: a message may come late (C-1)."""
        if int(state["taskVersion"]) >= int(self.state.get("taskVersion", 0)):
            self.state = state

    def fill(self, snapshot: dict[str, Any], events: list[dict[str, Any]]) -> None:
        """Take what a snapshot and the timeline say in place of messages that can no longer come (C-2)."""
        self.timeline |= {int(event["taskVersion"]) for event in events}
        self.take_state(snapshot)
        if snapshot["lifecycleStatus"] in TERMINAL:
            self.final_version = int(snapshot["taskVersion"])

    @property
    def only_in_timeline(self) -> list[int]:
        """Versions whose summary never came."""
        return sorted(self.timeline - self.summaries)

    @property
    def missing(self) -> list[int]:
        """Versions that neither a summary nor the timeline has shown, up to the newest known."""
        known = self.summaries | self.timeline
        newest = max({*known, *self.details, self.final_version or 0}, default=0)
        return sorted(set(range(1, newest + 1)) - known)

    @property
    def complete(self) -> bool:
        """The task has ended, every version of it was seen, and so was its last state."""
        if self.final_version is None or self.missing:
            return False
        return int(self.state.get("taskVersion", 0)) == self.final_version


def parse_time(text: str) -> datetime:
    """RFC 3339 as the service writes it."""
    return datetime.fromisoformat(text)


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two JSON values differ, but for the fields that move with the time of reading."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted((ours.keys() | theirs.keys()) - MOVING_FIELDS)
        return [found for key in keys for found in differences(ours.get(key), theirs.get(key), f"{path}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [found for at, (left, right) in pairs for found in differences(left, right, f"{path}[{at}]")]
    return [] if ours == theirs else [f"{path.lstrip('.')}: {ours!r} in the message, {theirs!r} in the snapshot"]
