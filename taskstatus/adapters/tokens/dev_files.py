"""The files of a development identity: made once, each whole or not at all, and no secret is ever overwritten."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from taskstatus.adapters.tokens.realtime_tokens import load_private_key, public_key_pem
from taskstatus.application.ports_clock import Randomness

DEV_SERVICES_ISSUER = "https://services.dev.taskstatus.test"
DEV_PEOPLE_ISSUER = "https://people.dev.taskstatus.test"
DEV_AUDIENCE = "taskstatus"
DEV_KID = "dev"

_SERVICES_SECRET = "services.key"
_PEOPLE_SECRET = "people.key"
_SECRET_BITS = 256
_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700


@dataclass(frozen=True, slots=True)
class DevIdentity:
    """Where the files are."""

    identity_file: Path
    execution_keys_file: Path
    realtime_key_file: Path
    realtime_public_key_file: Path
    realtime_key_id: str = DEV_KID

    def settings(self) -> dict[str, str]:
        """The environment that points the service at them."""
        return {
            "TASKSTATUS_IDENTITY_FILE": str(self.identity_file),
            "TASKSTATUS_EXECUTION_KEYS_FILE": str(self.execution_keys_file),
            "TASKSTATUS_REALTIME_KEY_FILE": str(self.realtime_key_file),
            "TASKSTATUS_REALTIME_KEY_ID": self.realtime_key_id,
        }


def write_dev_files(directory: Path, randomness: Randomness) -> DevIdentity:
    """Make what is missing; the identity file comes last, so that it never names a secret that is not there."""
    directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    identity = DevIdentity(
        identity_file=directory / "identity.json",
        execution_keys_file=directory / "execution-keys.json",
        realtime_key_file=directory / "realtime.pem",
        realtime_public_key_file=directory / "realtime.pub.pem",
    )
    for name in (_SERVICES_SECRET, _PEOPLE_SECRET):
        _create(directory / name, _secret(randomness) + b"\n", randomness)
    execution_keys = {"active": DEV_KID, "keys": {DEV_KID: _secret(randomness).decode()}}
    _create(identity.execution_keys_file, _json(execution_keys), randomness)
    _create(identity.realtime_key_file, _private_key_pem(), randomness)
    _write_public_half(identity, randomness)
    _create(identity.identity_file, _json(_identity_document()), randomness)
    return identity


def _identity_document() -> dict[str, object]:
    return {
        "services": [_issuer(DEV_SERVICES_ISSUER, _SERVICES_SECRET)],
        "people": [_issuer(DEV_PEOPLE_ISSUER, _PEOPLE_SECRET)],
    }


def _issuer(name: str, secret_file: str) -> dict[str, object]:
    return {
        "issuer": name,
        "audience": DEV_AUDIENCE,
        "algorithms": ["HS256"],
        "keys": [{"kid": DEV_KID, "secretFile": secret_file}],
    }


def _create(path: Path, content: bytes, randomness: Randomness) -> None:
    """Write a new file; keep one that is there, but for its mode. A link is atomic and never replaces a file."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{randomness.bits(64):016x}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            _link_unless_there(draft, path)
        finally:
            draft.unlink()
    path.chmod(_FILE_MODE)


def _write_public_half(identity: DevIdentity, randomness: Randomness) -> None:
    """Derived from the private key that stands in its file, so that a public half of another key is replaced."""
    public_pem = public_key_pem(load_private_key(identity.realtime_key_file))
    path = identity.realtime_public_key_file
    if path.exists() and path.read_bytes() != public_pem:
        path.unlink()
    _create(path, public_pem, randomness)


def _link_unless_there(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return


def _secret(randomness: Randomness) -> bytes:
    raw = randomness.bits(_SECRET_BITS).to_bytes(_SECRET_BITS // 8, "big")
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _private_key_pem() -> bytes:
    return generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _json(document: object) -> bytes:
    return json.dumps(document, indent=2).encode() + b"\n"
