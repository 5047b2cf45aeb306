"""The order in which a server is looked for, and what counts as found."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.stack import golang, provide
from scripts.stack.binaries import CENTRIFUGO, MARIADB, MYSQL
from scripts.stack.progress import Progress, StackError
from scripts.stack.provide import Provider

MakeProgram = Callable[[Path, str], Path]

MARIADB_ANSWER = "mysqld  Ver 10.11.19-MariaDB for debian-linux-gnu"
MYSQL_ANSWER = "mysqld  Ver 8.4.0 for Linux on x86_64"
CENTRIFUGO_ANSWER = "Centrifugo v6.9.1 (Go version: go1.26.8)"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing installed: one empty folder on PATH, no variable set."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setattr(provide, "SEARCH_ALSO", ())
    for server in (MYSQL, MARIADB, CENTRIFUGO):
        monkeypatch.delenv(server.binary_variable, raising=False)
    return folder


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, make_program: MakeProgram) -> list[Path]:
    """Replaces the build of Centrifugo by one that only writes the program; lists what was built."""
    folders: list[Path] = []

    def build(target: Path, _cache: Path, _progress: Progress, _private: bool) -> None:
        folders.append(target)
        make_program(target / "centrifugo", CENTRIFUGO_ANSWER)

    monkeypatch.setattr(golang, "build_centrifugo", build)
    return folders


@pytest.fixture
def provider(progress: Progress, tmp_path: Path) -> Provider:
    """A provider with an empty cache."""
    return Provider(progress, tmp_path / "cache")


def test_named_program_wins_over_one_on_the_machine(
    machine: Path, tmp_path: Path, provider: Provider, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(machine / "mysqld", MYSQL_ANSWER)
    named = make_program(tmp_path / "mine" / "mysqld", "mysqld  Ver 9.7.4 for Linux")
    monkeypatch.setenv("TASKSTATUS_MYSQLD", str(named))
    assert provider.binary(MYSQL).command == [str(named)]


def test_named_program_of_another_product_is_refused_with_what_it_answered(
    machine: Path, provider: Provider, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKSTATUS_MYSQLD", str(make_program(machine / "x", MARIADB_ANSWER)))
    with pytest.raises(StackError, match=r"answers that it is MariaDB 10\.11\.19; wanted is MySQL 8\.0 or newer"):
        provider.binary(MYSQL)


def test_mysqld_that_says_mariadb_is_mariadb(machine: Path, provider: Provider, make_program: MakeProgram) -> None:
    program = make_program(machine / "mysqld", MARIADB_ANSWER)
    assert provider.binary(MARIADB).command == [str(program)]


def test_centrifugo_is_installed_once_and_then_taken_from_the_cache(
    machine: Path, provider: Provider, built: list[Path]
) -> None:
    first, second = provider.binary(CENTRIFUGO), provider.binary(CENTRIFUGO)
    assert first == second
    assert len(built) == 1
    assert [path.name for path in (provider.cache / "servers").iterdir()] == ["centrifugo"]


def test_program_in_the_cache_that_does_not_answer_is_installed_again(
    machine: Path, provider: Provider, built: list[Path], make_program: MakeProgram
) -> None:
    make_program(provider.cache / "servers" / "centrifugo" / "centrifugo", "Segmentation fault")
    assert str(provider.binary(CENTRIFUGO).version) == "Centrifugo 6.9.1"
    assert len(built) == 1


def test_private_switch_leaves_the_machines_program_aside(
    machine: Path, progress: Progress, tmp_path: Path, built: list[Path], make_program: MakeProgram
) -> None:
    make_program(machine / "centrifugo", CENTRIFUGO_ANSWER)
    binary = Provider(progress, tmp_path / "cache", private=True).binary(CENTRIFUGO)
    assert binary.command == [str(tmp_path / "cache" / "servers" / "centrifugo" / "centrifugo")]


def test_failed_installation_leaves_nothing_that_looks_finished(
    machine: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(target: Path, _cache: Path, _progress: Progress, _private: bool) -> None:
        target.mkdir(parents=True)
        raise StackError("no network", "plug it in")

    monkeypatch.setattr(golang, "build_centrifugo", fail)
    with pytest.raises(StackError, match="plug it in"):
        provider.binary(CENTRIFUGO)
    assert list((provider.cache / "servers").iterdir()) == []


def test_go_named_by_the_environment_must_be_new_enough(
    machine: Path, progress: Progress, tmp_path: Path, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKSTATUS_GO", str(make_program(machine / "go", "go version go1.19.8 linux/amd64")))
    with pytest.raises(StackError, match=r"Go 1\.26"):
        golang.find_go(tmp_path, progress, private=False)


def test_go_of_the_machine_is_taken_when_new_enough(
    machine: Path, progress: Progress, tmp_path: Path, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TASKSTATUS_GO", raising=False)
    go = make_program(machine / "go", "go version go1.26.0 linux/amd64")
    assert golang.find_go(tmp_path, progress, private=False) == go
