"""Fixtures of the lanes' tests."""

from __future__ import annotations

import pytest

from .lane_kit import LaneKit


@pytest.fixture
async def lanes() -> LaneKit:
    """One lane over an in-memory store."""
    return LaneKit()
