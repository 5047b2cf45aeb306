"""What a developer reads while something runs, and when it fails."""

import io
import threading

import pytest

from scripts.stack import cli, commands
from scripts.stack.progress import Progress, StackError


def _text(progress: Progress) -> str:
    assert isinstance(progress.out, io.StringIO)
    return progress.out.getvalue()


def test_step_tells_its_name_and_time_and_is_remembered(progress: Progress) -> None:
    with progress.step("build"):
        pass
    assert _text(progress).splitlines()[0] == "  build ..."
    assert "build: done in" in _text(progress)
    assert [name for name, _ in progress.timings] == ["build"]


def test_step_that_fails_says_so(progress: Progress) -> None:
    with pytest.raises(ValueError), progress.step("build"):
        raise ValueError
    assert "build: failed in" in _text(progress)


def test_long_step_gives_a_sign_of_life() -> None:
    alive = threading.Event()

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            if "still working" in text:
                alive.set()
            return super().write(text)

    with Progress(out=Out(), beat_seconds=0.01).step("build"):
        assert alive.wait(10)


def test_failure_names_the_command_that_mends_it() -> None:
    assert str(StackError("the stack does not run", "make up")) == "the stack does not run\n  to mend it: make up"
    assert str(StackError("bad proto")) == "bad proto"


def test_command_line_turns_a_failure_into_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_progress: Progress) -> int:
        raise StackError("no network", "plug it in")

    monkeypatch.setattr(commands, "status", fail)
    assert cli.main(["status"]) == 1
    assert capsys.readouterr().err == "\nstatus: no network\n  to mend it: plug it in\n"
