"""What the items of one call (later: one stream) share: after a retryable failure the rest of that execution waits."""

from __future__ import annotations

from taskstatus.domain.ids import ExecutionId


class CallGroup:
    """Executions of one call whose later items must not be evaluated any more (E-10).

    A later event that was committed after a failed earlier one would make the earlier one stale for ever.
    """

    __slots__ = ("_broken",)

    def __init__(self) -> None:
        self._broken: set[ExecutionId | bytes] = set()

    def break_stream(self, stream: ExecutionId | bytes) -> None:
        """An item of this execution (or, for task events, of this task) failed for a passing cause."""
        self._broken.add(stream)

    def is_broken(self, stream: ExecutionId | bytes) -> bool:
        """Whether an earlier item of the same execution failed for a passing cause."""
        return stream in self._broken
