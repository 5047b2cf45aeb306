"""What a task's creation fixed about the steps that it may get later, and about how long it may run (R-2, R-5, H-8)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from taskstatus.domain.quick_dataclasses import dataclass


class RegistrationMode(StrEnum):
    """Which steps a task may have (R-2)."""

    FIXED = "FIXED"
    """All its steps are known at creation."""
    MINIMAL = "MINIMAL"
    """None is known at creation."""
    MIXED = "MIXED"
    """A known backbone, and dynamic steps."""


@dataclass(frozen=True, slots=True)
class DynamicPolicy:
    """Bounds of the dynamic steps of one run; 0 and empty stand for the service's own (R-5)."""

    parent_operations: tuple[str, ...] = ()
    """Operations whose executions may register children under themselves; ``SEARCH.*`` is a namespace."""
    child_operations: tuple[str, ...] = ()
    """Operations that may be registered; empty: any."""
    max_steps: int = 0
    max_depth: int = 0
    max_parallel: int = 0
    max_per_minute: int = 0

    def admits_parent(self, operation_code: str) -> bool:
        """Whether executions of the operation may register children themselves."""
        return is_within(operation_code, self.parent_operations)

    def admits_child(self, operation_code: str) -> bool:
        """Whether the operation may be registered at all."""
        return not self.child_operations or is_within(operation_code, self.child_operations)


def is_within(operation_code: str, patterns: Sequence[str]) -> bool:
    """Whether a code is one of the patterns, or lies in a namespace ``PREFIX.*`` among them; compared by bytes."""
    return any(
        operation_code == pattern or (pattern.endswith("*") and operation_code.startswith(pattern[:-1]))
        for pattern in patterns
    )


@dataclass(frozen=True, slots=True)
class FixedLabels:
    """Labels that creation fixes; unlike ``product_id`` they never change (3.1.3 of the design)."""

    billing_account_id: str = ""
    retention_policy_id: str = ""
    data_classification: str = ""


NO_BOUNDS = DynamicPolicy()
NO_LABELS = FixedLabels()


@dataclass(frozen=True, slots=True)
class RegistrationTerms:
    """Mode, bounds, labels and run time of one task, frozen at creation."""

    mode: RegistrationMode = RegistrationMode.MIXED
    dynamic: DynamicPolicy = NO_BOUNDS
    labels: FixedLabels = NO_LABELS
    max_run_seconds: int = 0
    """From the start of each run; 0 is no limit. Beyond it the task is listed as stuck work, never failed (H-8)."""


DEFAULT_TERMS = RegistrationTerms()
