"""The demo on each database, undisturbed and with each part of the stack killed under it (issue 3: 7, *Done when*)."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from scripts.demo.__main__ import SAMPLE

from .showing import Showing, committed, showing
from .stack import Stack

GOLDEN_TRACE = [
    "TASK_CREATED",
    "STEP_STARTED",
    "STEP_COMPLETED",
    "STEP_STARTED",
    "STEP_PROGRESS",
    "STEP_FAILED",
    "STEP_ATTEMPT_ACTIVATED",
    "STEP_STARTED",
    "STEP_PROGRESS",
    "STEP_PROGRESS",
    "STEP_PROGRESS",
    "STEP_COMPLETED",
    "STEP_STARTED",
    "STEP_COMPLETED",
    "TASK_COMPLETED",
]
"""Design 3.4 with a failed first attempt: created = 1, STARTED = 2, COMPLETED = 3, the next step's STARTED = 4."""


@dataclass(frozen=True)
class Fault:
    """Kill ``part`` once the line ``at`` is printed, start it again once the demo has printed ``felt``."""

    part: str
    at: str
    felt: str


FAULTS = [
    Fault("serve", at="02_parse attempt 1 begins", felt="is sent again"),
    Fault("database", at="02_parse attempt 2 begins", felt="is sent again"),
    Fault("relay", at="02_parse attempt 1 begins", felt="02_parse attempt 2 begins"),
    Fault("centrifugo", at="02_parse attempt 1 begins", felt="02_parse attempt 2 begins"),
]


async def assert_ended_well(show: Showing, stack: Stack) -> None:
    """The demo's own verdict, and the database's: every fact once, in order, and every notification published."""
    assert await show.ends() == 0, show.text
    found = await committed(stack, show.task_id)
    assert (found.version, found.lifecycle) == (len(GOLDEN_TRACE), "SUCCEEDED")
    assert found.events == list(enumerate(GOLDEN_TRACE, start=1))


def stored_result(results: Path) -> dict[str, object]:
    """The result of the one run that kept its results there."""
    [file] = results.glob("*/result.json")
    value: dict[str, object] = json.loads(file.read_text())
    return value


@pytest.mark.parametrize("database", ["mysql", "mariadb"])
async def test_the_demo_ends_as_told(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    stack: Stack = request.getfixturevalue(f"{database}_stack")

    async with showing(stack, tmp_path, "--pace", "0") as show:
        await assert_ended_well(show, stack)

    assert "STALE_ATTEMPT: the version stays 7" in show.text
    assert "◂ summary       v15" in show.text
    assert "each as a summary" in show.text


async def test_a_changed_byte_changes_the_stored_result(whole_mysql_stack: Stack, tmp_path: Path) -> None:
    changed = tmp_path / "changed.txt"
    changed.write_bytes(SAMPLE.read_bytes().replace(b"A long document", b"B long document", 1))

    results = {}
    for name, file in {"sample": SAMPLE, "changed": changed}.items():
        async with showing(whole_mysql_stack, tmp_path / name, "--pace", "0", "--file", str(file)) as show:
            assert await show.ends() == 0, show.text
        results[name] = stored_result(tmp_path / name)

    assert results["sample"]["sourceSha256"] != results["changed"]["sourceSha256"]
    assert results["sample"]["words"] == results["changed"]["words"]
    assert results["sample"] != results["changed"]


async def test_a_file_that_is_no_text_fails_the_task(whole_mysql_stack: Stack, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00 no text")

    async with showing(whole_mysql_stack, tmp_path / "results", "--pace", "0", "--file", str(binary)) as show:
        assert await show.ends() == 1

    assert "the task has failed at 01_prepare, NOT_TEXT" in show.text
    found = await committed(whole_mysql_stack, show.task_id)
    assert (found.lifecycle, found.events[-1]) == ("FAILED", (4, "TASK_FAILED"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.part)
async def test_n2_a_killed_part_loses_nothing(whole_mysql_stack: Stack, tmp_path: Path, fault: Fault) -> None:
    stack = whole_mysql_stack
    part = stack.parts[fault.part]

    async with showing(stack, tmp_path, "--pace", "0.3") as show:
        await show.until(fault.at)
        await asyncio.to_thread(part.kill9)
        await show.until(fault.felt)
        await asyncio.to_thread(part.restart)
        await assert_ended_well(show, stack)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_demo_leaves_no_process(
    whole_mysql_stack: Stack, tmp_path: Path, number: signal.Signals
) -> None:
    async with showing(whole_mysql_stack, tmp_path, "--pace", "0.3") as show:
        await show.until("02_parse attempt 1 begins")
        players = psutil.Process(show.process.pid).children(recursive=True)
        show.process.send_signal(number)
        code = await show.ends()

    assert (len(players), code) == (4, 130)
    assert not [player for player in players if player.is_running()], show.text
    assert "Traceback" not in show.text
