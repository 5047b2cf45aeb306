"""A test run leaves nothing running, however it ends."""

import sys
from pathlib import Path

import pytest

from scripts.stack import checks, cli, paths, processes, services, testing
from scripts.stack.processes import Identity
from scripts.stack.progress import Progress

WAITS = [sys.executable, "-c", "import signal; signal.pause()"]


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder of this test alone."""
    monkeypatch.setattr(paths, "RUN", tmp_path)
    return tmp_path


def test_processes_left_by_a_run_are_ended_and_named(run_folder: Path, progress: Progress) -> None:
    with testing.nothing_left(progress) as (env, leaked):
        identity = processes.spawn(WAITS, run_folder / "log", env)
    assert leaked == [identity]
    assert not processes.alive(identity)
    assert not Path(env[testing.WORKDIR_VARIABLE]).exists()
    assert list((run_folder / "tests").iterdir()) == []


def test_processes_are_ended_when_the_run_fails(run_folder: Path, progress: Progress) -> None:
    started: list[Identity] = []

    def failing_run() -> None:
        with testing.nothing_left(progress) as (env, _):
            started.append(processes.spawn(WAITS, run_folder / "log", env))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing_run()
    assert not processes.alive(started[0])


def test_processes_of_a_killed_run_are_ended_by_the_next(run_folder: Path, progress: Progress) -> None:
    registry = run_folder / "tests" / "1-never.processes"
    registry.parent.mkdir()
    identity = processes.spawn(WAITS, run_folder / "log")
    workdir = run_folder / "workdir"
    workdir.mkdir()
    registry.write_text(f"workdir {workdir}\n{identity.pid} {identity.started}\n")
    with testing.nothing_left(progress):
        assert not processes.alive(identity)
        assert not workdir.exists()
    assert not registry.exists()


def test_every_target_of_the_makefile_is_a_command() -> None:
    lines = (paths.ROOT / "Makefile").read_text().splitlines()
    called = {line.split()[1] for line in lines if line.startswith("\t$(STACK)")}
    assert called == set(cli.COMMANDS)


def test_checks_and_services_have_names_of_their_own() -> None:
    assert len({check.name for check in checks.CHECKS}) == len(checks.CHECKS)
    assert len({service.name for service in services.SERVICES}) == len(services.SERVICES)
    ports = [port for service in services.SERVICES for port in service.listens.values()]
    assert len(set(ports)) == len(ports)
