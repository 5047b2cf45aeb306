"""The service kit, and Hypothesis profiles: few, repeatable examples, or many by ``HYPOTHESIS_PROFILE=thorough``."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.unit.service_kit import Kit

settings.register_profile(
    "unit",
    max_examples=20,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes where "make unit" has seconds
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "unit"))


@pytest.fixture
def kit() -> Kit:
    """The application service over an empty in-memory store."""
    return Kit()
