"""``python -m tests.chaos``: seeds of load and faults on real processes, each judged and each to be had again."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos.options import Fault, options_of
from tests.chaos.run import Report, run_seed
from tests.chaos.stack import DATABASES, running_stack

SECONDS_DEFAULT = 12.0
SHOWN_SENTENCES = 12


def main() -> int:
    """0 when every rule was kept in every seed, else 1."""
    arguments = _arguments()
    first, _, last = (arguments.seed or arguments.seeds).partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if arguments.total:
        seeds = range(seeds.start, seeds.start + max(1, int(arguments.total // arguments.seconds)))
    return asyncio.run(_run(arguments.database, seeds, arguments.seconds, tell_all=bool(arguments.seed)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS_DEFAULT, help="how long each seed's load goes on")
    parser.add_argument("--seeds", default="1-10", help="the seeds to run, such as 1-10")
    parser.add_argument("--total", type=float, help="as many seeds, from the first, as this many seconds of load hold")
    parser.add_argument("--database", choices=sorted(DATABASES), default="mysql", help="the product to run on")
    parser.add_argument("--seed", help="run only this one, and print its plan")
    return parser.parse_args()


async def _run(product: str, seeds: range, seconds: float, *, tell_all: bool) -> int:
    failed: list[int] = []
    figures: Counter[str] = Counter()
    faults: Counter[Fault] = Counter()
    with tempfile.TemporaryDirectory(prefix="taskstatus-chaos-") as folder:
        async with running_stack(product, Path(folder)) as stack:
            for seed in seeds:
                options = options_of(seed, seconds)
                if tell_all:
                    print(f"seed {seed}\n{options.describe()}", flush=True)
                report = await run_seed(stack, options)
                _tell(report, product, tell_all=tell_all)
                figures.update(report.figures)
                faults.update(report.faults)
                if report.violations or report.internal_faults:
                    failed.append(seed)
    print(f"{len(seeds)} seeds on {product}: " + ", ".join(f"{name} {count}" for name, count in figures.items()))
    print("faults: " + (", ".join(f"{fault.value} {count}" for fault, count in sorted(faults.items())) or "none"))
    print(f"failed seeds: {failed or 'none'}")
    return 1 if failed else 0


def _tell(report: Report, product: str, *, tell_all: bool) -> None:
    seed, seconds = report.options.seed, report.options.seconds
    print(f"{report.line} | {sum(report.faults.values())} faults", flush=True)
    if report.violations or report.internal_faults:
        again = f"python -m tests.chaos --database {product} --seconds {seconds:g} --seed {seed}"
        print(f"  FAILED; again: {again}\n{report.options.describe()}")
    for violation in report.violations if tell_all else report.violations[:SHOWN_SENTENCES]:
        print(f"  {violation}")
    for error in report.errors if tell_all else report.errors[:SHOWN_SENTENCES]:
        print(f"  logged: {error[:1500]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
