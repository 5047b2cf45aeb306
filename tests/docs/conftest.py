"""The journey of the documents' event, run once."""

from __future__ import annotations

import asyncio

import pytest

from scripts.docs.one_event import Journey, travel


@pytest.fixture(scope="session")
def journey() -> Journey:
    """What the event left behind."""
    return asyncio.run(travel())
