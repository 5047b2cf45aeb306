"""The context on its way from coordinator to worker (R-4)."""

from __future__ import annotations

import json

import pytest

from taskstatus.sdk import Coordinator, ExecutionContext

from .support import activated


async def test_r4_the_context_survives_the_hand_over(coordinator: Coordinator) -> None:
    context = await activated(coordinator)

    assert ExecutionContext.from_dict(json.loads(json.dumps(context.to_dict()))) == context


async def test_secrets_stay_out_of_what_is_printed(coordinator: Coordinator) -> None:
    context = await activated(coordinator)

    assert context.execution_token not in repr(context)
    assert context.execution_handle not in repr(context)


async def test_fields_of_a_newer_coordinator_are_passed_over(coordinator: Coordinator) -> None:
    context = await activated(coordinator)

    assert ExecutionContext.from_dict({**context.to_dict(), "newField": 1}) == context


@pytest.mark.parametrize(
    "data",
    [{}, {"executionId": "exec_1"}, {"executionHandle": "exh_1"}, {"executionId": 7, "executionHandle": "exh_1"}],
)
def test_anything_else_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not an execution context"):
        ExecutionContext.from_dict(data)
