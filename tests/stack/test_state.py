"""What is remembered between runs, and the keeper that acts on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.stack import processes
from scripts.stack.keeper import Keeper
from scripts.stack.programs import Program
from scripts.stack.progress import Progress
from scripts.stack.state import Entry, State

WAITS = [sys.executable, "-c", "import signal; signal.pause()"]


def test_state_comes_back_as_saved(tmp_path: Path) -> None:
    state = State(tmp_path / "stack.json", {"redis": Entry(1, "2", "url", "log")}, {"redis.port": 6379}, {"A": "b"})
    state.save()
    assert State.load(state.file) == state


@pytest.mark.parametrize("content", ["", "{", "[]", '{"processes": {"x": {}}, "ports": {}, "settings": {}}'])
def test_unreadable_state_is_an_empty_stack(tmp_path: Path, content: str) -> None:
    file = tmp_path / "stack.json"
    file.write_text(content)
    assert State.load(file) == State(file)


def test_env_file_can_be_sourced_whatever_a_value_holds(tmp_path: Path) -> None:
    value = "mysql://root:a'b $x`@127.0.0.1/t"
    State(tmp_path / "stack.json", settings={"TASKSTATUS_DATABASE_URL": value}).save()
    shown = subprocess.run(
        ["sh", "-c", f'. {tmp_path}/env; printf %s "$TASKSTATUS_DATABASE_URL"'],
        check=True,
        capture_output=True,
        text=True,
    )
    assert shown.stdout == value


def test_entry_of_a_reused_number_is_not_alive(tmp_path: Path) -> None:
    state = State(tmp_path / "stack.json", {"redis": Entry(os.getpid(), "0", "url", "log")})
    assert state.living("redis") is None


@pytest.fixture
def keeper(tmp_path: Path, progress: Progress) -> Keeper:
    """A keeper of an empty run folder."""
    return Keeper.of(tmp_path, progress)


def _program(keeper: Keeper, **env: str) -> Program:
    return Program("server", WAITS, keeper.log("server"), ready=lambda: True, env=env)


def test_ensure_leaves_a_running_process_alone_and_starts_a_dead_one(keeper: Keeper) -> None:
    keeper.ensure("server", _program(keeper), "here")
    first = keeper.state.processes["server"]
    keeper.ensure("server", _program(keeper), "here")
    assert keeper.state.processes["server"] == first
    processes.kill(first.identity)
    keeper.ensure("server", _program(keeper), "here")
    assert keeper.state.processes["server"].pid != first.pid
    keeper.stop("server")
    assert keeper.state.processes == {}


def test_ensure_starts_again_when_the_settings_changed(keeper: Keeper) -> None:
    keeper.ensure("server", _program(keeper, COLOUR="red"), "here")
    first = keeper.state.processes["server"]
    keeper.ensure("server", _program(keeper, COLOUR="blue"), "here")
    assert not first.alive()
    keeper.stop("server")


def test_running_processes_are_found_by_the_next_run(keeper: Keeper, progress: Progress) -> None:
    keeper.ensure("server", _program(keeper), "here")
    later = Keeper.of(keeper.folder, progress)
    assert later.state.living("server")
    later.stop("server")
    assert Keeper.of(keeper.folder, progress).state.living("server") is None


def test_port_is_remembered_and_not_given_twice(keeper: Keeper, progress: Progress) -> None:
    first, second = keeper.port("a", "port", 20000), keeper.port("b", "port", 20000)
    assert first != second
    keeper.state.save()
    assert Keeper.of(keeper.folder, progress).port("a", "port", 30000) == first
