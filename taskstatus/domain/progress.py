"""Progress of one attempt and its weighted share of the task's (E-8).

Points are hundredths of a percent: 0…10,000. A step is credited with the most points that any of its attempts
reached, so that retries and parallel steps neither count twice nor go back.
"""

from __future__ import annotations

import math

from taskstatus.domain.quick_dataclasses import dataclass

FULL_POINTS = 10_000


@dataclass(frozen=True, slots=True)
class Progress:
    """``current`` of ``total`` units; ``total`` 0 means unknown."""

    current: float
    total: float
    unit: str

    @property
    def points(self) -> int | None:
        """Hundredths of a percent, truncated; None when the total is unknown."""
        if self.total <= 0:
            return None
        scaled = self.current * FULL_POINTS
        share = scaled / self.total if math.isfinite(scaled) else self.current / self.total * FULL_POINTS
        return min(FULL_POINTS, int(share))


def goes_back(known: Progress | None, reported: Progress) -> bool:
    """Whether the report is behind what this attempt already showed."""
    if known is None:
        return False
    if known.total == reported.total:
        is_comparable = known.total > 0 or known.unit == reported.unit
        return is_comparable and reported.current < known.current
    if known.total > 0 and reported.total > 0:
        return reported.current / reported.total < known.current / known.total
    return False


def replaces(newer: Progress | None, older: Progress | None) -> bool:
    """Whether nothing of an accepted report is left to be seen after a newer accepted one: they are comparable."""
    if older is None or newer is None:
        return older is None
    if older.total > 0 or newer.total > 0:
        return older.total > 0 and newer.total > 0
    return older.unit == newer.unit


def percent_of_points(points: int) -> float:
    """Points as a percentage with two decimals."""
    return points / 100


def weighted_percent(progress_points: int, weight_total: int) -> float | None:
    """The task's percentage from the sum of weight × points; None when no step has a weight."""
    if weight_total <= 0:
        return None
    return int(progress_points / weight_total) / 100
