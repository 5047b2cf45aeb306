"""Progress of one attempt and its weighted share of the task's (E-8).

Points are hundredths of a percent: 0…10,000. A step is credited with the most points that any of its attempts
reached, so that retries and parallel steps neither count twice nor go back.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        return min(FULL_POINTS, int(self.current * FULL_POINTS / self.total))


def goes_back(known: Progress | None, reported: Progress) -> bool:
    """Whether the report is behind what this attempt already showed."""
    if known is None:
        return False
    known_points, reported_points = known.points, reported.points
    if known_points is not None and reported_points is not None:
        return reported_points < known_points
    return known.unit == reported.unit and known.total == reported.total and reported.current < known.current


def percent_of_points(points: int) -> float:
    """Points as a percentage with two decimals."""
    return points / 100


def weighted_percent(progress_points: int, weight_total: int) -> float | None:
    """The task's percentage from the sum of weight × points; None when no step has a weight."""
    if weight_total <= 0:
        return None
    return int(progress_points / weight_total) / 100
