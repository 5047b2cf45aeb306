"""The blocks of ``docs/one-event.md``: one STEP_COMPLETED, run through the real modules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from opentelemetry.trace import NoOpTracer
from prometheus_client import CollectorRegistry
from taskstatus_pb.v1 import report_service_pb2

from gateway_rest.json_output import encode_message
from relay.claims import CLAIM_SELECT, CLAIM_UPDATE, MARK_PUBLISHED
from relay.config import RelayConfig
from relay.loop import RelayLoop
from relay.metrics import RelayMetrics
from relay.publisher import Publication
from relay.rendering import BatchRenderer
from relay.wakeup import PollOnly
from scripts.docs import stops
from scripts.docs.markdown import code, fence, hex_text, json_text, sql_text, table
from scripts.docs.ports import KeepingPublisher, MemoryOutbox
from scripts.docs.tracing import modules_entered
from scripts.docs.world import STEP, WORKER, Story, a_story
from taskstatus.adapters.mysql import rows_event
from taskstatus.adapters.mysql.statements import marks
from taskstatus.domain.projections import render_detail, step_percent, task_percent
from taskstatus.domain.records import DedupRecord, EventRecord, OutboxRecord
from taskstatus.domain.state import StepState, TaskState

VERSION_EPOCH = "1"


@dataclass(frozen=True)
class Journey:
    """What the event leaves behind on its way."""

    request: dict[str, Any]
    answer: report_service_pb2.ReportEventResponse
    before: tuple[TaskState, StepState]
    after: tuple[TaskState, StepState]
    statements: Sequence[str]
    event: EventRecord
    dedup: DedupRecord
    outbox: Sequence[OutboxRecord]
    hints: int
    publications: Sequence[Publication]
    modules: Sequence[str]
    """In the order in which the event first entered them, the relay's after the service's."""


async def travel() -> Journey:
    """Run the event from the gRPC handler to the publisher."""
    with a_story() as story:
        await story.begin()
        world = story.world
        known, hints, before = set(world.store.tables.outbox), world.wake_up.hints, _state(story)
        with modules_entered() as modules:
            answer = await story.report(story.completed())
            outbox = [row for key, row in world.store.tables.outbox.items() if key not in known]
            publications = await _publish(story, outbox)
        task_id, version = before[0].envelope.task_id, answer.task_version
        return Journey(
            request=story.completed_json(),
            answer=answer,
            before=before,
            after=_state(story),
            statements=tuple(world.recording.statements),
            event=world.store.tables.events[(task_id, version)],
            dedup=world.store.tables.dedups[(task_id, story.completed_json()["eventId"])],
            outbox=outbox,
            hints=world.wake_up.hints - hints,
            publications=publications,
            modules=tuple(modules),
        )


def _state(story: Story) -> tuple[TaskState, StepState]:
    tables = story.world.store.tables
    (task,) = tables.tasks.values()
    return task, tables.steps[(task.envelope.task_id, task.attempt, STEP, 1)]


async def _publish(story: Story, rows: list[OutboxRecord]) -> Sequence[Publication]:
    publisher, world = KeepingPublisher(), story.world
    loop = RelayLoop(
        outbox=MemoryOutbox(rows),
        renderer=BatchRenderer(world.reader, render_detail, VERSION_EPOCH),
        publisher=publisher,
        wakeup=PollOnly(),
        clock=world.clock,
        randomness=world.randomness,
        config=RelayConfig(),
        metrics=RelayMetrics(CollectorRegistry()),
        tracer=NoOpTracer(),
    )
    await loop.run_once()
    return publisher.publications


async def rendered_blocks() -> Mapping[str, str]:
    """Every block by its name."""
    journey = await travel()
    return {
        "request": fence(json_text(journey.request), "json"),
        "canonical": fence(_canonical(journey.event), "text"),
        "states": _states(journey),
        "sql": fence("\n".join(map(sql_text, journey.statements)), "sql"),
        "event-row": _row(rows_event.COLUMNS, rows_event.to_row(journey.event)),
        "dedup-row": _row(rows_event.DEDUP_COLUMNS, rows_event.dedup_to_row(journey.dedup)),
        "outbox-rows": _outbox(journey.outbox),
        "summary": fence(json_text(_summary(journey)), "json"),
        "answer": fence(json_text(orjson.loads(encode_message(journey.answer))), "json"),
        "claim": fence("\n".join(map(sql_text, _relay_statements(len(journey.outbox)))), "sql"),
        "publications": _publications(journey.publications),
        "detail": fence(json_text(_detail(journey)), "json"),
        "stops": await _stops(),
    }


def _canonical(event: EventRecord) -> str:
    return (
        f"{hex_text(event.canonical, 40)}\n\n"
        f"{len(event.canonical)} bytes; digest = SHA-256(01 followed by them) =\n{event.digest.hex()}"
    )


def _states(journey: Journey) -> str:
    (task, step), (next_task, next_step) = journey.before, journey.after
    rows = [
        ("task version", task.version, next_task.version),
        ("task row_revision", task.row_revision, next_task.row_revision),
        ("task lifecycle", task.lifecycle, next_task.lifecycle),
        ("task progress", f"{task_percent(task)} %", f"{task_percent(next_task)} %"),
        ("open steps", task.open_steps, next_task.open_steps),
        (f"{STEP} version", step.version, next_step.version),
        (f"{STEP} lifecycle", step.lifecycle, next_step.lifecycle),
        (f"{STEP} sourceSeq", step.source_seq, next_step.source_seq),
        (f"{STEP} progress", _percent(step), _percent(next_step)),
        (f"{STEP} duration", _duration(step), _duration(next_step)),
    ]
    return table(("", "before", "after"), rows)


def _percent(step: StepState) -> str:
    percent = step_percent(step)
    return "not told" if percent is None else f"{percent} %"


def _duration(step: StepState) -> str:
    return "" if step.duration_ms is None else f"{step.duration_ms} ms, {step.duration_source}"


def _row(columns: Sequence[str], values: Sequence[object]) -> str:
    return fence("\n".join(f"{name:<24} {_value(value)}" for name, value in zip(columns, values, strict=True)), "text")


def _value(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode() if value.startswith(b"{") else f"x'{_shortened(value.hex())}'"
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


def _shortened(digits: str) -> str:
    return digits if len(digits) <= 64 else f"{digits[:32]}… ({len(digits) // 2} bytes, as above)"


def _outbox(records: Sequence[OutboxRecord]) -> str:
    rows = [
        (
            code(row.projection),
            code(row.audience),
            row.aggregate_version,
            "yes" if row.protected else "no",
            f"{len(row.payload)} bytes" if row.payload else "none: rendered when it is published",
        )
        for row in records
    ]
    return table(("projection", "audience", "version", "protected", "payload"), rows)


def _summary(journey: Journey) -> Any:
    (payload,) = (row.payload for row in journey.outbox if row.payload)
    return orjson.loads(payload)


def _relay_statements(rows: int) -> list[str]:
    places = marks(rows)
    return [CLAIM_SELECT, *(text.format(ids=places, buckets=places) for text in (CLAIM_UPDATE, MARK_PUBLISHED))]


def _publications(publications: Sequence[Publication]) -> str:
    rows = [
        (
            code(", ".join(each.channels)),
            code(each.idempotency_key),
            each.version or "none",
            each.version_epoch or "none",
            len(each.data),
        )
        for each in publications
    ]
    return table(("channel", "idempotency_key", "version", "version_epoch", "bytes"), rows)


def _detail(journey: Journey) -> Any:
    (data,) = (each.data for each in journey.publications if each.version)
    return orjson.loads(data)


async def _stops() -> str:
    rows = []
    for number, each in enumerate(stops.STOPS, start=1):
        guard, told = await stops.outcome(each)
        place = f"[{each.module}](../{each.path})" + (f": *{guard}*" if guard else "")
        rows.append((number, place, each.change, told))
    return table(("", "answered by", f"when, sent by `{WORKER}` as above", "the caller gets"), rows)
