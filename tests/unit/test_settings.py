"""Settings: every variable that is off is named, secrets never show."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskstatus.settings import SettingsError, load_settings

URL = "mysql://app:hunter2@db:3306/taskstatus"


def test_settings_read_lists_and_numbers_from_the_environment_given() -> None:
    settings = load_settings(
        {
            "TASKSTATUS_DATABASE_URL": URL,
            "TASKSTATUS_CORS_ORIGINS": "http://a.test, http://b.test",
            "TASKSTATUS_LANES": "2",
        }
    )
    assert settings.cors_origins == ("http://a.test", "http://b.test")
    assert settings.lanes == 2


def test_settings_do_not_read_the_process_environment_behind_the_callers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKSTATUS_LANES", "7")
    monkeypatch.setenv("TASKSTATUS_CORS_ORIGINS", "http://a.test")
    assert load_settings({"TASKSTATUS_DATABASE_URL": URL}).lanes == 3
    monkeypatch.setenv("TASKSTATUS_DATABASE_URL", URL)
    assert load_settings().cors_origins == ("http://a.test",)


@pytest.mark.parametrize("value", ["localhost", "127.0.0.1:70000", "a b:1"])
def test_settings_name_the_variable_that_is_off(value: str) -> None:
    with pytest.raises(SettingsError, match="TASKSTATUS_GRPC_LISTEN"):
        load_settings({"TASKSTATUS_DATABASE_URL": URL, "TASKSTATUS_GRPC_LISTEN": value})


def test_settings_take_a_secret_from_a_file_and_never_print_it(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text(URL + "\n")
    settings = load_settings({"TASKSTATUS_DATABASE_URL_FILE": str(secret), "TASKSTATUS_CENTRIFUGO_API_KEY": "k3y"})
    assert settings.database_url.get_secret_value() == URL
    printed = "\n".join(f"{name}={value}" for name, value in settings.printable().items())
    assert "hunter2" not in printed + repr(settings)
    assert "k3y" not in printed + repr(settings)
    assert "mysql://app:***@db:3306/taskstatus" in printed


def test_settings_refuse_a_secret_given_twice(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text(URL)
    with pytest.raises(SettingsError, match="both set"):
        load_settings({"TASKSTATUS_DATABASE_URL": URL, "TASKSTATUS_DATABASE_URL_FILE": str(secret)})


def test_settings_without_a_database_say_so() -> None:
    with pytest.raises(SettingsError, match="TASKSTATUS_DATABASE_URL: Field required"):
        load_settings({})
