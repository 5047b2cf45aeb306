"""Publishing a file of definitions: the difference shown, versions immutable, schemas compatible (L-5)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from taskstatus.adapters.definitions.documents import OperationDocument, StoredDefinition
from taskstatus.domain.definitions import OperationDefinition, incompatibilities


class Published(Protocol):
    """A version that is published already."""

    @property
    def task_type(self) -> str: ...
    @property
    def operation_code(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def body(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What applying a file would do; nothing may be applied while there are problems."""

    new: tuple[StoredDefinition, ...]
    unchanged: int
    problems: tuple[str, ...]
    differences: tuple[str, ...]
    """Unified differences against the newest published version, for people."""


def plan(wanted: Sequence[StoredDefinition], published: Sequence[Published]) -> Plan:
    """Compare a file with what is published for its tenant and scope."""
    known = {(row.task_type, row.operation_code, row.version): row.body for row in published}
    new: list[StoredDefinition] = []
    problems: list[str] = []
    differences: list[str] = []
    unchanged = 0
    for item in sorted(wanted, key=lambda item: (item.operation_code, item.task_type, item.version)):
        body = known.get((item.task_type, item.operation_code, item.version))
        newest = _newest(known, item)
        if body == item.body:
            unchanged += 1
            continue
        if body is not None:
            problems.append(f"{_name(item)} is published and cannot change; publish version {newest[0] + 1}")
        elif newest[0] > item.version:
            problems.append(f"{_name(item)} is older than the published version {newest[0]}")
        else:
            problems += [f"{_name(item)}: {problem}" for problem in _incompatible(newest[1], item)]
            new.append(item)
            known[(item.task_type, item.operation_code, item.version)] = item.body
        differences.append(_difference(item, newest))
    return Plan(tuple(new), unchanged, tuple(problems), tuple(differences))


def _newest(known: dict[tuple[str, str, int], str], item: StoredDefinition) -> tuple[int, str]:
    """(version, body) of the newest known version; version 0 and an empty body when there is none."""
    versions = [
        (version, body)
        for (task_type, operation, version), body in known.items()
        if (task_type, operation) == (item.task_type, item.operation_code)
    ]
    return max(versions, default=(0, ""))


def _incompatible(older_body: str, item: StoredDefinition) -> list[str]:
    """A schema of the same name may only gain optional fields."""
    if not older_body:
        return []
    older: OperationDefinition = OperationDocument.model_validate_json(older_body).definition()
    problems: list[str] = []
    for schema in item.definition().schemas:
        before = older.schema(schema.name)
        problems += incompatibilities(before, schema) if before else []
    return problems


def _difference(item: StoredDefinition, newest: tuple[int, str]) -> str:
    before = _lines(newest[1]) if newest[1] else []
    name = f"{item.operation_code} ({item.task_type})"
    lines = difflib.unified_diff(
        before, _lines(item.body), f"{name} version {newest[0]}", f"{name} version {item.version}", lineterm=""
    )
    return "\n".join(lines)


def _lines(body: str) -> list[str]:
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False, sort_keys=True).splitlines()


def _name(item: StoredDefinition) -> str:
    return f"{item.operation_code} ({item.task_type}) version {item.version}"
