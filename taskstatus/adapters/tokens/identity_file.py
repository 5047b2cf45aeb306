"""The identity file: which issuers speak for services and which for people, and with which keys.

``{"services": [ISSUER, …], "people": [ISSUER, …]}``; an ISSUER has ``issuer``, ``audience``, ``algorithms`` and one of
``keys`` (``[{"kid": …, "secretFile": …}]``, HS256, for development), ``jwksFile`` or ``jwksUrl`` (ES256, RS256).
Relative paths are relative to the file. An issuer stands in one list only, and no two issuers share a secret, so that a
service's token can never pass as a person's or the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.adapters.tokens.files import FileModel, read_file, read_model, read_secret
from taskstatus.adapters.tokens.jwks_http import check_jwks_url, fetch_jwks
from taskstatus.adapters.tokens.key_sets import FixedKeySet, KeySet, RefreshingKeySet
from taskstatus.adapters.tokens.keys import HS256, MAX_KID_CHARS, KeyMap, VerificationKey, parse_jwks, secret_key
from taskstatus.application.ports_clock import Clock

Name = Annotated[str, Field(min_length=1, max_length=255)]
Kid = Annotated[str, Field(min_length=1, max_length=MAX_KID_CHARS)]


class IssuerKind(Enum):
    """For whom an issuer's tokens speak."""

    SERVICE = "services"
    PERSON = "people"


class SecretEntry(FileModel):
    """One HS256 secret, in a file of its own."""

    kid: Kid
    secret_file: Name


class IssuerEntry(FileModel):
    """One issuer as the file describes it."""

    issuer: Name
    audience: Name
    algorithms: Annotated[tuple[Literal["HS256", "ES256", "RS256"], ...], Field(min_length=1)]
    keys: tuple[SecretEntry, ...] | None = None
    jwks_file: Name | None = None
    jwks_url: Name | None = None

    @field_validator("keys")
    @classmethod
    def _kids_are_distinct(cls, keys: tuple[SecretEntry, ...] | None) -> tuple[SecretEntry, ...] | None:
        if keys is not None and len({entry.kid for entry in keys}) != max(len(keys), 1):
            raise ValueError("needs at least one key, and each kid once")
        return keys

    @field_validator("jwks_url")
    @classmethod
    def _url_is_safe(cls, url: str | None) -> str | None:
        if url is not None:
            check_jwks_url(url)
        return url

    @model_validator(mode="after")
    def _one_source_that_fits(self) -> IssuerEntry:
        sources = [source for source in (self.keys, self.jwks_file, self.jwks_url) if source is not None]
        if len(sources) != 1:
            raise ValueError("needs exactly one of keys, jwksFile and jwksUrl")
        if self.keys is not None and set(self.algorithms) != {HS256}:
            raise ValueError("keys are HS256 secrets: algorithms must be just HS256")
        if self.keys is None and HS256 in self.algorithms:
            raise ValueError("a JWK Set holds public keys: HS256 cannot be among the algorithms")
        return self


class IdentityFile(FileModel):
    """The whole document."""

    services: tuple[IssuerEntry, ...]
    people: tuple[IssuerEntry, ...]

    @model_validator(mode="after")
    def _issuers_are_distinct(self) -> IdentityFile:
        names = [entry.issuer for entry in (*self.services, *self.people)]
        if len(set(names)) != len(names):
            raise ValueError("an issuer may stand in one place only, either in services or in people")
        return self


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """One issuer, ready for verifying."""

    issuer: str
    audience: str
    kind: IssuerKind
    keys: KeySet


def load_issuers(path: Path, clock: Clock) -> dict[str, TrustedIssuer]:
    """Every issuer of an identity file, by name; reads secrets and JWKS files at once, URLs at the first token.

    Raises CredentialConfigError that names the file and the field.
    """
    return {
        entry.issuer: TrustedIssuer(entry.issuer, entry.audience, kind, _key_set(path, field, entry, clock))
        for kind, field, entry in _entries(path)
    }


def load_signing_secrets(path: Path, kind: IssuerKind) -> dict[str, tuple[IssuerEntry, VerificationKey]]:
    """The first HS256 key of each issuer of a kind that has one, by issuer: what development tokens are signed with.

    Raises CredentialConfigError.
    """
    found = {}
    for entry_kind, field, entry in _entries(path):
        if entry_kind is kind and entry.keys is not None:
            found[entry.issuer] = (entry, next(iter(_secrets(path, field, entry.keys).values())))
    return found


def _entries(path: Path) -> list[tuple[IssuerKind, str, IssuerEntry]]:
    document = read_model(path, IdentityFile)
    groups = ((IssuerKind.SERVICE, document.services), (IssuerKind.PERSON, document.people))
    entries = [(kind, f"{kind.value}.{i}", entry) for kind, group in groups for i, entry in enumerate(group)]
    _check_no_shared_secret(path, entries)
    return entries


def _check_no_shared_secret(path: Path, entries: list[tuple[IssuerKind, str, IssuerEntry]]) -> None:
    owners: dict[bytes, str] = {}
    for _, field, entry in entries:
        for key in _secrets(path, field, entry.keys or ()).values():
            if owners.setdefault(key.fingerprint, entry.issuer) != entry.issuer:
                raise CredentialConfigError(f"{path}: {field}.keys: shares a secret with another issuer")


def _secrets(path: Path, field: str, keys: tuple[SecretEntry, ...]) -> KeyMap:
    secrets = {}
    for index, entry in enumerate(keys):
        where = f"{path}: {field}.keys.{index}.secretFile"
        secret = read_secret(path.parent / entry.secret_file, where)
        try:
            secrets[entry.kid] = secret_key(entry.kid, secret)
        except ValueError as error:
            raise CredentialConfigError(f"{where}: {error}") from None
    return secrets


def _key_set(path: Path, field: str, entry: IssuerEntry, clock: Clock) -> KeySet:
    if entry.keys is not None:
        return FixedKeySet(_secrets(path, field, entry.keys))
    if entry.jwks_file is not None:
        load = _file_loader(path, f"{field}.jwksFile", entry.jwks_file, entry.algorithms)
        return RefreshingKeySet(load, clock, name=entry.issuer, initial=load())
    url = entry.jwks_url or ""
    return RefreshingKeySet(lambda: parse_jwks(fetch_jwks(url, clock), entry.algorithms), clock, name=entry.issuer)


def _file_loader(path: Path, field: str, jwks_file: str, algorithms: tuple[str, ...]) -> Callable[[], KeyMap]:
    where = f"{path}: {field}"

    def load() -> KeyMap:
        try:
            return parse_jwks(read_file(path.parent / jwks_file, where), algorithms)
        except ValueError as error:
            raise CredentialConfigError(f"{where}: {error}") from None

    return load
