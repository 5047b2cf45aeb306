"""The page on streams: its Python adopts the stream in ten lines and finishes real work against the fake service."""

from __future__ import annotations

import asyncio
from typing import Any

from taskstatus.sdk import Coordinator, StepSpec, TaskSpec, connect
from taskstatus.sdk.testing import FakeTaskStatus
from tests.docs.support import DOCS, fences

PAGE = DOCS / "streams.md"
STEP = "01_parse"


def names_of_the_page() -> dict[str, Any]:
    """The functions of its Python."""
    (text,) = fences(PAGE, "python")
    names: dict[str, Any] = {}
    exec(compile(text, str(PAGE), "exec"), names)
    return names


async def messages_of(fake: FakeTaskStatus, count: int) -> list[dict[str, Any]]:
    """Contexts of new executions, as a coordinator hands them over."""
    step = StepSpec(step_id=STEP, operation_code="DOCUMENT.PARSE", expected_producer="parse-worker")
    tasks = [TaskSpec(client_task_key=f"task-{number}", title="Report.pdf", steps=[step]) for number in range(count)]
    async with connect(fake.target, lambda: "document-service") as connection:
        coordinator = Coordinator(connection, "document-service")
        workflow = await coordinator.create_workflow("upload", owner_id="ada", title="Reports", tasks=tasks)
        return [(await coordinator.activate(task.task_id, STEP)).to_dict() for task in workflow.tasks]


async def test_w4_the_page_serves_a_queue_on_one_stream() -> None:
    names = names_of_the_page()
    parsed: list[int] = []

    async def parse(page: int) -> None:
        parsed.append(page)
        await asyncio.sleep(0)

    async with FakeTaskStatus() as fake:
        messages = await messages_of(fake, 5)
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        for message in (*messages, None):
            queue.put_nowait(message)
        await names["serve"](fake.target, lambda: "parse-worker", queue.get, parse)
        assert fake.streams.opened == 1
        for message in messages:
            assert fake.lifecycle(message["taskId"], STEP) == "SUCCEEDED"
    assert sorted(parsed) == sorted([1, 2, 3] * 5)


async def test_l1_the_page_stops_as_asked_and_says_so() -> None:
    names = names_of_the_page()

    async with FakeTaskStatus() as fake:
        (message,) = await messages_of(fake, 1)
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        for entry in (message, None):
            queue.put_nowait(entry)

        async def parse(page: int) -> None:
            async with connect(fake.target, lambda: "document-service") as connection:
                await Coordinator(connection, "document-service").request_cancel(message["taskId"])

        await names["serve"](fake.target, lambda: "parse-worker", queue.get, parse)

        assert fake.lifecycle(message["taskId"], STEP) == "CANCELLED"
        assert fake.reported(message["taskId"])[-1] == "STEP_CANCELLED"


def test_w4_adoption_takes_ten_lines() -> None:
    (text,) = fences(PAGE, "python")
    code = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("import", "from", "#"))
    ]
    assert len([line for line in code if "async def" not in line]) <= 11
