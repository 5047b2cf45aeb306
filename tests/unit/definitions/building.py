"""Documents of definitions with valid defaults: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from taskstatus.adapters.definitions.documents import parse_document
from taskstatus.adapters.definitions.versions import PublishedVersion, StoredDefinition
from tests.unit.factories import SCOPE, START, TENANT

SCHEMA = {"type": "object", "properties": {"pageCount": {"type": "integer"}}, "required": ["pageCount"]}
DOCUMENT = "DOCUMENT_PROCESS"


def operation(version: int = 1, schema: dict[str, Any] = SCHEMA, **changes: Any) -> dict[str, Any]:
    """One version of DOCUMENT.PARSE with one schema."""
    return {
        "operation": "DOCUMENT.PARSE",
        "version": version,
        "producers": ["document-parser"],
        "schemas": [{"name": "document.parse.completed.v2", "events": ["STEP_COMPLETED"], "schema": schema}],
        **changes,
    }


def status(code: str, lifecycle: str = "RUNNING", **changes: Any) -> dict[str, Any]:
    """One status."""
    return {"code": code, "lifecycleStatus": lifecycle, **changes}


STATUSES = (
    status("QUEUED", "PENDING"),
    status("PARSING", allowedFrom=["QUEUED", "PENDING"]),
    status("WAITING_REVIEW", allowedFrom=["PARSING"], severity="WARNING", presentation={"colorToken": "warning"}),
    status("PUBLISHED", "SUCCEEDED", allowedFrom=["WAITING_REVIEW"]),
)
"""Of a document that a person reviews."""


def statuses(version: int = 1, *listed: dict[str, Any], task_type: str = DOCUMENT) -> dict[str, Any]:
    """One version of the statuses of a task type."""
    return {"taskType": task_type, "version": version, "statuses": list(listed or STATUSES)}


def document(*items: dict[str, Any]) -> dict[str, Any]:
    """Operations and status definitions as a request brings them."""
    return {
        "operations": [item for item in items if "operation" in item],
        "statuses": [item for item in items if "operation" not in item],
    }


def stored(*items: dict[str, Any]) -> tuple[StoredDefinition, ...]:
    """The same, checked. Raises DefinitionsError."""
    return parse_document(document(*items), "the request")


def published(
    *items: dict[str, Any], at: datetime = START, retired_at: datetime | None = None
) -> Sequence[PublishedVersion]:
    """The same, as a table gives it back."""
    return [
        PublishedVersion(TENANT, SCOPE, item.key, item.body, at + timedelta(seconds=n), retired_at, retired_at or at)
        for n, item in enumerate(stored(*items))
    ]
