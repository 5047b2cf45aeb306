"""Workflows in a real database: what their rows say, and waiting until they have settled."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from taskstatus.adapters.mysql.engine import Database
from taskstatus.domain.ids import parse_workflow_id

PATIENCE_SECONDS = 60.0


@dataclass
class Yard:
    """A look into the tables beside the service."""

    database: Database

    async def sql(self, statement: str, *parameters: Any) -> Any:
        """Run one statement; rows of a query."""
        async with self.database.writer.connect() as connection:
            result = await connection.exec_driver_sql(statement, parameters)
            return result.all() if result.returns_rows else result.rowcount

    async def row_lock_waits(self) -> int:
        """How often any transaction of the server has waited for a row."""
        rows = await self.sql("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'")
        return int(rows[0][1])

    async def triggers(self) -> int:
        """Changes that no workflow has followed yet."""
        return int((await self.sql("SELECT COUNT(*) FROM task_outbox WHERE for_projector=1"))[0][0])

    async def until_followed(self) -> None:
        """Return once no change is unfollowed."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.triggers():
                await asyncio.sleep(0.02)

    async def versions(self, workflow_id: str) -> list[int]:
        """Of the workflow's events."""
        rows = await self.sql(
            "SELECT workflow_version FROM workflow_event_log WHERE workflow_id=%s ORDER BY workflow_version",
            parse_workflow_id(workflow_id),
        )
        return [row[0] for row in rows]

    async def messages(self, workflow_id: str, audience: str) -> list[dict[str, Any]]:
        """The workflow's summaries, by version."""
        rows = await self.sql(
            "SELECT payload FROM task_outbox WHERE aggregate_id=%s AND audience=%s ORDER BY aggregate_version",
            parse_workflow_id(workflow_id),
            audience,
        )
        return [json.loads(row[0]) for row in rows]
