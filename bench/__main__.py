"""``python -m bench``: one run, written to ``bench/results``; ends with 1 when a check of the rows fails."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import report
from bench.loads import WorkerFailedError
from bench.plan import DRIVERS, LOOPS, PRODUCT_DRIVER, QUICK, UVLOOP, Plan
from bench.section import Section
from bench.sections import builds, drivers, growth, heartbeats, publishing, relays, statements
from bench.stack import BenchServers, Engine, running_servers
from scripts.stack.progress import Progress, StackError
from scripts.stack.testing import WORKDIR_VARIABLE

RESULTS = Path(__file__).parent / "results"
WHOLE, PARTIAL = "issue5", "partial"
SECTIONS: dict[str, Section] = {
    "builds": builds.run,
    "heartbeats": heartbeats.run,
    "publishing": publishing.run,
    "relay": relays.run,
    "growth": growth.run,
    "statements": statements.run,
    "drivers": drivers.run,
}
"""In the order of the report."""


def main() -> int:
    """The command."""
    arguments = _arguments()
    progress = Progress()
    try:
        plan = _plan(arguments)
        engine = Engine(arguments.driver, arguments.loop)
        if not engine.is_installed:
            raise ValueError(f"{engine.driver} is not installed")
        with run_folder() as folder, running_servers(folder, progress, engine) as servers:
            result = run(servers, plan, arguments.only or list(SECTIONS), progress)
    except (StackError, WorkerFailedError, ValueError) as error:
        progress.say(f"bench: {error}")
        return 2
    text = report.write(result, arguments.results, arguments.name)
    progress.say(f"\n{text}\nWritten to {arguments.results / arguments.name}.md, .json and .svg")
    return 0 if result.holds else 1


def run(servers: BenchServers, plan: Plan, names: list[str], progress: Progress) -> report.RunResult:
    """The sections named, on the same servers, each with schemas and services of its own."""
    began, found = time.monotonic(), {}
    for name, section in SECTIONS.items():
        if name in names:
            with progress.step(f"section {name}"):
                found[name] = section(servers, plan, progress)
    return report.RunResult(plan, servers.engine, found, servers.versions, (time.monotonic() - began) / 60)


def _plan(arguments: argparse.Namespace) -> Plan:
    given = {name: getattr(arguments, name) for name in ("seconds", "rounds") if getattr(arguments, name) is not None}
    return dataclasses.replace(QUICK if arguments.quick else Plan(), **given)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description="Product, naive build and ceiling in one run; about 20 minutes."
    )
    parser.add_argument("--only", choices=SECTIONS, nargs="+", help="these sections alone")
    parser.add_argument("--quick", action="store_true", help="one short round of everything, to see that it works")
    parser.add_argument("--seconds", type=float, help=f"measured time of one build in one round ({Plan.seconds:g})")
    parser.add_argument("--rounds", type=int, help=f"rounds; the medians are reported ({Plan.rounds})")
    parser.add_argument(
        "--driver", choices=DRIVERS, default=PRODUCT_DRIVER, help="of the services and of the raw builds"
    )
    parser.add_argument("--loop", choices=LOOPS, default=UVLOOP, help="of the services")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--name", help=f"name of the results: {WHOLE} of a whole run, else {PARTIAL} (not committed)")
    arguments = parser.parse_args()
    arguments.name = arguments.name or (PARTIAL if arguments.only or arguments.quick else WHOLE)
    return arguments


@contextmanager
def run_folder() -> Iterator[Path]:
    """The run's folder: within the one that ``make bench`` sweeps up, when there is one."""
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=os.environ.get(WORKDIR_VARIABLE) or None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
