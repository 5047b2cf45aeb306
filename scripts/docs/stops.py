"""Where the event of ``docs/one-event.md`` could have stopped: each row is one change, and the answer that it met."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from taskstatus_pb.v1 import common_pb2, report_service_pb2

from scripts.docs.ports import START
from scripts.docs.tracing import answering_guards
from scripts.docs.world import STEP, WORKER, CallRefusedError, Story, a_story
from taskstatus.application.identity import Role
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.state import StepState
from taskstatus.runtime.lanes import LaneConfig

Change = Callable[[Story], Awaitable[report_service_pb2.ReportEventResponse]]
DOMAIN = "taskstatus/domain/guards.py"


@dataclass(frozen=True)
class Stop:
    """One change to the story, with the module that answers it."""

    path: str
    change: str
    send: Change
    lanes: LaneConfig | None = None

    @property
    def module(self) -> str:
        """The file's name."""
        return self.path.rpartition("/")[2]


async def outcome(stop: Stop) -> tuple[str, str]:
    """The guard that answered (empty when none did), and what the caller gets, in Markdown."""
    with a_story(stop.lanes) as story, _no_logs():
        await story.begin()
        with answering_guards() as guards:
            text = await _told(stop.send(story))
    return (guards[-1] if guards else "", text)


async def _told(call: Awaitable[report_service_pb2.ReportEventResponse]) -> str:
    try:
        answer = await call
    except CallRefusedError as refusal:
        return f"`{refusal.reason}`"
    if answer.reason:
        stale = ", `stale=true`" if answer.stale else ""
        return f"`accepted=false`{stale}, `{common_pb2.Reason.Name(answer.reason)}`"
    flags = [name for name in ("duplicate", "coalesced") if getattr(answer, name)]
    return ", ".join(f"`{flag}=true`" for flag in flags) or f"`accepted=true`, `changed={str(answer.changed).lower()}`"


