"""The hunt itself: what kills a mutant, what does not, and that the catalogue leaves no cell out."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from taskstatus.application.access import METHOD_ROLES
from taskstatus.application.identity import Role
from taskstatus.domain.guards import GUARDS
from taskstatus.domain.health_guards import HEALTH_GUARDS
from taskstatus.domain.lifecycle import Lifecycle
from tests.mutants.catalogue import all_mutants
from tests.mutants.mutant import name_prefix

ROOT = Path(__file__).parents[2]
RULES = "is_open = True\nname = 'kept'\n"
TESTS = """
import rules

def test_l1_open_is_open():
    assert rules.is_open

def test_l10_name_is_kept():
    assert rules.name == 'kept'

def test_e1_nothing_of_interest():
    assert True
"""
HUNT = """
import json, sys
import pytest
from tests.mutants.hunt import Hunt
from tests.mutants.mutant import Mutant

def put(name, value):
    def apply():
        import rules
        setattr(rules, name, value)
    return apply

def break_down():
    raise LookupError("no such rule")

mutants = [
    Mutant("rule", "noticed", "L-1", put("is_open", False)),
    Mutant("rule", "noticed under another id only", "L-1", put("name", "lost")),
    Mutant("rule", "nothing changes", "E-1", put("is_open", True)),
    Mutant("rule", "of no test", "X-9", put("is_open", False)),
    Mutant("rule", "that cannot be applied", "L-1", break_down),
]
hunt = Hunt(lambda: mutants, 2, lambda fate: None)
pytest.main(["-q", "-s", "-p", "no:cacheprovider", "--rootdir", sys.argv[1], sys.argv[1]], plugins=[hunt])
json.dump([{fate.mutant.name: fate.outcome for fate in hunt.fates}, hunt.problems], open(sys.argv[1] + "/told", "w"))
"""


def hunted(folder: Path, tests: str) -> tuple[dict[str, str], list[str]]:
    """The outcomes and the problems of a hunt through a small project."""
    (folder / "rules.py").write_text(RULES)
    (folder / "test_rules.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    subprocess.run([sys.executable, "-c", HUNT, str(folder)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    outcomes, problems = json.loads((folder / "told").read_text())
    return outcomes, problems


def test_mutant_is_killed_only_by_a_test_that_names_its_spec_id(tmp_path: Path) -> None:
    outcomes, problems = hunted(tmp_path, TESTS)

    assert problems == []
    assert outcomes == {
        "noticed": "killed",
        "noticed under another id only": "survived",
        "nothing changes": "survived",
        "of no test": "no test names the spec id",
        "that cannot be applied": "could not be applied or run",
    }


def test_nothing_is_judged_by_tests_that_fail_without_a_mutant(tmp_path: Path) -> None:
    outcomes, problems = hunted(tmp_path, TESTS + "\ndef test_l1_broken():\n    assert not rules.is_open\n")

    assert outcomes == {}
    assert "test_l1_broken" in problems[0]


@pytest.mark.parametrize(
    ("spec", "prefix"), [("E-1", "test_e1_"), ("R-11", "test_r11_"), ("ID-3", "test_id3_"), ("names", "test_names_")]
)
def test_spec_id_begins_the_names_of_its_tests(spec: str, prefix: str) -> None:
    assert name_prefix(spec) == prefix


def test_every_guard_and_every_cell_of_the_tables_has_its_mutant() -> None:
    labels = {mutant.label for mutant in all_mutants()}
    methods = [method.rpartition(".")[2] for method in METHOD_ROLES]

    assert {f"guard: {guard.name}: off" for guard in GUARDS} <= labels
    assert {f"health guard: {guard.name}: off" for guard in HEALTH_GUARDS} <= labels
    assert {f"lifecycle: move {source} → {target}" for source, target in product(Lifecycle, Lifecycle)} <= labels
    assert {f"role matrix: {method} × {role}" for method, role in product(methods, Role)} <= labels
