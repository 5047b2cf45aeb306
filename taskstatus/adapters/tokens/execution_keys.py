"""The execution keys file: ``{"active": KID, "keys": {KID: base64url of 32 or more bytes}}``.

The active secret signs; every other one is retired and only verifies, for as long as it stands in the file (as long as
an execution may live). A new secret is first added as a retired one on every replica and made active afterwards, so
that no replica meets a credential that it cannot check.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import Field, field_validator, model_validator

from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.adapters.tokens.files import MIN_SECRET_BYTES, FileModel, read_model
from taskstatus.adapters.tokens.keys import VerificationKey, secret_key

KEY_TAG_BYTES = 3

_TOKEN_INFO = b"taskstatus/execution-token/v1"
_HANDLE_INFO = b"taskstatus/execution-handle/v1"
_TAG_INFO = b"taskstatus/execution-key-tag/v1:"
_KEY_BYTES = 32

Kid = Annotated[str, Field(pattern=r"\A[A-Za-z0-9._-]{1,64}\z")]


@dataclass(frozen=True, slots=True)
class ExecutionKey:
    """One secret's two keys, derived by HKDF-SHA256 under different labels, so that neither does the other's work."""

    kid: str
    tag: bytes
    """Names the key inside a handle: the first bytes of a hash of the kid."""
    token_key: VerificationKey = field(repr=False)
    handle_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ExecutionKeyRing:
    """The active key and all keys, by kid (tokens) and by tag (handles)."""

    active: ExecutionKey
    by_kid: dict[str, ExecutionKey]
    by_tag: dict[bytes, ExecutionKey]


class ExecutionKeysFile(FileModel):
    """The whole document."""

    active: Kid
    keys: dict[Kid, str]

    @field_validator("keys")
    @classmethod
    def _secrets_are_long(cls, keys: dict[str, str]) -> dict[str, str]:
        for kid, text in keys.items():
            secret = _decode(text)
            if secret is None or len(secret) < MIN_SECRET_BYTES:
                raise ValueError(f"{kid} must be base64url of at least {MIN_SECRET_BYTES} bytes")
        return keys

    @model_validator(mode="after")
    def _active_is_known(self) -> ExecutionKeysFile:
        if self.active not in self.keys:
            raise ValueError("active names no key of keys")
        return self


def load_execution_keys(path: Path) -> ExecutionKeyRing:
    """The key ring of a file. Raises CredentialConfigError that names the file and the field."""
    document = read_model(path, ExecutionKeysFile)
    try:
        return make_key_ring(document.active, {kid: _decode(text) or b"" for kid, text in document.keys.items()})
    except ValueError as error:
        raise CredentialConfigError(f"{path}: keys: {error}") from None


def make_key_ring(active: str, secrets: dict[str, bytes]) -> ExecutionKeyRing:
    """A key ring of secrets by kid. Raises ValueError when two kids have the same tag (rename one)."""
    by_kid = {kid: _derive(kid, secret) for kid, secret in secrets.items()}
    by_tag = {key.tag: key for key in by_kid.values()}
    if len(by_tag) != len(by_kid):
        raise ValueError("two kids have the same tag; rename one")
    return ExecutionKeyRing(by_kid[active], by_kid, by_tag)


def _derive(kid: str, secret: bytes) -> ExecutionKey:
    return ExecutionKey(
        kid=kid,
        tag=hashlib.sha256(_TAG_INFO + kid.encode()).digest()[:KEY_TAG_BYTES],
        token_key=secret_key(kid, _expand(secret, _TOKEN_INFO)),
        handle_key=_expand(secret, _HANDLE_INFO),
    )


def _expand(secret: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=info).derive(secret)


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
