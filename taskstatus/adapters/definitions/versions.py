"""One version of a definition as it is kept: key, canonical text, and when it was published and retired (L-5)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from taskstatus.application.ports_definitions import DefinitionKey


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """One version to publish, as it will be kept: key and canonical text."""

    key: DefinitionKey
    body: str

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical text."""
        return hashlib.sha256(self.body.encode()).digest()


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """Of one version when it was last changed: published or retired."""

    tenant_id: str
    authority_scope: str
    key: DefinitionKey
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """One published version as a table gives it back."""

    tenant_id: str
    authority_scope: str
    key: DefinitionKey
    body: str
    published_at: datetime
    retired_at: datetime | None
    changed_at: datetime
    """The later of the two."""

    @property
    def change(self) -> DefinitionChange:
        """Its last change alone."""
        return DefinitionChange(self.tenant_id, self.authority_scope, self.key, self.changed_at)
