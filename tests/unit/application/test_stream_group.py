"""On a stream, an execution goes on from the event that failed, whatever still waits in a lane (E-10)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from taskstatus.application.call_group import DEAD_SPANS_MAX, StreamGroup

STREAM, OTHER = b"execution", b"another"


@dataclass
class Line:
    """A client that goes back to what failed, a lane that takes items in order, and the answers between them."""

    group: StreamGroup = field(default_factory=StreamGroup)
    lane: deque[tuple[int, int, int]] = field(default_factory=deque)
    evaluated: list[int] = field(default_factory=list)
    next_event: int = 1
    sendings: int = 0
    latest: dict[int, int] = field(default_factory=dict)

    def send(self, *, queue_is_full: bool) -> None:
        """The client sends its next event."""
        event, self.next_event = self.next_event, self.next_event + 1
        self.sendings += 1
        self.latest[event] = self.sendings
        self.group.resume(STREAM, str(event))
        if self.group.is_broken(STREAM):
            self.failed(event, self.sendings)
            return
        position = self.group.next_position()
        if queue_is_full:
            self.group.break_stream(STREAM, position, str(event))
            self.failed(event, self.sendings)
        else:
            self.lane.append((position, event, self.sendings))

    def work(self, *, fails: bool) -> None:
        """The lane takes its next item."""
        if not self.lane:
            return
        position, event, sending = self.lane.popleft()
        if self.group.is_broken(STREAM, position) or fails:
            self.group.break_stream(STREAM, position, str(event))
            self.failed(event, sending)
        elif event not in self.evaluated:
            self.evaluated.append(event)
        if not self.lane:
            self.group.settled(STREAM)

    def failed(self, event: int, sending: int) -> None:
        """The client goes back to the first of its latest sendings that failed."""
        if self.latest[event] == sending:
            self.next_event = min(self.next_event, event)


actions = st.lists(st.tuples(st.sampled_from(["send", "send", "work"]), st.sampled_from([False, False, False, True])))


@given(actions)
def test_e10_no_event_is_evaluated_before_an_earlier_one(steps: list[tuple[str, bool]]) -> None:
    line = Line()
    for action, goes_wrong in steps:
        if action == "send":
            line.send(queue_is_full=goes_wrong)
        else:
            line.work(fails=goes_wrong)
    sent = max(line.latest, default=0)
    for _ in range(3 * len(steps) + 3):
        while line.next_event <= sent:
            line.send(queue_is_full=False)
        while line.lane:
            line.work(fails=False)
    assert line.evaluated == list(range(1, sent + 1))


def test_e10_only_the_failed_event_mends_and_only_its_execution() -> None:
    group = StreamGroup()
    group.break_stream(STREAM, group.next_position(), "first")
    group.resume(STREAM, "second")
    assert group.is_broken(STREAM)
    assert not group.is_broken(OTHER)
    group.resume(STREAM, "first")
    assert not group.is_broken(STREAM)


def test_e10_what_waits_from_before_the_mending_stays_broken_until_all_is_settled() -> None:
    group = StreamGroup()
    failed, waiting = group.next_position(), group.next_position()
    group.break_stream(STREAM, failed, "first")
    group.resume(STREAM, "first")
    assert group.is_broken(STREAM, waiting)
    group.break_stream(STREAM, waiting, "second")
    assert not group.is_broken(STREAM)
    group.settled(STREAM)
    assert not group.is_broken(STREAM, waiting)


def test_e10_an_earlier_failure_found_later_breaks_what_was_mended() -> None:
    group = StreamGroup()
    early, late = group.next_position(), group.next_position()
    group.break_stream(STREAM, late, "late")
    group.resume(STREAM, "late")
    mended = group.next_position()
    assert not group.is_broken(STREAM, mended)
    group.break_stream(STREAM, early, "early")
    assert group.is_broken(STREAM, mended)
    group.resume(STREAM, "early")
    assert not group.is_broken(STREAM)
    assert group.is_broken(STREAM, mended)


def test_e10_what_is_remembered_of_failures_is_bounded() -> None:
    group = StreamGroup()
    for number in range(DEAD_SPANS_MAX):
        group.break_stream(STREAM, group.next_position(), str(number))
        group.resume(STREAM, str(number))
    assert not group.is_broken(STREAM)
    group.break_stream(STREAM, group.next_position(), "last")
    group.resume(STREAM, "last")
    assert group.is_broken(STREAM)
    group.settled(STREAM)
    group.resume(STREAM, "last")
    assert not group.is_broken(STREAM)
