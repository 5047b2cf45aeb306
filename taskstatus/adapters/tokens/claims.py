"""Verified claims → identities: types, lengths, characters and times of each claim (ID-1, ID-4, names.md *Figures*).

Which characters an id may hold is ``taskstatus.domain.text``'s rule. Unknown service roles are passed over, so that an
issuer may introduce one before this service knows it; ``user`` is never a service's role. A person's projects and roles
are names for the ACL only; one that no ACL row could hold is passed over, since it can grant nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from taskstatus.adapters.tokens.errors import ExpiredTokenError, RejectedTokenError
from taskstatus.application.identity import Role, ServiceIdentity, UserIdentity
from taskstatus.domain.text import CODE_MAX, PRINCIPAL_MAX, SCOPE_MAX, TENANT_MAX, is_refused_id

SERVICE_CLAIMS: Final = ("exp", "iat", "iss", "aud", "sub", "tenant_id", "authority_scope", "producer_id", "roles")
"""Claims without which a service's token is refused."""

PERSON_CLAIMS: Final = ("exp", "iat", "iss", "aud", "sub", "tenant_id")
"""Claims without which a person's token is refused."""

SERVICE_ROLES: Final[Mapping[str, Role]] = {role.value: role for role in Role if role is not Role.USER}

CLOCK_SKEW_SECONDS = 30.0
"""How far an issuer's clock may run ahead in ``iat`` and ``nbf``; ``exp`` has no such grace."""

MAX_SUBJECT_CHARS = 255
"""OpenID Connect's own limit for ``sub``; a service's subject is kept for the audit only."""


def service_identity(claims: Mapping[str, Any]) -> ServiceIdentity:
    """The service that verified claims name. Raises RejectedTokenError."""
    named = _labels(claims, "roles")
    return ServiceIdentity(
        tenant_id=_text(claims, "tenant_id", TENANT_MAX),
        authority_scope=_text(claims, "authority_scope", SCOPE_MAX),
        producer_id=_text(claims, "producer_id", CODE_MAX),
        roles=frozenset(SERVICE_ROLES[name] for name in named if name in SERVICE_ROLES),
        subject=_text(claims, "sub", MAX_SUBJECT_CHARS),
        expires_at=_seconds(claims, "exp"),
    )


def user_identity(claims: Mapping[str, Any]) -> UserIdentity:
    """The person that verified claims name. Raises RejectedTokenError."""
    return UserIdentity(
        tenant_id=_text(claims, "tenant_id", TENANT_MAX),
        user_id=_text(claims, "sub", PRINCIPAL_MAX),
        projects=_labels(claims, "projects"),
        roles=_labels(claims, "roles"),
        expires_at=_seconds(claims, "exp"),
    )


def check_times(claims: Mapping[str, Any], now_unix_seconds: float) -> None:
    """Raises RejectedTokenError for a token from the future, ExpiredTokenError for one past its ``exp``."""
    latest = now_unix_seconds + CLOCK_SKEW_SECONDS
    if _seconds(claims, "iat") > latest or ("nbf" in claims and _seconds(claims, "nbf") > latest):
        raise RejectedTokenError("not valid yet")
    if _seconds(claims, "exp") <= now_unix_seconds:
        raise ExpiredTokenError


def _text(claims: Mapping[str, Any], name: str, limit: int) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or is_refused_id(value, limit):
        raise RejectedTokenError(f"claim {name} is not a valid id")
    return value


def _labels(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    values = claims.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise RejectedTokenError(f"claim {name} is not a list of texts")
    return frozenset(value for value in values if not is_refused_id(value, PRINCIPAL_MAX))


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RejectedTokenError(f"claim {name} is not a number")
    try:
        seconds = float(value)
    except OverflowError:
        raise RejectedTokenError(f"claim {name} is out of range") from None
    if not math.isfinite(seconds):
        raise RejectedTokenError(f"claim {name} is not finite")
    return seconds
