"""Keys of a development stack, made once: ``python -m scripts.stack.devkeys FOLDER``.

Runs in the project's environment, because it needs ``cryptography``. A file of a secret holds its text, one line;
the secret is that text without the line's end.
"""

import base64
import json
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

KEY_ID = "dev"
SERVICE_ISSUER = "https://services.dev.taskstatus.test"
PEOPLE_ISSUER = "https://people.dev.taskstatus.test"
AUDIENCE = "taskstatus"


@dataclass(frozen=True)
class DevKeys:
    """Where each key lies below ``folder``."""

    folder: Path

    @property
    def identity_file(self) -> Path:
        """``TASKSTATUS_IDENTITY_FILE``: the issuers of services and of people."""
        return self.folder / "identity.json"

    @property
    def execution_keys_file(self) -> Path:
        """``TASKSTATUS_EXECUTION_KEYS_FILE``."""
        return self.folder / "execution-keys.json"

    @property
    def realtime_key_file(self) -> Path:
        """``TASKSTATUS_REALTIME_KEY_FILE``: the private key of connection and subscription tokens (PEM, P-256)."""
        return self.folder / "realtime.pem"

    @property
    def realtime_public_key_file(self) -> Path:
        """The public part, given to Centrifugo."""
        return self.folder / "realtime.pub.pem"

    @property
    def centrifugo_api_key_file(self) -> Path:
        """``TASKSTATUS_CENTRIFUGO_API_KEY_FILE``."""
        return self.folder / "centrifugo-api.key"


def ensure(folder: Path) -> DevKeys:
    """Make what is missing; a key that exists is kept, so that tokens given out stay valid."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = DevKeys(folder)
    for name in ("services.key", "people.key"):
        _write_once(folder / name, _secret() + "\n")
    _write_once(keys.centrifugo_api_key_file, _secret() + "\n")
    _write_once(keys.execution_keys_file, _json({"active": KEY_ID, "keys": {KEY_ID: _secret()}}))
    _write_once(keys.identity_file, _json(_identity()))
    if not (keys.realtime_key_file.exists() and keys.realtime_public_key_file.exists()):
        _realtime_pair(keys)
    return keys


def _identity() -> dict[str, object]:
    def issuer(name: str, file: str) -> dict[str, object]:
        key = {"kid": KEY_ID, "secretFile": file}
        return {"issuer": name, "audience": AUDIENCE, "algorithms": ["HS256"], "keys": [key]}

    return {"services": [issuer(SERVICE_ISSUER, "services.key")], "people": [issuer(PEOPLE_ISSUER, "people.key")]}


def _realtime_pair(keys: DevKeys) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    private_pem = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public_pem = private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    keys.realtime_key_file.unlink(missing_ok=True)
    _write_once(keys.realtime_key_file, private_pem.decode())
    keys.realtime_public_key_file.write_bytes(public_pem)


def _secret() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def _write_once(file: Path, text: str) -> None:
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(text)


if __name__ == "__main__":
    ensure(Path(sys.argv[1]))
