"""The published definition of the operation that the cases report on."""

from __future__ import annotations

from taskstatus.adapters.definitions.catalogue import Catalogue
from taskstatus.adapters.mysql.engine import Database
from taskstatus.domain.definitions import Json
from tests.parity.stage import OPERATION
from tests.support.clients import SCOPE, TENANT, WORKER
from tests.support.definitions import table_of

PROGRESS, COMPLETED = "parity.parse.progress.v1", "parity.parse.completed.v1"
MAX_BYTES = 400
_PAGES: dict[str, Json] = {
    "type": "object",
    "properties": {"pages": {"type": "integer", "minimum": 0}, "note": {"type": "string"}},
}


async def publish(database: Database) -> None:
    """Publish it once."""
    document: dict[str, Json] = {
        "operations": [
            {
                "operation": OPERATION,
                "version": 1,
                "producers": [WORKER],
                "failurePolicy": "RETRY_THEN_FAIL_TASK",
                "events": ["STEP_STARTED", "STEP_PROGRESS", "STEP_COMPLETED", "STEP_FAILED"],
                "schemas": [_schema(PROGRESS, "STEP_PROGRESS"), _schema(COMPLETED, "STEP_COMPLETED")],
            }
        ],
    }
    await Catalogue(table_of(database)).publish(TENANT, SCOPE, document, "parity", dry_run=False)


def _schema(name: str, event: str) -> dict[str, Json]:
    return {
        "name": name,
        "events": [event],
        "maxBytes": MAX_BYTES,
        "schema": {**_PAGES, "required": ["pages"], "additionalProperties": False},
        "detail": ["pages", "note"],
        "summary": ["pages"],
    }
