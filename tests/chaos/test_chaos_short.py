"""Two fixed seeds on real processes: the chaos run of ``python -m tests.chaos``, short enough for every change."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.chaos.options import options_of
from tests.chaos.run import Report, run_seed
from tests.chaos.stack import running_stack

SECONDS = 4.0
SEEDS = (5, 8)


def test_c2_nothing_is_lost_doubled_or_shown_backwards_under_faults(tmp_path: Path) -> None:
    reports = asyncio.run(_run(tmp_path))

    assert [str(violation) for report in reports for violation in report.violations] == []
    assert [report.internal_faults for report in reports] == [0] * len(SEEDS)
    assert all(report.figures["acknowledged"] and report.faults for report in reports)


async def _run(folder: Path) -> list[Report]:
    async with running_stack("mysql", folder) as stack:
        return [await run_seed(stack, options_of(seed, SECONDS)) for seed in SEEDS]
