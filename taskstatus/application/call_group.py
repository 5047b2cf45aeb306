"""What the items of one call (later: one stream) share: after a retryable failure the rest of that execution waits."""

from __future__ import annotations


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

    def break_stream(self, stream: bytes, position: int | None = None) -> None:
        """The item at ``position`` (the coming one when not given) of an execution, or of a task, failed in passing."""
        at = self._last + 1 if position is None else position
        self._broken_at[stream] = min(at, self._broken_at.get(stream, at))

    def is_broken(self, stream: bytes, position: int | None = None) -> bool:
        """Whether an item of the stream before ``position`` (the coming one when not given) failed in passing."""
        at = self._broken_at.get(stream)
        if at is None:
            return False
        return position is None or position > at
