"""``python -m scripts.demo.worker OPERATION``: one worker, which does its part and reports it through the SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.demo import document
from scripts.demo.cast import PARSE, PERSIST, PREPARE, Part
from scripts.demo.handover import Message, serve_work
from scripts.demo.narration import say, say_what_the_sdk_logs
from taskstatus.sdk import EventData, ExecutionContext, ReportAnswer, Reporter, StepError, Worker

STALLED = StepError("PARSE_STALLED", "The parser stalled after the first page.", category="SYSTEM", retryable=True)

Perform = Callable[[Reporter, Message], Awaitable[Path]]
"""Does a step's work and returns the file that holds its result."""


class StepWorker:
    """Answers the coordinator's questions: ``run`` a step, or ``finish_late`` what was given up."""

    def __init__(self, worker: Worker, part: Part) -> None:
        self._worker = worker
        self._part = part
        self._abandoned: Reporter | None = None
        self._performances: dict[str, Perform] = {PREPARE: self._prepare, PARSE: self._parse, PERSIST: self._persist}

    async def answer(self, question: Message) -> Message:
        """See the class."""
        if question["ask"] == "finish_late":
            return await self._finish_late()
        return await self._run(ExecutionContext.from_dict(question["context"]), question)

    async def _run(self, context: ExecutionContext, question: Message) -> Message:
        try:
            async with self._worker.execution(context) as execution:
                _narrate(execution, "begins", execution.last_answer)
                result = await self._performances[context.operation_code](execution, question)
                answer = await execution.completed()
                _narrate(execution, "is done", answer)
                # The result itself never travels in an event; the coordinator gets the way to it (E-13, W-5).
                return {"outcome": "completed", "resultRef": str(result), "taskVersion": answer.task_version}
        except StepError as error:
            _narrate(execution, f"fails: {error.code}", execution.last_answer)
            return {"outcome": "failed", "code": error.code, "message": error.message, "retryable": error.retryable}

    async def _finish_late(self) -> Message:
        """The attempt that was given up completes after all: a fact that comes too late (E-4)."""
        assert self._abandoned is not None
        answer = await self._abandoned.completed()
        _narrate(self._abandoned, "is done, too late", answer)
        return {"accepted": answer.accepted, "reason": answer.reason, "taskVersion": answer.task_version}

    async def _prepare(self, execution: Reporter, question: Message) -> Path:
        prepared = document.prepare(Path(question["inputRef"]).read_bytes())
        await self._pause()
        return self._keep("prepared.json", asdict(prepared))

    async def _parse(self, execution: Reporter, question: Message) -> Path:
        prepared = document.Prepared(**_read(question["inputRef"]))
        texts, pages = document.pages_of(prepared.text), []
        for number, text in enumerate(texts, start=1):
            pages.append(document.parse_page(text))
            counted = {"message": f"page {number} of {len(texts)}", "items": pages[-1].words.total()}
            data = EventData("generic.progress.v1", counted)
            answer = await execution.progress(number, len(texts), "page", phase="PARSING", data=data)
            _narrate(execution, f"has read page {number} of {len(texts)}", answer)
            await self._pause()
            if question.get("abandon"):
                self._abandoned = execution
                raise STALLED
        return self._keep("parsed.json", document.statistics(prepared, pages))

    async def _persist(self, execution: Reporter, question: Message) -> Path:
        await self._pause()
        return self._keep("result.json", _read(question["inputRef"]))

    def _keep(self, name: str, value: dict[str, Any]) -> Path:
        """Store whole or not at all: a worker may be ended at any moment."""
        file = self._part.workdir / name
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        return partial.replace(file)

    async def _pause(self) -> None:
        await asyncio.sleep(self._part.pace_seconds)


def _narrate(execution: Reporter, what: str, answer: ReportAnswer | None) -> None:
    context = execution.context
    say(f"{context.step_id} attempt {context.step_attempt} {what:<24} {_told(answer)}")


def _told(answer: ReportAnswer | None) -> str:
    """What the service answered."""
    if answer is None:
        return "→ not delivered"
    if not answer.accepted:
        return f"→ {answer.reason}: the version stays {answer.task_version}"
    return f"→ version {answer.task_version}" + (" (taken before)" if answer.duplicate else "")


def _read(reference: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(Path(reference).read_text())
    return value


async def main(operation: str) -> None:
    """Work until the coordinator goes away."""
    say_what_the_sdk_logs()
    part = Part.from_environment()
    async with part.connect() as connection:
        await serve_work(part.socket, operation, StepWorker(Worker(connection), part).answer)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
