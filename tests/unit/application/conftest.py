"""Fixtures of the application service's tests."""

from __future__ import annotations

import pytest

from tests.unit.service_kit import Kit

from .reporting_kit import ReportingKit


@pytest.fixture
def reporting(kit: Kit) -> ReportingKit:
    """Reporting over a document task whose parse step is activated."""
    return ReportingKit(kit)
