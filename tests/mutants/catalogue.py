"""All mutants, in the order of the report."""

from __future__ import annotations

from .application_mutants import application_mutants
from .command_edge_mutants import command_edge_mutants
from .command_mutants import command_mutants
from .definition_mutants import definition_mutants
from .domain_mutants import domain_mutants
from .dynamic_mutants import dynamic_mutants
from .event_mutants import event_mutants
from .guard_mutants import guard_mutants
from .health_mutants import health_mutants
from .heartbeat_mutants import heartbeat_mutants
from .list_mutants import list_mutants
from .mutant import Mutant
from .rerun_mutants import rerun_mutants
from .table_mutants import table_mutants
from .workflow_mutants import workflow_mutants
from .workflow_view_mutants import workflow_view_mutants


def all_mutants() -> list[Mutant]:
    """Guards, tables, named rules. Raises ValueError when two have the same label."""
    guards = [*guard_mutants(), *health_mutants()]
    mutants = [*guards, *table_mutants(), *event_mutants(), *domain_mutants(), *application_mutants()]
    mutants += [*heartbeat_mutants(), *definition_mutants()]
    mutants += [*command_mutants(), *command_edge_mutants(), *rerun_mutants(), *dynamic_mutants()]
    mutants += [*workflow_mutants(), *workflow_view_mutants(), *list_mutants()]
    labels = [mutant.label for mutant in mutants]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"these mutants cannot be told apart: {', '.join(twice)}")
    return mutants
