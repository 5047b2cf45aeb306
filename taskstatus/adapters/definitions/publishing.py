"""What publishing would do: versions immutable and rising, schemas compatible, the difference shown (L-5)."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskstatus.adapters.definitions.documents import operation_of
from taskstatus.adapters.definitions.versions import PublishedVersion, StoredDefinition
from taskstatus.application.ports_definitions import DefinitionKey
from taskstatus.domain.definitions import incompatibilities

MAX_VERSIONS, MAX_CHARACTERS = 5_000, 32 * 1024 * 1024
"""Of one tenant and scope; every replica keeps them in memory, and a publisher reads them whole."""

Known = dict[tuple[str, str], dict[int, str]]
"""(operation, task type) → version → its canonical text, published or about to be."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What publishing would do; nothing may be published while there are problems."""

    new: tuple[StoredDefinition, ...]
    unchanged: int
    problems: tuple[str, ...]
    differences: tuple[str, ...]
    """Unified differences against the newest published version, for people."""


def plan(wanted: Sequence[StoredDefinition], published: Sequence[PublishedVersion]) -> Plan:
    """Compare what is to be published with everything that is, of the same tenant and scope, retired or not."""
    known: Known = {}
    for row in published:
        _versions(known, row.key)[row.key.version] = row.body
    new: list[StoredDefinition] = []
    problems: list[str] = []
    differences: list[str] = []
    unchanged = 0
    for item in sorted(wanted, key=lambda item: (item.key.operation_code, item.key.task_type, item.key.version)):
        versions = _versions(known, item.key)
        body, newest = versions.get(item.key.version), max(versions, default=0)
        if body == item.body:
            unchanged += 1
            continue
        if body is not None:
            problems.append(f"{_name(item.key)} is published and cannot change; publish version {newest + 1}")
        elif newest > item.key.version:
            problems.append(f"{_name(item.key)} is older than the published version {newest}")
        else:
            problems += [f"{_name(item.key)}: {problem}" for problem in _incompatible(versions, item)]
            new.append(item)
            versions[item.key.version] = item.body
        differences.append(_difference(item, newest, versions.get(newest, "")))
    bodies = [body for versions in known.values() for body in versions.values()]
    if len(bodies) > MAX_VERSIONS:
        problems.append(f"the scope would have {len(bodies)} versions, at most {MAX_VERSIONS} are allowed")
    characters = sum(map(len, bodies))
    if characters > MAX_CHARACTERS:
        problems.append(f"the scope would have {characters} characters, at most {MAX_CHARACTERS} are allowed")
    return Plan(tuple(new), unchanged, tuple(problems), tuple(differences))


def _versions(known: Known, of: DefinitionKey) -> dict[int, str]:
    """The versions of the same operation (or status definition) and task type."""
    return known.setdefault((of.operation_code, of.task_type), {})


def _incompatible(versions: Mapping[int, str], item: StoredDefinition) -> list[str]:
    """A schema that bears the name of an earlier one may only have gained optional fields.

    Statuses may change freely from version to version: a task is bound to one of them for good.
    """
    if not item.key.operation_code:
        return []
    missing = {schema.name: schema for schema in operation_of(item.body).schemas}
    problems: list[str] = []
    for version in sorted(versions, reverse=True):
        for before in operation_of(versions[version]).schemas:
            # The last one of a name counts: it is what today's readers of the name understand.
            after = missing.pop(before.name, None)
            problems += incompatibilities(before, after) if after else []
        if not missing:
            break
    return problems


def _difference(item: StoredDefinition, newest: int, newest_body: str) -> str:
    before = _lines(newest_body) if newest else []
    name = _subject(item.key)
    lines = difflib.unified_diff(
        before, _lines(item.body), f"{name} version {newest}", f"{name} version {item.key.version}", lineterm=""
    )
    return "\n".join(lines)


def _lines(body: str) -> list[str]:
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False, sort_keys=True).splitlines()


def _subject(key: DefinitionKey) -> str:
    return f"{key.operation_code} ({key.task_type})" if key.operation_code else f"the statuses of {key.task_type}"


def _name(key: DefinitionKey) -> str:
    return f"{_subject(key)} version {key.version}"
