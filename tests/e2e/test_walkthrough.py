"""``docs/walkthrough.md``: every command is copied from the page and run by bash against a gateway of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.stack import ports, programs, servers
from scripts.stack.devkeys import DevKeys
from scripts.stack.paths import ROOT, VENV
from scripts.stack.services import SERVICES, program
from tests.support.databases import create_schema, drop_schema, schema_url

PAGE = ROOT / "docs" / "walkthrough.md"
_PAIR = re.compile(r"^```bash\n(.*?)^```$(?:\n\n```(json|text)\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
ANYTHING = "…"
END = "--- end of a command of the page ---"
SECONDS = 120


@dataclass(frozen=True)
class Example:
    """One block of commands and what stands below it."""

    commands: str
    kind: str
    answer: str


def examples() -> list[Example]:
    """The page's blocks, in order."""
    return [Example(*found) for found in _PAIR.findall(PAGE.read_text())]


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def checkout(
    request: pytest.FixtureRequest, dev_keys: DevKeys, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder that looks like a checkout after ``make up``: the environment, and ``.run/env`` of a running gateway."""
    folder = tmp_path_factory.mktemp("walkthrough")
    url = schema_url(request.getfixturevalue(f"{request.param}_url"), "walkthrough")
    create_schema(url)
    settings = {
        "TASKSTATUS_DATABASE_URL": url,
        "TASKSTATUS_IDENTITY_FILE": str(dev_keys.identity_file),
        "TASKSTATUS_EXECUTION_KEYS_FILE": str(dev_keys.execution_keys_file),
        "TASKSTATUS_REALTIME_KEY_FILE": str(dev_keys.realtime_key_file),
    }
    gateway = start_gateway(folder, settings)
    (folder / ".venv").symlink_to(VENV)
    yield folder
    gateway.stop()
    drop_schema(url)


def start_gateway(folder: Path, settings: dict[str, str]) -> servers.RunningServer:
    """``python -m gateway_rest``, ready."""
    (service,) = [each for each in SERVICES if each.name == "gateway_rest"]
    addresses = {name: f"{ports.HOST}:{ports.any_free()}" for name in service.listens}
    (folder / ".run").mkdir()
    lines = [f"export {name}={value}\n" for name, value in {**settings, **addresses}.items()]
    (folder / ".run" / "env").write_text("".join(lines))
    started = program(service, settings, addresses, folder / "gateway.log")
    port = int(addresses["TASKSTATUS_REST_LISTEN"].rpartition(":")[2])
    return servers.RunningServer("", port, "", started, programs.start(started))


def test_walkthrough_commands_answer_what_the_page_says(checkout: Path) -> None:
    shown = examples()
    script = "".join(f"{example.commands}echo\necho '{END}'\n" for example in shown)
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=checkout,
        env={**environment, "no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split(END)[:-1]
    assert len(printed) == len(shown)
    for example, output in zip(shown, printed, strict=True):
        check(example, output.strip())


def check(example: Example, output: str) -> None:
    """Compare what was printed with what the page shows."""
    if example.kind == "json":
        assert difference(json.loads(example.answer), json.loads(output)) == [], example.commands
    else:
        assert output == example.answer.strip(), example.commands


def difference(shown: Any, given: Any, path: str = "$") -> list[str]:
    """Where the answer is not what the page shows; fields that it leaves out may be anything."""
    if shown == ANYTHING:
        return [] if given else [f"{path} is empty"]
    if isinstance(shown, dict) and isinstance(given, dict):
        missing = [f"{path}.{name} is missing" for name in shown if name not in given]
        known = [name for name in shown if name in given]
        return missing + [line for name in known for line in difference(shown[name], given[name], f"{path}.{name}")]
    if isinstance(shown, list) and isinstance(given, list) and len(shown) == len(given):
        pairs = enumerate(zip(shown, given, strict=True))
        return [line for index, pair in pairs for line in difference(*pair, f"{path}[{index}]")]
    return [] if shown == given else [f"{path} is {given!r}, not {shown!r}"]


def test_walkthrough_goes_through_every_stage_of_a_task() -> None:
    titles = re.findall(r"^## (.+)$", PAGE.read_text(), re.MULTILINE)
    assert titles == [
        *("Who speaks", "Create", "Activate", "Report", "Fail", "Retry", "Complete", "Read the story"),
        *("Define a type", "Create a mixed workflow", "Register children", "Fail and retry a child"),
        *("Cancel one task", "Rerun another", "Correct a third", "Read the whole story"),
    ]
    assert all(example.answer for example in examples()[1:])
