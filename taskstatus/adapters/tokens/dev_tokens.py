"""Development only: tokens signed with an HS256 issuer of the identity file, and a directory of fresh keys.

``python -m taskstatus.adapters.tokens.dev_tokens DIRECTORY`` makes what is missing of ``identity.json`` (with the two
development issuers), ``services.key``, ``people.key``, ``execution-keys.json``, ``realtime.pem`` and
``realtime.pub.pem``, all readable by their owner only, and prints the settings that point at them. A second run, or one
at the same time, keeps what is there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt

from taskstatus.adapters.clock import SystemRandomness
from taskstatus.adapters.tokens.claims import service_identity, user_identity
from taskstatus.adapters.tokens.dev_files import DevIdentity, write_dev_files
from taskstatus.adapters.tokens.errors import CredentialConfigError, RejectedTokenError
from taskstatus.adapters.tokens.identity_file import IssuerKind, load_signing_secrets
from taskstatus.application.identity import Role
from taskstatus.application.ports_clock import Clock, Randomness

DEV_TTL_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class DevService:
    """The service that a development token speaks for."""

    tenant_id: str
    authority_scope: str
    producer_id: str
    roles: frozenset[Role]


@dataclass(frozen=True, slots=True)
class DevPerson:
    """The person that a development token speaks for."""

    tenant_id: str
    user_id: str
    projects: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()


def mint_service_token(
    identity_file: Path, clock: Clock, service: DevService, *, ttl_seconds: int = DEV_TTL_SECONDS, issuer: str = ""
) -> str:
    """A service's JWT, signed with the named HS256 issuer of services or else the first one.

    Raises CredentialConfigError when there is no such issuer, ValueError for values that a verifier would refuse.
    """
    claims = {
        "sub": service.producer_id,
        "tenant_id": service.tenant_id,
        "authority_scope": service.authority_scope,
        "producer_id": service.producer_id,
        "roles": sorted(service.roles),
    }
    return _mint(identity_file, IssuerKind.SERVICE, clock, claims, ttl_seconds, issuer)


def mint_person_token(
    identity_file: Path, clock: Clock, person: DevPerson, *, ttl_seconds: int = DEV_TTL_SECONDS, issuer: str = ""
) -> str:
    """A person's JWT, signed with the named HS256 issuer of people or else the first one; errors as above."""
    claims = {
        "sub": person.user_id,
        "tenant_id": person.tenant_id,
        "projects": sorted(person.projects),
        "roles": sorted(person.roles),
    }
    return _mint(identity_file, IssuerKind.PERSON, clock, claims, ttl_seconds, issuer)


def write_dev_identity(directory: Path, randomness: Randomness | None = None) -> DevIdentity:
    """Make what is missing of a development identity; idempotent. Raises OSError or CredentialConfigError."""
    return write_dev_files(directory, randomness or SystemRandomness())


def _mint(
    identity_file: Path, kind: IssuerKind, clock: Clock, claims: dict[str, Any], ttl_seconds: int, issuer: str
) -> str:
    signers = load_signing_secrets(identity_file, kind)
    name = issuer or next(iter(signers), "")
    if name not in signers:
        raise CredentialConfigError(f"{identity_file}: {kind.value}: no HS256 issuer {name}".rstrip())
    entry, key = signers[name]
    now = int(clock.unix_seconds())
    claims = {"iss": name, "aud": entry.audience, "iat": now, "exp": now + ttl_seconds, **claims}
    _check(kind, claims)
    return jwt.encode(claims, key.jwk.key, algorithm=key.algorithm, headers={"kid": key.kid})


def _check(kind: IssuerKind, claims: dict[str, Any]) -> None:
    try:
        if kind is IssuerKind.SERVICE:
            service_identity(claims)
        else:
            user_identity(claims)
    except RejectedTokenError as error:
        raise ValueError(str(error)) from None


def main(arguments: Sequence[str]) -> int:
    """The module's command: 0 when done, 2 for a wrong call, 1 when the files cannot be made."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m taskstatus.adapters.tokens.dev_tokens DIRECTORY\n")
        return 2
    try:
        identity = write_dev_identity(Path(arguments[0]))
    except (OSError, CredentialConfigError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{name}={value}\n" for name, value in identity.settings().items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
