"""Reading key and identity files: bounded, and with errors that name the file and the field, never a value."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from taskstatus.adapters.tokens.errors import CredentialConfigError

MAX_FILE_BYTES = 256 * 1024
MIN_SECRET_BYTES = 32
"""HS256 needs a key as long as its hash (RFC 7518, 3.2)."""


class FileModel(BaseModel):
    """A JSON document of ours: strict types, lowerCamelCase names, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


ModelT = TypeVar("ModelT", bound=FileModel)


def read_file(path: Path, field: str = "") -> bytes:
    """The content of a file. Raises CredentialConfigError when it is missing, unreadable or over the size limit."""
    where = f"{field}: {path}" if field else str(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CredentialConfigError(f"{where}: {error.strerror or 'cannot be read'}") from None
    if len(content) > MAX_FILE_BYTES:
        raise CredentialConfigError(f"{where}: is larger than {MAX_FILE_BYTES} bytes")
    return content


def read_model(path: Path, model: type[ModelT]) -> ModelT:
    """A JSON file as a typed model. Raises CredentialConfigError that lists every wrong field."""
    content = read_file(path)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        # The original error quotes the input, which may be a secret.
        raise CredentialConfigError(f"{path}: {_describe(error)}") from None


def read_secret(path: Path, field: str) -> bytes:
    """An HMAC secret: the file's bytes without one line break at the end. Raises CredentialConfigError."""
    secret = read_file(path, field)
    secret = secret.removesuffix(b"\n").removesuffix(b"\r")
    if len(secret) < MIN_SECRET_BYTES:
        raise CredentialConfigError(f"{field}: {path}: holds {len(secret)} bytes, needs at least {MIN_SECRET_BYTES}")
    return secret


def _describe(error: ValidationError) -> str:
    problems = []
    for detail in error.errors(include_input=False, include_url=False, include_context=False):
        field = ".".join(str(part) for part in detail["loc"]) or "document"
        problems.append(f"{field}: {detail['msg'].removeprefix('Value error, ')}")
    return "; ".join(problems)
