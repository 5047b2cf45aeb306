"""What is read before a task is bound, so that nothing is read under its locks (L-5, R-8)."""

from __future__ import annotations

import pytest

from taskstatus.adapters.memory.definitions import MemoryRegistry
from taskstatus.application.definition_binding import DefinitionBinding, WantedVersions, wanted_by
from taskstatus.application.ports_store import StoreUnavailableError
from tests.unit.factories import REVIEWED, SCOPE, START, TENANT, a_task_spec, an_operation
from tests.unit.service_kit import drive

DOCUMENT = REVIEWED.task_type


class Followed(MemoryRegistry):
    """A registry that learns of a publication when it is refreshed."""

    def __init__(self) -> None:
        super().__init__(REVIEWED, an_operation(version=2, task_type=DOCUMENT))
        self.refreshed = 0

    async def refresh(self) -> None:
        """Count it."""
        await super().refresh()
        self.refreshed += 1


@pytest.mark.parametrize(
    ("wanted", "refreshed"),
    [
        ([], 0),
        ([WantedVersions("", 0, 0)], 0),
        ([WantedVersions("UNHEARD_OF", 0, 0)], 0),
        ([WantedVersions(DOCUMENT, 1, 2), WantedVersions(DOCUMENT, 0, 2)], 0),
        ([WantedVersions(DOCUMENT, 2, 0)], 1),
        ([WantedVersions(DOCUMENT, 1, 1)], 1),
        ([WantedVersions(DOCUMENT, 7, 0), WantedVersions(DOCUMENT, 0, 7)], 1),
        ([WantedVersions("UNHEARD_OF", 1, 0)], 1),
    ],
)
def test_r8_only_a_version_that_is_not_known_is_looked_for(wanted: list[WantedVersions], refreshed: int) -> None:
    registry = Followed()
    drive(DefinitionBinding(registry).prepare(TENANT, SCOPE, wanted))
    assert registry.refreshed == refreshed


def test_r8_a_retired_version_is_known_and_not_looked_for() -> None:
    registry = Followed()
    registry.add(REVIEWED, retired_at=START)
    drive(DefinitionBinding(registry).prepare(TENANT, SCOPE, [WantedVersions(DOCUMENT, 1, 0)]))
    assert registry.refreshed == 0


def test_r8_a_task_that_names_no_version_wants_the_newest() -> None:
    assert wanted_by(a_task_spec()) == WantedVersions(DOCUMENT, 0, 0)
    named = a_task_spec(status_definition_version=3, operation_definition_version=4)
    assert wanted_by(named) == WantedVersions(DOCUMENT, 3, 4)


def test_r8_what_cannot_be_read_is_told() -> None:
    registry = Followed()
    registry.unavailable = True
    with pytest.raises(StoreUnavailableError):
        drive(DefinitionBinding(registry).prepare(TENANT, SCOPE, [WantedVersions(DOCUMENT, 1, 0)]))
