"""What the items of one call or one stream share: after a retryable failure the rest of that execution waits."""

from __future__ import annotations

from dataclasses import dataclass, field

DEAD_SPANS_MAX = 32


class CallGroup:
    """Streams of one call whose *later* items must not be evaluated any more (E-10).

    A later event that was committed after a failed earlier one would make the earlier one stale for ever. Items that
    came before the failed one are not touched: a full queue refuses the tail of a call, never its head.
    """

    __slots__ = ("_broken_at", "_last")

    def __init__(self) -> None:
        self._broken_at: dict[bytes, int] = {}
        self._last = 0

    def next_position(self) -> int:
        """The place of the next item in the call, from 1."""
        self._last += 1
        return self._last

    def break_stream(self, stream: bytes, position: int | None = None, event_id: str = "") -> None:
        """The item at ``position`` (the coming one when not given) of an execution, or of a task, failed in passing."""
        at = self._last + 1 if position is None else position
        self._broken_at[stream] = min(at, self._broken_at.get(stream, at))

    def is_broken(self, stream: bytes, position: int | None = None) -> bool:
        """Whether an item of the stream before ``position`` (the coming one when not given) failed in passing."""
        at = self._broken_at.get(stream)
        if at is None:
            return False
        return position is None or position > at

    def resume(self, stream: bytes, event_id: str) -> None:
        """An event is sent (again); a call ends with its failures, so that nothing is mended here."""


@dataclass(slots=True)
class _Damage:
    """What is broken of one execution on a stream: positions, and the event that mends it."""

    failed_at: int | None = None
    failed_event: str = ""
    dead: list[tuple[int, int]] = field(default_factory=list)
    """Spans (after, before): items that came after a failure and before the failed event was sent again."""

    def covers(self, position: int) -> bool:
        if self.failed_at is not None and position > self.failed_at:
            return True
        return any(after < position < before for after, before in self.dead)


class StreamGroup(CallGroup):
    """The group of a stream: an execution goes on when the event that failed is sent again (E-10).

    Items that were sent between the failure and its re-send may still wait in a lane; they stay broken, or they would
    overtake the event that was sent again.
    """

    __slots__ = ("_damage",)

    def __init__(self) -> None:
        super().__init__()
        self._damage: dict[bytes, _Damage] = {}

    def break_stream(self, stream: bytes, position: int | None = None, event_id: str = "") -> None:
        """See CallGroup; ``event_id`` is the event that mends it."""
        at = self.next_position() if position is None else position
        damage = self._damage.setdefault(stream, _Damage())
        if not damage.covers(at):
            damage.failed_at, damage.failed_event = at, event_id

    def is_broken(self, stream: bytes, position: int | None = None) -> bool:
        """See CallGroup."""
        damage = self._damage.get(stream)
        return damage is not None and damage.covers(self._last + 1 if position is None else position)

    def resume(self, stream: bytes, event_id: str) -> None:
        """An event is sent: if it is the one that failed, its execution goes on from here."""
        damage = self._damage.get(stream)
        if damage is not None and damage.failed_event == event_id and len(damage.dead) < DEAD_SPANS_MAX:
            self._mend(damage)

    def start_anew(self, stream: bytes) -> None:
        """The execution was bound again: whatever failed is given up by its worker, who goes on from here."""
        damage = self._damage.get(stream)
        if damage is not None:
            self._mend(damage)

    def settled(self, stream: bytes) -> None:
        """No item of the execution waits any more: only an open failure need be remembered."""
        damage = self._damage.get(stream)
        if damage is None:
            return
        damage.dead.clear()
        if damage.failed_at is None:
            del self._damage[stream]

    def _mend(self, damage: _Damage) -> None:
        failed_at = damage.failed_at
        if failed_at is None:
            return
        damage.dead = [span for span in damage.dead if span[0] < failed_at]
        damage.dead.append((failed_at, self._last + 1))
        damage.failed_at, damage.failed_event = None, ""
