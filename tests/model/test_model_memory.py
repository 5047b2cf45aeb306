"""Every command against the model, on the in-memory store."""

from __future__ import annotations

import asyncio

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from taskstatus.adapters.memory.reader import MemoryTaskReader
from taskstatus.adapters.memory.store import MemoryTaskStore
from taskstatus.adapters.memory.workflows import MemoryAggregateTriggers, MemoryWorkflowReader
from tests.model.product import Backend
from tests.model.workflow_machine import WorkflowMachine


def test_r6_random_commands_are_answered_as_the_model_says() -> None:
    with asyncio.Runner() as runner:

        class OnMemory(WorkflowMachine):
            def __init__(self) -> None:
                store = MemoryTaskStore()
                reader, workflows = MemoryTaskReader(store), MemoryWorkflowReader(store)
                self.backend = Backend(store, reader, MemoryAggregateTriggers(store), workflows, runner)
                super().__init__()

        run_state_machine_as_test(OnMemory, settings=settings(max_examples=100, stateful_step_count=40))
