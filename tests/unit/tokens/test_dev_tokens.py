"""Development keys and tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskstatus.adapters.tokens import (
    CredentialConfigError,
    EcdsaRealtimeTokens,
    JwtExecutionCredentials,
    JwtIdentityVerifier,
)
from taskstatus.adapters.tokens.dev_tokens import (
    DevPerson,
    DevService,
    main,
    mint_person_token,
    mint_service_token,
    write_dev_identity,
)
from taskstatus.adapters.tokens.realtime_tokens import load_private_key, public_key_pem
from taskstatus.application.identity import Role, ServiceIdentity, UserIdentity
from taskstatus.domain.errors import RefusedError

from .support import BINDING, NOW, PEOPLE, SERVICES, FakeClock, secrets_issuer, write_identity

SERVICE = DevService("t-01", "documents", "parser", frozenset({Role.WORKER, Role.COORDINATOR}))
PERSON = DevPerson("t-01", "u-88", frozenset({"p-1"}), frozenset({"editor"}))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_every_file_is_made_for_its_owner_only(tmp_path: Path) -> None:
    write_dev_identity(tmp_path / "new" / "dev")
    files = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new" / "dev").iterdir()}
    names = "identity.json services.key people.key execution-keys.json realtime.pem realtime.pub.pem"
    assert files == dict.fromkeys(names.split(), 0o600)


def test_second_run_keeps_every_file_and_mends_its_mode(tmp_path: Path) -> None:
    identity = write_dev_identity(tmp_path)
    before = contents(tmp_path)
    identity.realtime_key_file.chmod(0o644)
    assert write_dev_identity(tmp_path) == identity
    assert contents(tmp_path) == before
    assert identity.realtime_key_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["identity.json", "services.key", "execution-keys.json", "realtime.pub.pem"])
def test_missing_file_is_made_again_and_the_others_are_kept(tmp_path: Path, name: str) -> None:
    write_dev_identity(tmp_path)
    before = contents(tmp_path)
    (tmp_path / name).unlink()
    write_dev_identity(tmp_path)
    after = contents(tmp_path)
    assert {key: value for key, value in after.items() if key != name} == {
        key: value for key, value in before.items() if key != name
    }
    assert name in after


def test_public_half_always_fits_the_private_key(tmp_path: Path) -> None:
    identity = write_dev_identity(tmp_path)
    identity.realtime_key_file.unlink()
    write_dev_identity(tmp_path)
    private_key = load_private_key(identity.realtime_key_file)
    assert identity.realtime_public_key_file.read_bytes() == public_key_pem(private_key)


def test_files_serve_every_adapter(tmp_path: Path, clock: FakeClock) -> None:
    identity = write_dev_identity(tmp_path)
    credentials = JwtExecutionCredentials.from_file(identity.execution_keys_file, clock)
    assert credentials.open_token(credentials.issue_token(BINDING, 0)[0]).binding == BINDING
    realtime = EcdsaRealtimeTokens.from_file(identity.realtime_key_file, identity.realtime_key_id, clock)
    assert realtime.connection_token("t/u", [])[1] == NOW + 300


@pytest.mark.asyncio
async def test_minted_tokens_are_verified(tmp_path: Path, clock: FakeClock) -> None:
    path = write_dev_identity(tmp_path).identity_file
    verifier = JwtIdentityVerifier.from_file(path, clock)
    service = await verifier.verify(mint_service_token(path, clock, SERVICE))
    assert service == ServiceIdentity("t-01", "documents", "parser", SERVICE.roles, "parser", NOW + 3600)
    person = await verifier.verify(mint_person_token(path, clock, PERSON, ttl_seconds=60))
    assert person == UserIdentity("t-01", "u-88", PERSON.projects, PERSON.roles, NOW + 60)


@pytest.mark.asyncio
async def test_two_directories_trust_nothing_of_each_other(tmp_path: Path, clock: FakeClock) -> None:
    ours, theirs = (write_dev_identity(tmp_path / name).identity_file for name in ("a", "b"))
    with pytest.raises(RefusedError):
        await JwtIdentityVerifier.from_file(ours, clock).verify(mint_service_token(theirs, clock, SERVICE))


@pytest.mark.asyncio
async def test_issuer_may_be_named(tmp_path: Path, clock: FakeClock) -> None:
    second = "https://second.example.test"
    (tmp_path / "second.key").write_bytes(b"2" * 32)
    services = [secrets_issuer(SERVICES, "services.key"), secrets_issuer(second, "second.key")]
    path = write_identity(tmp_path, services)
    token = mint_service_token(path, clock, SERVICE, issuer=second)
    assert await JwtIdentityVerifier.from_file(path, clock).verify(token)


def test_issuer_of_people_signs_for_no_service(tmp_path: Path, clock: FakeClock) -> None:
    path = write_identity(tmp_path)
    with pytest.raises(CredentialConfigError, match="services: no HS256 issuer"):
        mint_service_token(path, clock, SERVICE, issuer=PEOPLE)
    with pytest.raises(CredentialConfigError, match="people: no HS256 issuer"):
        mint_person_token(write_identity(tmp_path, people=[]), clock, PERSON)


def test_values_that_no_verifier_accepts_are_an_error(tmp_path: Path, clock: FakeClock) -> None:
    path = write_identity(tmp_path)
    with pytest.raises(ValueError, match="claim tenant_id"):
        mint_service_token(path, clock, DevService("t 01", "documents", "parser", frozenset()))
    with pytest.raises(ValueError, match="claim sub"):
        mint_person_token(path, clock, DevPerson("t-01", "u" * 65))


def test_command_prints_settings_and_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"TASKSTATUS_IDENTITY_FILE={tmp_path}/identity.json",
        f"TASKSTATUS_EXECUTION_KEYS_FILE={tmp_path}/execution-keys.json",
        f"TASKSTATUS_REALTIME_KEY_FILE={tmp_path}/realtime.pem",
        "TASKSTATUS_REALTIME_KEY_ID=dev",
    ]


def test_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
    (tmp_path / "realtime.pem").write_text("no key")
    assert main([str(tmp_path)]) == 1
    assert "realtime.pem: is not" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / "file")]) == 1
