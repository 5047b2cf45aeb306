"""The one exception by which a command or a read is refused; the edges map it to a status, nothing else does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from taskstatus.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One invalid field: its path in the request's JSON form and a sentence for its author."""

    field: str
    description: str


@dataclass(eq=False, slots=True)
class RefusedError(Exception):
    """A call or an item is refused with a ``Reason``; nothing was written.

    ``message`` is safe to show the caller: it holds no SQL, secret or stack. ``metadata`` repeats every dynamic value
    of the message (AIP-193), ``violations`` name the invalid fields of an INVALID_ARGUMENT.
    """

    reason: Reason
    message: str
    violations: tuple[FieldViolation, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_after_seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


def invalid(field_path: str, description: str) -> RefusedError:
    """An INVALID_ARGUMENT that names one field."""
    return RefusedError(
        Reason.INVALID_ARGUMENT, f"{field_path}: {description}", (FieldViolation(field_path, description),)
    )
