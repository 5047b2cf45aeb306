"""Mutants of who may command, of what a command's content is, and of If-Match (P-4, R-6, R-7, R-8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from gateway_rest import request_message
from taskstatus.domain import permissions
from taskstatus.domain.commands import Actor
from taskstatus.domain.permissions import OPERATE, VIEW
from taskstatus.entrypoints.wire import decode_commands, values

from .mutant import Mutant
from .patching import Apply, always, around, instead_of

RIGHTS, EDGES = "command rights", "command edges"

Change = Callable[..., Any]


def command_edge_mutants() -> Iterator[Mutant]:
    """Every mutant of this module."""
    for group, rules in RULES.items():
        for name, (spec, apply) in rules.items():
            yield Mutant(group, name, spec, apply)


def _any_tenants_owner(original: Change, envelope: Any, grants: Any, person: Any, permission: str) -> bool:
    return bool(original(replace(envelope, tenant_id=person.tenant_id), grants, person, permission))


def _no_owners(original: Change, envelope: Any, grants: Any, person: Any, permission: str) -> bool:
    return bool(original(replace(envelope, owner_id=""), grants, person, permission))


def _only(permission: str) -> Change:
    """Whatever is needed, this much is enough."""

    def change(original: Change, *args: Any) -> bool:
        return bool(original(*args[:-1], permission))

    return change


def _exactly(original: Change, grants: Any, person: Any, permission: str) -> bool:
    return bool(original([grant for grant in grants if grant.permission == permission], person, permission))


def _first_grant_only(original: Change, grants: Any, person: Any, permission: str) -> bool:
    return bool(original([*grants][:1], person, permission))


def _with_keys(*kept: str) -> Change:
    """Let a key of the command belong to its content."""

    def change(original: Change, message: Any, *, without: tuple[str, ...]) -> Any:
        return original(message, without=tuple(name for name in without if name not in kept))

    return change


def _canonical(change: Change) -> Apply:
    return around(values.canonical_command, change)


def _nameless(_: Change, message: Any, *, without: tuple[str, ...]) -> Any:
    known = tuple(name for name in without if name in message.DESCRIPTOR.fields_by_name)
    return values.canonical_request(message, without=known)


def _person_without_claims(original: Change, identity: Any) -> Actor:
    return replace(original(identity), projects=frozenset(), roles=frozenset())


def _everybody_admin(original: Change, identity: Any) -> Actor:
    actor: Actor = original(identity)
    return actor if actor.is_person else replace(actor, is_admin=True)


def _weak_tag(original: Change, field: Any, given: Any, message: Any) -> None:
    original(field, [value.strip().removeprefix("W/") for value in given], message)


def _any_word(original: Change, field: Any, given: Any, message: Any) -> None:
    words = [f'"{word}-version-' for word in request_message.VERSION_FIELDS.values()]
    own = f'"{request_message.VERSION_FIELDS[field.name]}-version-'
    for word in words:
        given = [value.replace(word, own) for value in given]
    original(field, given, message)


def _first_tag(original: Change, field: Any, given: Any, message: Any) -> None:
    original(field, given[:1], message)


def _header_wins(original: Change, field: Any, given: Any, message: Any) -> None:
    message.ClearField(field.name)
    original(field, given, message)


def _star_unknown(original: Change, field: Any, given: Any, message: Any) -> None:
    original(field, ['"*"' if value.strip() == "*" else value for value in given], message)


RULES: dict[str, dict[str, tuple[str, Apply]]] = {
    RIGHTS: {
        "an owner of another tenant": ("P-4", around(permissions.may, _any_tenants_owner)),
        "an owner needs a grant": ("R-7", around(permissions.may, _no_owners)),
        "VIEW is enough to command": ("P-4", around(permissions.may, _only(VIEW))),
        "to see is to OPERATE": ("P-4", around(permissions.may, _only(OPERATE))),
        "only the very permission counts": ("R-7", around(permissions.permits, _exactly)),
        "the first grant decides": ("R-7", around(permissions.permits, _first_grant_only)),
    },
    EDGES: {
        "the command id is content": ("R-6", _canonical(_with_keys("command_id"))),
        "the expected version is content": (
            "R-6",
            _canonical(_with_keys("expected_task_version", "expected_workflow_version")),
        ),
        "the written form of an id is content": ("R-6", _canonical(_with_keys("task_id", "execution_id"))),
        "commands of the same content are one": ("R-6", _canonical(_nameless)),
        "claims are left behind": ("P-4", around(decode_commands.actor_of_identity, _person_without_claims)),
        "every service is an administrator": ("E-1", around(decode_commands.actor_of_identity, _everybody_admin)),
        "a weak tag": ("R-8", around(request_message._apply_expected_version, _weak_tag)),
        "another object's tag": ("R-8", around(request_message._apply_expected_version, _any_word)),
        "the first of many tags": ("R-8", around(request_message._apply_expected_version, _first_tag)),
        "the header goes before the body": ("R-8", around(request_message._apply_expected_version, _header_wins)),
        "* is a version": ("R-8", around(request_message._apply_expected_version, _star_unknown)),
        "If-Match is not read": ("R-8", instead_of(request_message.version_field, always(None))),
    },
}
"""By group and name: the spec id, and how the rule is broken."""
