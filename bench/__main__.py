"""``python -m bench``: one run, written to ``bench/results``; ends with 1 when a check of the rows fails."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import publishing, report, rounds, verify
from bench.plan import Plan
from bench.stack import BenchStack, running_stack
from scripts.stack.progress import Progress, StackError
from scripts.stack.testing import WORKDIR_VARIABLE

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """The command."""
    arguments = _arguments()
    progress = Progress()
    try:
        plan = Plan(seconds=arguments.seconds, rounds=arguments.rounds)
        with _folder() as folder, running_stack(folder, progress) as stack:
            result = run(stack, plan, progress)
    except (StackError, rounds.WorkerFailedError, ValueError) as error:
        progress.say(f"bench: {error}")
        return 2
    text = report.write(result, arguments.results, arguments.name)
    progress.say(f"\n{text}\nWritten to {arguments.results / arguments.name}.md and .json")
    return 0 if all(check.holds for check in result.checks) else 1


def run(stack: BenchStack, plan: Plan, progress: Progress) -> report.RunResult:
    """Compare the builds, check their rows, then measure publishing on the same servers."""
    with progress.step("executions for every round"):
        pools, publish_pools = rounds.prepare_pools(stack, plan), publishing.prepare_pools(stack, plan)
    tasks = sum(map(len, [*pools.values(), *publish_pools.values()]))
    with progress.step("builds in turn"):
        builds = rounds.compare(stack, plan, pools, progress)
    outcomes = [outcome for build in builds for outcome in build.outcomes]
    with progress.step("rows of the builds"):
        checks = verify.check_rows(stack.database_url, outcomes, tasks)
    with progress.step("commit to publish"):
        stack.start_relay()
        rates = publishing.measure(stack, plan, publish_pools, progress)
    outcomes += [done.outcome for rate in rates for done in rate.rounds]
    with progress.step("rows of the whole run"):
        acknowledged = sum(outcome.acknowledged for outcome in outcomes)
        checks += verify.check_published(stack.database_url, acknowledged, tasks)
    return report.RunResult(plan, builds, rates, checks, stack.versions)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Product, naive build and ceiling in one run.")
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="measured time of one build in one round")
    parser.add_argument("--rounds", type=int, default=Plan.rounds, help="rounds; the medians are reported")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--name", default="issue3", help="name of the results")
    return parser.parse_args()


@contextmanager
def _folder() -> Iterator[Path]:
    """The run's folder: the one that ``make bench`` sweeps up, or one of our own."""
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=os.environ.get(WORKDIR_VARIABLE) or None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
