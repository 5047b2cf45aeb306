"""What a case left in the database, in a form that is equal for equal tasks: ids by their role, times as times."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine
from taskstatus_pb.storage.v1 import canonical_pb2

from tests.parity.stage import Stage

_KEY_OF_TABLE = {
    "task": "id",
    "task_run": "task_id",
    "task_step": "task_id",
    "task_event_log": "task_id",
    "task_event_dedup": "task_id",
    "task_execution_lease": "task_id",
    "task_outbox": "aggregate_id",
    "task_external_ref": "task_id",
    "command_audit": "task_id",
}
_KEY_OF_WORKFLOW_TABLE = {
    "workflow": "id",
    "workflow_event_log": "workflow_id",
    "task_outbox of the workflow": "aggregate_id",
}
_KEY_OF_TYPE_TABLE = {"task_status_definition": "task_type", "task_operation_definition": "task_type"}
"""Some cases publish for a task type that is named as their task."""
_OWN = {"task_outbox": "id", "task_outbox of the workflow": "id", "command_audit": "id"}
"""Ids of the rows themselves."""
_OF_WORKFLOW_KEY = frozenset({"client_workflow_key", "creation_digest"})
"""A workflow's key is another one in each stage."""
_APART = frozenset(
    {"traceparent", "trace_id", "traceId", "elapsedMs", "totalDurationMs", "committed_at", "write_count"}
    | {"last_heartbeat_at", "deadline_at"}
)
"""Trace context is outside the content (E-3); a row is written once a commit, however many events that has; times; and
signs of life, accepted progress among them, are persisted some time later (H-2, H-7)."""
_MEASURED = {
    ("duration_source", b"SERVER_WALL_CLOCK"): "duration_ms",
    ("durationSource", "SERVER_WALL_CLOCK"): "durationMs",
}
"""Durations that are differences of times; a reported one must be kept as it is."""
_JSON_COLUMNS = frozenset(
    {"payload", "result", "shown_data", "summary_data", "producer_seqs", "old_value", "new_value"}
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_CREDENTIAL = re.compile(r"exh_[\w-]+|eyJ[\w-]+\.[\w-]+\.[\w-]+")
_MOMENTS = frozenset({"asOf", "elapsedMs", "tokenExpiresAt"})
_CANONICAL_VERSION = b"\x01"

Rows = dict[str, list[dict[str, Any]]]


async def stored_rows(reader: AsyncEngine, stage: Stage) -> Rows:
    """Every row of the task, of its workflow, and of the task type that is named as it, by table."""
    task_id, workflow_id = _bytes_of(stage.task_id), _bytes_of(stage.workflow_id)
    keys = [(table, key, task_id) for table, key in _KEY_OF_TABLE.items()]
    keys += [(table, key, workflow_id) for table, key in _KEY_OF_WORKFLOW_TABLE.items()]
    keys += [(table, key, stage.task_id.encode()) for table, key in _KEY_OF_TYPE_TABLE.items()]
    normal = Normaliser(stage)
    async with reader.connect() as connection:
        rows: Rows = {}
        for name, key, value in keys:
            table = name.partition(" ")[0]
            found = await connection.exec_driver_sql(f"SELECT * FROM {table} WHERE {key} = %s", (value,))
            rows[name] = sorted((normal.row(name, dict(row)) for row in found.mappings()), key=repr)
        await connection.rollback()
    return rows


class Normaliser:
    """Takes ids by their role and times as times, in the rows and answers of one stage."""

    def __init__(self, stage: Stage) -> None:
        roles = {stage.workflow_id: "workflow", stage.task_id: "task"}
        roles |= {context.execution_id: f"execution {context.step_attempt}" for context in stage.contexts}
        self._text = roles
        self._raw = {_bytes_of(text): role for text, role in roles.items()}

    def row(self, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row without what must differ. Asserts that digests cover what they stand beside."""
        if table == "task_event_log" and row["source_seq"]:
            return {**self._columns(row), "canonical": self._canonical(row), "digest": "of the canonical bytes"}
        if table == "task_event_log":
            return self._own_event(row)
        if table in _OWN:
            return self._columns({**row, _OWN[table]: "row"})
        if table == "task_event_dedup":
            return self._columns({**row, "digest": "as in the event log"})
        if table == "workflow_event_log" and row["event_type"] == b"WORKFLOW_CREATED":
            return self._columns({**row, "digest": "of what names the workflow's key"})
        if table in _KEY_OF_TYPE_TABLE:
            return self._columns({**row, "digest": "of what names the type"})
        if table == "task_step" and row["parent_execution_id"]:
            return self._columns({**row, "activation_digest": "of what names the parent"})
        if table == "workflow":
            return self._columns({name: value for name, value in row.items() if name not in _OF_WORKFLOW_KEY})
        return self._columns(row)

    def document(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """An answer in its JSON form without what must differ: credentials and moments too."""
        known = self._json({name: value for name, value in answer.items() if name not in _MOMENTS})
        assert isinstance(known, dict)
        return known

    def _own_event(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """An event of the service's own: its canonical bytes are a request's, which may name ids of the stage."""
        canonical, digest = bytes(row["canonical"]), bytes(row["digest"])
        if digest == hashlib.sha256(_CANONICAL_VERSION + canonical).digest():
            digest = b"of the canonical bytes"
        return {**self._columns(row), "canonical": self._in_bytes(canonical), "digest": digest}

    def _canonical(self, row: Mapping[str, Any]) -> bytes:
        canonical = bytes(row["canonical"])
        assert row["digest"] == hashlib.sha256(_CANONICAL_VERSION + canonical).digest()
        event = canonical_pb2.CanonicalEvent.FromString(canonical)
        assert event.SerializeToString(deterministic=True) == canonical
        for name in ("workflow_id", "task_id", "execution_id"):
            value = getattr(event, name)
            setattr(event, name, self._raw.get(value, value.hex()).encode() if value else b"")
        event.occurred_at_us = 1 if event.occurred_at_us else 0
        return event.SerializeToString(deterministic=True)

    def _columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._value(name, value) for name, value in row.items() if name not in _varying(row)}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, datetime):
            return "time"
        if name == "registered_at" and value:
            return f"{len(value)} bytes of times"
        if isinstance(value, bytes) and value in self._raw:
            return self._raw[value]
        if name in _JSON_COLUMNS and value:
            return self._json(json.loads(value))
        if isinstance(value, bytes):
            return self._in_bytes(value)
        return self._in_text(value) if isinstance(value, str) else value

    def _in_bytes(self, value: bytes) -> bytes:
        for known, role in self._text.items():
            value = value.replace(known.encode(), role.encode())
        return value

    def _json(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._json(item) for name, item in value.items() if name not in _varying(value)}
        if isinstance(value, list):
            return [self._json(item) for item in value]
        return self._in_text(value) if isinstance(value, str) else value

    def _in_text(self, text: str) -> str:
        for known, role in self._text.items():
            text = text.replace(known, role)
        return _CREDENTIAL.sub("credential", _TIME.sub("time", text))


def _varying(fields: Mapping[str, Any]) -> frozenset[str]:
    return _APART | {name for (key, value), name in _MEASURED.items() if fields.get(key) == value}


def difference(rows: Rows, others: Rows) -> list[str]:
    """The columns in which two tasks differ, for people; empty when they are equal."""
    found = [f"{table}: {len(rows[table])} rows against {len(others[table])}" for table in rows]
    found = [line for table, line in zip(rows, found, strict=True) if len(rows[table]) != len(others[table])]
    for table in rows:
        for row, other in zip(rows[table], others[table], strict=False):
            found += [f"{table}.{name}: {row[name]} / {other[name]}" for name in row if row[name] != other[name]]
    return found


async def dedup_digests_match(reader: AsyncEngine, stage: Stage) -> bool:
    """Whether each event of the log stands in the dedup table with the same digest and canonical version."""
    statement = (
        "SELECT COUNT(*) FROM task_event_log e LEFT JOIN task_event_dedup d ON d.task_id = e.task_id"
        " AND d.event_id = e.event_id AND d.digest = e.digest AND d.canonical_version = e.canonical_version"
        " WHERE e.task_id = %s AND e.source_seq > 0 AND d.task_id IS NULL"
    )
    async with reader.connect() as connection:
        missing = (await connection.exec_driver_sql(statement, (_bytes_of(stage.task_id),))).scalar_one()
        await connection.rollback()
    return bool(missing == 0)


def _bytes_of(text: str) -> bytes:
    return bytes.fromhex(text.rpartition("_")[2])
