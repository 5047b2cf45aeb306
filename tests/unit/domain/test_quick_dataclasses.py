"""The quick copy is ``dataclasses.replace`` for every record that events change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from taskstatus.domain.quick_dataclasses import replace
from tests.unit.factories import a_step, a_task, progress, step_event

RECORDS = (a_task(), a_step(), step_event("STEP_PROGRESS"), step_event("STEP_PROGRESS").content)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_e6_every_field_of_a_record_can_be_changed_and_nothing_else_changes(record: Any) -> None:
    assert replace(record) == record
    for field in dataclasses.fields(record):
        sentinel = object()
        changed = replace(record, **{field.name: sentinel})
        assert getattr(changed, field.name) is sentinel
        assert dataclasses.replace(changed, **{field.name: getattr(record, field.name)}) == record


def test_unknown_field_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="Progress has no field 'goal'"):
        replace(progress(1), goal=2)  # type: ignore[call-arg]
