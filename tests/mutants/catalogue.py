"""All mutants, in the order of the report."""

from __future__ import annotations

from .application_mutants import application_mutants
from .domain_mutants import domain_mutants
from .event_mutants import event_mutants
from .guard_mutants import guard_mutants
from .health_mutants import health_mutants
from .heartbeat_mutants import heartbeat_mutants
from .mutant import Mutant
from .table_mutants import table_mutants


def all_mutants() -> list[Mutant]:
    """Guards, tables, named rules. Raises ValueError when two have the same label."""
    guards = [*guard_mutants(), *health_mutants()]
    mutants = [*guards, *table_mutants(), *event_mutants(), *domain_mutants(), *application_mutants()]
    mutants += heartbeat_mutants()
    labels = [mutant.label for mutant in mutants]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"these mutants cannot be told apart: {', '.join(twice)}")
    return mutants
