"""``python -m tests.mutants [--only TEXT] [--jobs N] [--list]``: 0 when every mutant is killed, 1 with survivors."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from .hunt import Hunt, survivors
from .mutant import Fate, Mutant, Outcome

JOBS_DEFAULT = 2
TEST_FOLDERS = ("domain", "application", "definitions", "runtime", "wire", "gateway", "tokens")
"""The unit tests that look at the rules of the catalogue."""
NOTHING_JUDGED = 2


def main() -> int:
    """0: all killed; 1: survivors; 2: nothing could be judged."""
    arguments = _arguments()
    choose = partial(_chosen, arguments.only)
    if arguments.list:
        print("\n".join(f"{mutant.spec:6} {mutant.label}" for mutant in choose()))
        return 0
    started = time.monotonic()
    hunt = Hunt(choose, arguments.jobs, _progress(arguments.verbose))
    status = pytest.main(
        ["-qq", "-s", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:faulthandler", *_folders()],
        plugins=[hunt],
    )
    if hunt.problems or not hunt.fates:
        print("no mutant was judged:\n" + "\n".join(hunt.problems or [f"pytest ended with status {status}"]))
        return NOTHING_JUDGED
    return _report(hunt.fates, time.monotonic() - started)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="mutants whose label contains TEXT, or of that spec id"
    )
    parser.add_argument("--jobs", type=int, default=JOBS_DEFAULT, help="mutants tried at the same time")
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--verbose", action="store_true", help="print the test that killed each")
    return parser.parse_args()


def _chosen(only: str) -> list[Mutant]:
    # Not before pytest has started: it must be the first to import what its plugins rewrite.
    from .catalogue import all_mutants

    return [mutant for mutant in all_mutants() if only in mutant.label or only == mutant.spec]


def _folders() -> list[str]:
    return [f"tests/unit/{folder}" for folder in TEST_FOLDERS]


def _progress(verbose: bool) -> Callable[[Fate], None]:
    def tell(fate: Fate) -> None:
        if fate.outcome is not Outcome.KILLED:
            print(f"{fate.outcome}: [{fate.mutant.spec}] {fate.mutant.label}", flush=True)
        elif verbose:
            print(f"killed [{fate.mutant.spec}] {fate.mutant.label} by {fate.detail}", flush=True)

    return tell


def _report(fates: Sequence[Fate], seconds: float) -> int:
    groups = Counter(fate.mutant.group for fate in fates)
    killed = Counter(fate.mutant.group for fate in fates if fate.outcome is Outcome.KILLED)
    print(f"\n{'group':<16}{'mutants':>8}{'killed':>8}")
    print("\n".join(f"{group:<16}{number:>8}{killed[group]:>8}" for group, number in groups.items()))
    left = list(survivors(fates))
    print(f"\n{len(fates)} mutants, {len(fates) - len(left)} killed, {len(left)} survivors, {seconds:.0f} s")
    if left:
        print(f"\n{'spec':<8}{'outcome':<28}mutant")
        print("\n".join(_line(fate) for fate in left))
    return 1 if left else 0


def _line(fate: Fate) -> str:
    line = f"{fate.mutant.spec:<8}{fate.outcome:<28}{fate.mutant.label}"
    return f"{line}\n{fate.detail}" if fate.outcome is Outcome.BROKEN else line


if __name__ == "__main__":
    sys.exit(main())
