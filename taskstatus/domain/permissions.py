"""Who may do what with a task: owners, grants and recorded coordinators, judged against the database (P-4, R-7)."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Protocol

from taskstatus.domain.state import PERMISSIONS, Grant, TaskEnvelope

VIEW, OPERATE, ADMIN = PERMISSIONS


class Person(Protocol):
    """A verified person with what their claims say."""

    @property
    def tenant_id(self) -> str: ...
    @property
    def user_id(self) -> str: ...
    @property
    def projects(self) -> Set[str]: ...
    @property
    def roles(self) -> Set[str]: ...


def names(grant: Grant, person: Person) -> bool:
    """Whether a grant is given to this person, to one of their projects or to one of their roles."""
    match grant.principal_type:
        case "USER":
            return grant.principal_id == person.user_id
        case "PROJECT":
            return grant.principal_id in person.projects
        case "ROLE":
            return grant.principal_id in person.roles
        case _:
            return False


def permits(grants: Iterable[Grant], person: Person, permission: str) -> bool:
    """Whether one of the grants gives this person at least the permission."""
    needed = PERMISSIONS.index(permission)
    return any(PERMISSIONS.index(grant.permission) >= needed and names(grant, person) for grant in grants)


def may(envelope: TaskEnvelope, grants: Iterable[Grant], person: Person, permission: str) -> bool:
    """Whether a person of the task's tenant may do it: the owner everything, others by grant."""
    if envelope.tenant_id != person.tenant_id:
        return False
    return envelope.owner_id == person.user_id or permits(grants, person, permission)