@contextmanager
def _no_logs() -> Iterator[None]:
    """Faults that are meant to happen need not be logged."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _with(**fields: Any) -> Change:
    """The event with some fields of its own."""

    async def send(story: Story) -> report_service_pb2.ReportEventResponse:
        request = story.completed()
        for name, value in fields.items():
            setattr(request, name, value)
        return await story.report(request)

    return send


def _as(producer: str, *roles: Role, tenant: str = "t-01") -> Change:
    async def send(story: Story) -> report_service_pb2.ReportEventResponse:
        return await story.report(story.completed(), story.world.token(producer, *roles, tenant=tenant))

    return send


def _with_step(change: Callable[[StepState], StepState]) -> Change:
    """The event against another state of its step."""

    async def send(story: Story) -> report_service_pb2.ReportEventResponse:
        steps = story.world.store.tables.steps
        (key,) = (key for key in steps if key[2] == STEP)
        steps[key] = change(steps[key])
        _raise_revision(story)
        return await story.report(story.completed())

    return send


def _raise_revision(story: Story) -> None:
    """As every write to a task, its steps or executions does, so that no lane goes by what it remembers."""
    tasks = story.world.store.tables.tasks
    for task_id, task in tasks.items():
        tasks[task_id] = replace(task, row_revision=task.row_revision + 1)


async def _malformed(story: Story) -> report_service_pb2.ReportEventResponse:
    return await story.report(b"\xff\xff")


async def _anonymous(story: Story) -> report_service_pb2.ReportEventResponse:
    return await story.report(story.completed(), "")


async def _expired_caller(story: Story) -> report_service_pb2.ReportEventResponse:
    token = story.world.token(WORKER, Role.WORKER, lifetime_seconds=1)
    story.world.pass_time(5)
    return await story.report(story.completed(), token)


async def _forged_handle(story: Story) -> report_service_pb2.ReportEventResponse:
    request = story.completed()
    request.execution_handle = request.execution_handle[:-1] + ("A" if request.execution_handle[-1] != "A" else "B")
    return await story.report(request)


async def _vanished_task(story: Story) -> report_service_pb2.ReportEventResponse:
    story.world.store.tables.tasks.clear()
    return await story.report(story.completed())


async def _vanished_step(story: Story) -> report_service_pb2.ReportEventResponse:
    story.world.store.tables.execution_keys.clear()
    _raise_revision(story)
    return await story.report(story.completed())


async def _again(story: Story) -> report_service_pb2.ReportEventResponse:
    await story.report(story.completed())
    return await story.report(story.completed())


async def _again_otherwise(story: Story) -> report_service_pb2.ReportEventResponse:
    await story.report(story.completed())
    return await _with(duration_ms=1850)(story)


async def _expired_token(story: Story) -> report_service_pb2.ReportEventResponse:
    request = story.completed()
    request.ClearField("execution_handle")
    request.execution_token = story.context.execution_token
    story.world.pass_time(901)
    return await story.report(request)


async def _superseded(story: Story) -> report_service_pb2.ReportEventResponse:
    await story.activate(story.context.task_id, 2)
    return await story.report(story.completed())


async def _large_data(story: Story) -> report_service_pb2.ReportEventResponse:
    request = story.completed()
    request.data.value.update({"text": "x" * 17_000})
    return await story.report(request)


async def _foreign_schema(story: Story) -> report_service_pb2.ReportEventResponse:
    request = story.completed()
    request.data.schema = "file.prepare.completed.v9"
    return await story.report(request)


async def _misfit(story: Story) -> report_service_pb2.ReportEventResponse:
    request = story.completed()
    request.data.value.update({"pages": "twelve"})
    return await story.report(request)


async def _unsafe_integer(story: Story) -> report_service_pb2.ReportEventResponse:
    request = story.completed()
    request.data.value.update({"pages": 2.0**54})
    return await story.report(request)


async def _old(story: Story) -> report_service_pb2.ReportEventResponse:
    request = story.completed()
    request.occurred_at.FromDatetime(START - timedelta(days=8))
    return await story.report(request)


async def _cancelled_by_coordinator(story: Story) -> report_service_pb2.ReportEventResponse:
    cancel = report_service_pb2.ReportEventRequest(
        event_id="evt-cancel", event_type=common_pb2.STEP_CANCELLED, source_seq=1, reason="the user asked"
    )
    cancel.task_id, cancel.step_id = story.context.task_id, STEP
    await story.report(cancel, story.coordinator)
    return await story.report(story.completed())


async def _told_twice(story: Story) -> report_service_pb2.ReportEventResponse:
    await story.report(story.completed())
    return await _with(event_id="evt-prepared-2", source_seq=3)(story)


async def _full_queue(story: Story) -> report_service_pb2.ReportEventResponse:
    progress = story.event("evt-progress", common_pb2.STEP_PROGRESS, 2)
    progress.phase_code = "UPLOAD"
    completed = story.completed()
    completed.source_seq = 3
    first = asyncio.create_task(story.report(progress))
    second = asyncio.create_task(story.report(completed))
    await first
    return await second


async def _draining(story: Story) -> report_service_pb2.ReportEventResponse:
    await story.world.lanes.stop()
    return await story.report(story.completed())


async def _no_database(story: Story) -> report_service_pb2.ReportEventResponse:
    story.world.store.unavailable = True
    return await story.report(story.completed())


async def _refused_rows(story: Story) -> report_service_pb2.ReportEventResponse:
    story.world.store.refuse = bool
    return await story.report(story.completed())


async def _lost_reply(story: Story) -> report_service_pb2.ReportEventResponse:
    story.world.store.lose_next_commit_reply(committed=True)
    return await story.report(story.completed())


WIRE = "taskstatus/entrypoints/wire"
STOPS = (
    Stop("taskstatus/entrypoints/grpc/unary.py", "the bytes are not a `ReportEventRequest`", _malformed),
    Stop(f"{WIRE}/dispatch.py", "there is no `authorization`", _anonymous),
    Stop("taskstatus/adapters/tokens/identity_verifier.py", "the service's JWT has expired", _expired_caller),
    Stop("taskstatus/application/access.py", "its role is `business`", _as(WORKER, Role.BUSINESS)),
    Stop(f"{WIRE}/decode_event.py", "the event id holds a space", _with(event_id="evt prepared")),
    Stop("taskstatus/adapters/tokens/execution_credentials.py", "the handle's last character differs", _forged_handle),
    Stop(DOMAIN, "another tenant sends it", _as(WORKER, Role.WORKER, tenant="t-02")),
    Stop(DOMAIN, "another worker sends it", _as("parse-worker", Role.WORKER)),
    Stop(DOMAIN, "it states another task", _with(task_id="task_01a22baeb6807d07800000000000ffff")),
    Stop(DOMAIN, "the task is gone", _vanished_task),
    Stop(DOMAIN, "the step is gone", _vanished_step),
    Stop(DOMAIN, "it was committed before", _again),
    Stop(DOMAIN, "its id was committed with another duration", _again_otherwise),
    Stop(DOMAIN, "it carries the token instead, 901 s after issue", _expired_token),
    Stop(DOMAIN, "the execution's credentials were revoked", _with_step(lambda step: replace(step, generation=2))),
    Stop(DOMAIN, "it states another operation", _with(operation_code="FILE.DELETE")),
    Stop(DOMAIN, "attempt 2 was activated meanwhile", _superseded),
    Stop(DOMAIN, "it is a TASK_COMPLETED", _with(event_type=common_pb2.TASK_COMPLETED)),
    Stop(DOMAIN, "`data` has more than 16 KiB", _large_data),
    Stop(DOMAIN, "`data` holds the integer 2⁵⁴", _unsafe_integer),
    Stop(DOMAIN, "`data.schema` is not registered for the operation", _foreign_schema),
    Stop(DOMAIN, "`data.value` does not fit its schema", _misfit),
    Stop(DOMAIN, "it happened 8 days ago", _old),
    Stop(DOMAIN, "its `sourceSeq` is 1, as the STEP_STARTED's", _with(source_seq=1)),
    Stop(DOMAIN, "the coordinator had cancelled the step", _cancelled_by_coordinator),
    Stop(DOMAIN, "the step is SUCCEEDED already, by another event", _told_twice),
    Stop(
        DOMAIN,
        "the step is being cancelled",
        _with_step(lambda step: replace(step, lifecycle=Lifecycle.CANCELLING)),
    ),
    Stop(DOMAIN, "it says `businessStatus` SUCCEEDED, the task still runs", _with(business_status="SUCCEEDED")),
    Stop("taskstatus/runtime/lanes.py", "the lane's queue is full", _full_queue, LaneConfig(max_queued_commands=1)),
    Stop("taskstatus/runtime/lanes.py", "the process is draining", _draining),
    Stop("taskstatus/runtime/lanes.py", "the database cannot be reached", _no_database),
    Stop("taskstatus/runtime/lanes.py", "the database refuses its rows", _refused_rows),
    Stop("taskstatus/runtime/batch_commit.py", "COMMIT went through, but its reply was lost", _lost_reply),
)
"""In the order in which the event would meet them."""
