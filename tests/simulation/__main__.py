"""``python -m tests.simulation [--seeds N] [--first S] [--seed X]``: many seeds, or one of them told in full."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.history.rules_health import health_figures
from tests.simulation.options import Fault
from tests.simulation.run import Report, run_seed

SEEDS_DEFAULT = 5_000
SHOWN_SEEDS = 20
SHOWN_SENTENCES = 3


def main() -> int:
    """0 when every rule was kept, else 1."""
    arguments = _arguments()
    if arguments.seed is not None:
        return _tell_one(arguments.seed)
    return _run_many(arguments.first, arguments.seeds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS_DEFAULT, help="how many schedules to run")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seed", type=int, help="run only this one, and print its options, its trace and its verdict")
    return parser.parse_args()


def _tell_one(seed: int) -> int:
    report = run_seed(seed, trace_wanted=True)
    print(f"seed {seed}\n{report.options.describe()}\n")
    print("\n".join(report.trace))
    print(f"\nfingerprint {report.fingerprint}")
    print("\n".join(f"VIOLATION {violation}" for violation in report.violations) or "every rule was kept")
    return 1 if report.violations else 0


def _run_many(first: int, count: int) -> int:
    started, cpu_started = time.monotonic(), time.process_time()
    failed: list[Report] = []
    faults: Counter[Fault] = Counter()
    validators: Counter[str] = Counter()
    events = publications = 0
    health: Counter[str] = Counter()
    for seed in range(first, first + count):
        report = run_seed(seed)
        faults.update(report.faults)
        if report.history is not None:
            events += len(report.history.tables.events)
            publications += len(report.history.publications)
            health.update(health_figures(report.history))
        if report.violations:
            failed.append(report)
            validators.update({violation.validator for violation in report.violations})
            _tell_failure(report, len(failed))
    elapsed, cpu = time.monotonic() - started, time.process_time() - cpu_started
    print(
        f"{count} seeds from {first}: {events} events, {publications} publications, "
        f"{elapsed:.1f} s ({cpu:.1f} s of CPU)"
    )
    print("health: " + ", ".join(f"{name} {number}" for name, number in health.items()))
    print("faults: " + ", ".join(f"{fault.value} {number}" for fault, number in sorted(faults.items())))
    print(f"failed seeds: {len(failed)}; by validator: {dict(validators.most_common())}")
    return 1 if failed else 0


def _tell_failure(report: Report, number: int) -> None:
    if number > SHOWN_SEEDS:
        return
    print(f"seed {report.options.seed} FAILED (python -m tests.simulation --seed {report.options.seed}):", flush=True)
    for violation in report.violations[:SHOWN_SENTENCES]:
        print(f"  {violation}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
