"""The column in which ``task`` keeps what creation fixed about later steps (R-2, R-5).

The run time has a column of its own, from which the database makes the deadline (H-8).
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any

from taskstatus.adapters.mysql.values import from_json, to_json
from taskstatus.domain.registration_terms import (
    DEFAULT_TERMS,
    DynamicPolicy,
    FixedLabels,
    RegistrationMode,
    RegistrationTerms,
)

_DYNAMIC = tuple(field.name for field in fields(DynamicPolicy))
_LABELS = tuple(field.name for field in fields(FixedLabels))
_CACHED_TERMS = 1024


def terms_to_json(terms: RegistrationTerms) -> bytes:
    """What differs from the defaults, as JSON: of most tasks nothing. Without the run time."""
    dynamic, labels = terms.dynamic, terms.labels
    content = {"mode": terms.mode.value} if terms.mode is not DEFAULT_TERMS.mode else {}
    given = {name: value for name in _DYNAMIC if (value := getattr(dynamic, name))}
    labelled = {name: value for name in _LABELS if (value := getattr(labels, name))}
    return to_json({**content, **({"dynamic": given} if given else {}), **({"labels": labelled} if labelled else {})})


@lru_cache(maxsize=_CACHED_TERMS)
def terms_from_json(stored: bytes, max_run_seconds: int = 0) -> RegistrationTerms:
    """The terms of what ``terms_to_json`` gave, with what the run time's column holds."""
    content = from_json(stored)
    if not content and not max_run_seconds:
        return DEFAULT_TERMS
    dynamic: dict[str, Any] = {name: _frozen(value) for name, value in content.get("dynamic", {}).items()}
    return RegistrationTerms(
        mode=RegistrationMode(content.get("mode", DEFAULT_TERMS.mode)),
        dynamic=DynamicPolicy(**dynamic),
        labels=FixedLabels(**content.get("labels", {})),
        max_run_seconds=max_run_seconds,
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
