"""The published definition of the operation that the cases report on."""

from __future__ import annotations

from taskstatus.adapters.definitions.documents import parse_definitions
from taskstatus.adapters.mysql.definition_table import DefinitionTable, NewDefinition
from taskstatus.adapters.mysql.engine import Database
from tests.parity.stage import OPERATION
from tests.support.clients import SCOPE, TENANT, WORKER

PROGRESS, COMPLETED = "parity.parse.progress.v1", "parity.parse.completed.v1"
MAX_BYTES = 400
_PAGES = {"type": "object", "properties": {"pages": {"type": "integer", "minimum": 0}, "note": {"type": "string"}}}


async def publish(database: Database) -> None:
    """Publish it once."""
    document = {
        "tenant": TENANT,
        "scope": SCOPE,
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
    table = DefinitionTable(database.reader, database.writer)
    stored = parse_definitions(document, "parity")
    await table.publish([NewDefinition(*item.key, item.body, item.digest, "parity") for item in stored])


def _schema(name: str, event: str) -> dict[str, object]:
    return {
        "name": name,
        "events": [event],
        "maxBytes": MAX_BYTES,
        "schema": {**_PAGES, "required": ["pages"], "additionalProperties": False},
        "detail": ["pages", "note"],
        "summary": ["pages"],
    }
