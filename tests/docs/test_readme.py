"""The README's snippets run: the SDK's against its fake service, the page's by the names that it uses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from taskstatus_pb.v1 import realtime_service_pb2

from gateway_rest.routes import Match, RouteTable, load_bindings, stub_files
from scripts.docs.one_event import Journey
from taskstatus.sdk import Coordinator, Reporter
from taskstatus.sdk.testing import FakeTaskStatus
from tests.docs.support import ROOT, fences

README = ROOT / "README.md"
LINES = 114


@dataclass
class Page:
    """A page of the document, which may be damaged."""

    damaged: bool = False
    parsed: list[bool] = field(default_factory=list)

    def parse(self) -> None:
        """Do the work."""
        if self.damaged:
            raise ValueError("damaged")
        self.parsed.append(True)


def snippets() -> dict[str, Any]:
    """The functions of the README's Python."""
    names: dict[str, Any] = {}
    for text in fences(README, "python"):
        exec(compile(text, str(README), "exec"), names)
    return names


async def play(fake: FakeTaskStatus, pages: list[Page]) -> None:
    """Coordinator and worker of the README against the fake service."""
    names = snippets()

    async def send(message: dict[str, Any]) -> None:
        await names["work"](fake.target, lambda: "parse-worker", message, pages)

    await names["start"](fake.target, lambda: "document-service", send)


def task_of(fake: FakeTaskStatus) -> str:
    """The one task that was created."""
    (call,) = fake.calls_of("ActivateStep")
    task_id: str = call.request.task_id  # type: ignore[attr-defined]
    return task_id


async def test_readme_worker_and_coordinator_finish_a_task() -> None:
    pages = [Page(), Page()]
    async with FakeTaskStatus() as fake:
        await play(fake, pages)
        assert fake.lifecycle(task_of(fake)) == "SUCCEEDED"
        assert fake.reported(task_of(fake)) == [
            "STEP_STARTED",
            "STEP_PROGRESS",
            "STEP_PROGRESS",
            "STEP_COMPLETED",
            "TASK_COMPLETED",
        ]
    assert all(page.parsed for page in pages)


async def test_readme_worker_reports_many_executions_on_one_stream() -> None:
    names = snippets()

    async def send(message: dict[str, Any]) -> None:
        await names["work_on_many"](fake.target, lambda: "parse-worker", [message], parse)

    async def parse(execution: Any) -> None:
        await execution.progress(1, 1, "page")

    async with FakeTaskStatus() as fake:
        await names["start"](fake.target, lambda: "document-service", send)
        assert fake.reported(task_of(fake)) == ["STEP_STARTED", "STEP_PROGRESS", "STEP_COMPLETED", "TASK_COMPLETED"]
        assert fake.streams.opened == 1


async def test_readme_worker_reports_an_exception_as_failure() -> None:
    async with FakeTaskStatus() as fake:
        with pytest.raises(ValueError, match="damaged"):
            await play(fake, [Page(damaged=True)])
        assert fake.reported(task_of(fake))[-1] == "STEP_FAILED"


def test_readme_names_methods_of_the_sdk_that_exist() -> None:
    text = README.read_text()
    ruled = set(re.findall(r"`coordinator\.(\w+)", text))
    told = set(re.findall(r"`execution\.(\w+)", text))
    assert {"retry", "request_cancel", "cancel_task", "rerun"} <= ruled
    assert ruled <= set(dir(Coordinator))
    assert {"cancel_requested", "cancelled"} <= told
    assert told <= set(dir(Reporter))


def test_readme_page_asks_for_routes_that_exist() -> None:
    table = RouteTable(load_bindings(stub_files()))
    (page,) = fences(README, "js")
    paths = re.findall(r'"(/api/[^"]+)"', page)
    assert paths
    assert all(isinstance(table.find("GET", path), Match) for path in paths)
    assert isinstance(table.find("POST", "/api/v1/realtime/subscription-token"), Match)


def test_readme_page_reads_fields_that_exist(journey: Journey) -> None:
    (page,) = fences(README, "js")
    session = {each.json_name for each in realtime_service_pb2.GetSessionResponse.DESCRIPTOR.fields}
    (summary,) = [orjson.loads(row.payload) for row in journey.outbox if row.payload]
    shown = re.search(r"show\(data\.task\); // (.*), …", page)
    assert shown
    assert set(re.findall(r"\bsession\.(\w+)", page)) <= session
    assert set(re.findall(r"\bdata\.(\w+)", page)) <= summary.keys()
    assert {*re.findall(r"\bknown\.(\w+)", page), *shown[1].split(", ")} <= summary["task"].keys()
    assert f'"{summary["kind"]}"' in page


def test_readme_stays_short() -> None:
    assert len(README.read_text().splitlines()) <= LINES
