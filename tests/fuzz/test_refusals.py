"""Whatever is refused of the commands has written nothing, and a task that nobody changed is as it was (E-4, R-6)."""

from __future__ import annotations

import grpc
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.fuzz.conftest import Target
from tests.fuzz.live import Live
from tests.fuzz.live_orders import GOOD_ORDERS
from tests.fuzz.test_grpc import drawn, send
from tests.support.databases import TABLES

REGISTER = "taskstatus.v1.RegisterService/RegisterExecution"
COMMANDS = [*(method for method in GOOD_ORDERS if "/List" not in method and "/Get" not in method), REGISTER]
COUNTED = (*TABLES, "task_status_definition", "task_operation_definition")
REVISIONS = "SELECT COALESCE(SUM(row_revision), 0) AS revisions, COALESCE(SUM(version), 0) AS versions FROM task"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", COMMANDS)
async def test_e4_a_refused_command_has_written_nothing(target: Target, method: str) -> None:
    live: Live = await target.live()
    refused = 0
    for request in (request for burst in drawn(method, live) for request in burst):
        before = await contents(target.database.reader)
        (code,) = await send(target, method, [request], live)
        if code is not grpc.StatusCode.OK:
            refused += 1
            assert await contents(target.database.reader) == before, request.hex()
    assert refused


async def contents(reader: AsyncEngine) -> dict[str, object]:
    """The number of rows of every table, and what every write to a task, a step or an execution raises."""
    found: dict[str, object] = {}
    async with reader.connect() as connection:
        for table in COUNTED:
            found[table] = (await connection.exec_driver_sql(f"SELECT COUNT(*) AS n FROM {table}")).scalar_one()
        found["revisions"] = tuple((await connection.exec_driver_sql(REVISIONS)).one())
        await connection.rollback()
    return found
