"""Slopes, plots and windows of the bench."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from bench import plots
from bench.plan import Plan
from bench.soak import Samples, slope
from bench.workload import Execution, Window, deal
from taskstatus.domain.events import EventType


def execution(number: int) -> Execution:
    """An execution of its own."""
    return Execution(b"w", b"t", number.to_bytes(4, "big"), "01_parse", "")


def test_slope_of_a_line_is_its_own() -> None:
    assert slope([(float(x), 3.0 * x + 5) for x in range(10)]) == pytest.approx(3.0)


def test_rss_slope_takes_the_late_part_and_is_a_share_of_its_mean() -> None:
    samples = Samples([(float(x), 500.0 if x < 250 else 100.0 + 0.01 * (x - 250)) for x in range(0, 1001, 5)])
    assert samples.late()[0][0] == 250.0
    assert samples.slope_percent() == pytest.approx(100 * 7.5 / 103.75)
    assert samples.is_long_enough
    assert Samples().slope_percent() == 0.0


def test_rss_slope_of_a_short_run_is_not_judged() -> None:
    assert not Samples().is_long_enough
    assert not Samples([(float(x), 1.0) for x in range(0, 121, 5)]).is_long_enough


def test_rss_slope_of_a_long_run_is_of_its_last_fifteen_minutes() -> None:
    assert Samples([(float(x), 1.0) for x in range(0, 3601, 5)]).late()[0][0] == 2700.0


def test_plots_are_well_formed_and_show_every_value() -> None:
    picture = plots.bars("x", "a < b", [("one & two", 1.0), ("none", 0.0)], " ms")
    assert len(ElementTree.fromstring(picture.svg).findall("{*}rect")) == 3
    line = plots.lines("x", "t", [("a", [(1.0, 2.0), (1000.0, 4.0)]), ("b", [(1.0, 0.0)])], ("x", "y"))
    assert len(ElementTree.fromstring(line.svg).findall("{*}polyline")) == 2


def test_window_gives_each_position_one_event_per_call_and_whole_executions() -> None:
    window = Window([[execution(0)], [execution(1)]], 2, phase=0, progress_events=3)
    calls = []
    while call := window.next_call():
        calls.append(call)
    first = [event for call in calls for event in call if event.execution == execution(0)]
    assert [event.event_type for event in first] == [
        EventType.STEP_STARTED,
        *[EventType.STEP_PROGRESS] * 3,
        EventType.STEP_COMPLETED,
    ][: len(first)]
    assert all(len({event.execution for event in call}) == 2 for call in calls)


def test_burst_gives_each_position_several_events_of_its_execution_in_order() -> None:
    window = Window([[execution(0)], [execution(1)]], 2, phase=0, progress_events=4, burst=3)

    call = window.next_call()

    assert [(event.execution, event.number) for event in call[:3]] == [(execution(0), number) for number in range(3)]
    assert [event.number for event in window.next_call()][:3] == [3, 4, 5]
    assert window.next_call() == []


def test_deal_gives_senders_disjoint_tasks_and_refuses_too_few() -> None:
    windows = deal([[execution(number)] for number in range(6)], 3, 2)
    bound = [each for window in windows for each in window.executions]
    assert sorted(each.execution_id for each in bound) == [execution(number).execution_id for number in range(6)]
    with pytest.raises(ValueError, match="do not fill"):
        deal([[execution(0)]], 1, 2)


def test_plan_refuses_figures_that_measure_nothing() -> None:
    with pytest.raises(ValueError, match="rounds"):
        Plan(rounds=0)
