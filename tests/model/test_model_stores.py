"""Every command against the model, on MySQL and on MariaDB."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql.engine import open_database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.mysql.workflow_table import WorkflowTable
from tests.model.product import Backend
from tests.model.workflow_machine import WorkflowMachine

QUICK = settings(max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))


def test_r6_random_commands_are_answered_as_the_model_says(database_url: str) -> None:
    with asyncio.Runner() as runner:
        database = open_database(database_url)
        store = MySqlTaskStore(database.writer, SystemClock(), SystemRandomness())
        reader = MySqlTaskReader(database.reader)
        workflows = WorkflowTable(reader)

        class OnDatabase(WorkflowMachine):
            def __init__(self) -> None:
                self.backend = Backend(store, reader, workflows, workflows, runner)
                super().__init__()

        try:
            run_state_machine_as_test(OnDatabase, settings=QUICK)
        finally:
            runner.run(database.dispose())
