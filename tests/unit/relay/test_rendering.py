"""From rows to messages (O-3, O-6, P-1, P-2)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest

from relay.publisher import Permanent, Publication, Retryable
from relay.rendering import BatchRenderer, Message
from relay.rows import ClaimedRow
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.domain.ids import WorkflowId, format_task_id, format_workflow_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.projections import render_detail
from taskstatus.domain.records import AggregateType, Audience, OutboxKind, Projection, RunOutcome, RunRecord, RunView
from taskstatus.domain.state import Grant
from tests.unit.factories import a_step

from .support import FakeReader, detail_row, plain_detail, summary_row, task_id, task_view

OWNER_CHANNEL = "task_user:acme/auth0%7Cada"
ENDED = RunOutcome(Lifecycle.FAILED, "FAILED", 0, None, None, None, None, None)


def renderer(reader: FakeReader | None = None, *, payload_max_bytes: int = 256 * 1024) -> BatchRenderer:
    """A renderer of plain details in epoch 7."""
    return BatchRenderer(reader or FakeReader(), plain_detail, "7", payload_max_bytes=payload_max_bytes)


async def test_o3_a_summary_row_is_published_as_it_was_stored() -> None:
    row = summary_row(1, aggregate_version=4)

    rendering = await renderer().render([row])

    key = f"PUBLISH:USER_SUMMARY:{task_id(1).hex()}:4"
    assert row.payload is not None
    assert rendering.messages == [Message(Publication((OWNER_CHANNEL,), row.payload, key), (row,))]


async def test_o3_versions_of_one_task_stay_apart_on_summary_channels() -> None:
    rows = [summary_row(number, aggregate_id=task_id(1), aggregate_version=number) for number in (1, 2, 3)]

    rendering = await renderer().render(rows)

    assert [message.rows for message in rendering.messages] == [(row,) for row in rows]
    assert {message.publication.version for message in rendering.messages} == {None}


async def test_p1_shared_summaries_go_to_the_owner_and_to_each_user_once_with_one_read_of_grants() -> None:
    grants = (
        Grant("USER", "bob", "VIEW"),
        Grant("USER", "bob", "OPERATE"),
        Grant("USER", "auth0|ada", "VIEW"),
        Grant("PROJECT", "p1", "VIEW"),
        Grant("ROLE", "auditor", "VIEW"),
    )
    reader = FakeReader(grants={task_id(1): grants})
    rows = [summary_row(number, audience=Audience.USERS) for number in (1, 2)]

    rendering = await renderer(reader).render(rows)

    channels = [message.publication.channels for message in rendering.messages]
    assert channels == [(OWNER_CHANNEL, "task_user:acme/bob"), (OWNER_CHANNEL,)]
    assert reader.calls == ["grants"]


def workflow_row(number: int, **changes: object) -> ClaimedRow:
    """A WORKFLOW_SUMMARY row of a workflow's version, for its owner unless told otherwise."""
    of_workflow = {"aggregate_type": AggregateType.WORKFLOW, "projection": Projection.WORKFLOW_SUMMARY}
    return summary_row(number, **of_workflow, **changes)


async def test_p1_the_whole_workflow_goes_to_its_owner_alone() -> None:
    reader = FakeReader()
    row = workflow_row(1)

    rendering = await renderer(reader).render([row])

    assert rendering.messages[0].publication.channels == (OWNER_CHANNEL,)
    assert rendering.messages[0].publication.idempotency_key.startswith("PUBLISH:WORKFLOW_SUMMARY:")
    assert reader.calls == []


async def test_p4_the_common_cut_goes_to_the_workflow_and_to_grantees_but_never_to_the_owner() -> None:
    grants = (Grant("USER", "bob", "VIEW"), Grant("USER", "auth0|ada", "VIEW"), Grant("PROJECT", "p1", "VIEW"))
    rows = [workflow_row(number, audience=Audience.VIEWERS) for number in (1, 2)]
    reader = FakeReader(viewers={WorkflowId(rows[0].aggregate_id): grants})

    rendering = await renderer(reader).render(rows)

    first, second = (f"workflow_summary:acme/{format_workflow_id(row.aggregate_id)}" for row in rows)
    channels = [message.publication.channels for message in rendering.messages]
    assert channels == [(first, "task_user:acme/bob"), (second,)]
    assert reader.calls == ["workflow grants"]


async def test_o2_a_workflow_row_for_an_unknown_audience_is_permanent() -> None:
    odd = workflow_row(1, audience=Audience.USERS)

    rendering = await renderer().render([odd])

    assert rendering.failed == [(odd, Permanent("no rule for audience USERS"))]


async def test_o6_a_task_is_rendered_once_at_the_version_that_was_read() -> None:
    reader = FakeReader(views={task_id(1): task_view(1, 9), task_id(2): task_view(2, 3)})
    first = [detail_row(number, number, task=1) for number in (4, 7, 9)]
    second = detail_row(20, 3, task=2)

    rendering = await renderer(reader).render([*first[:2], second, first[2]])

    one, two = rendering.messages
    channel = f"task_detail:acme/{format_task_id(task_id(1))}"
    assert one.publication == Publication(
        (channel,),
        b'{"kind":"task.detail","taskVersion":"9"}',
        f"PUBLISH:TASK_DETAIL:{task_id(1).hex()}:9",
        version=9,
        version_epoch="7",
    )
    assert one.rows == tuple(first)
    assert (two.rows, two.publication.version) == ((second,), 3)
    assert reader.calls == ["views"]


async def test_the_real_detail_message_is_json() -> None:
    reader = FakeReader(views={task_id(1): task_view(1, 2)})

    rendering = await BatchRenderer(reader, render_detail, "1").render([detail_row(1, 2, task=1)])

    message = json.loads(rendering.messages[0].publication.data)
    assert (message["kind"], message["taskVersion"]) == ("task.detail", "2")
    assert message["state"]["taskId"] == format_task_id(task_id(1))


async def test_o6_a_state_older_than_its_row_is_not_taken_for_it() -> None:
    reader = FakeReader(views={task_id(1): task_view(1, 5)})
    covered, ahead = detail_row(1, 5, task=1), detail_row(2, 6, task=1)

    rendering = await renderer(reader).render([covered, ahead])

    assert [message.rows for message in rendering.messages] == [(covered,)]
    ((row, outcome),) = rendering.failed
    assert row == ahead
    assert isinstance(outcome, Retryable)


async def test_a_vanished_task_is_done_and_not_dead() -> None:
    row = detail_row(1, 1, task=1)

    rendering = await renderer().render([row])

    assert (rendering.done, rendering.failed, rendering.messages) == ([row], [], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "TELEGRAM"},
        {"kind": OutboxKind.UNSUBSCRIBE},
        {"aggregate_type": "PLANET"},
        {"projection": "NONSENSE"},
        {"projection": Projection.WORKFLOW_SUMMARY},
        {"audience": "MARTIANS"},
        {"payload": None},
    ],
)
async def test_o2_a_row_that_cannot_be_understood_is_permanent_and_others_go_on(changes: dict[str, object]) -> None:
    odd, good = summary_row(1, **changes), summary_row(2)

    rendering = await renderer().render([odd, good])

    assert [message.rows for message in rendering.messages] == [(good,)]
    ((row, outcome),) = rendering.failed
    assert row == odd
    assert isinstance(outcome, Permanent)


async def test_o2_a_message_over_the_limit_is_permanent_with_its_cause() -> None:
    reader = FakeReader(views={task_id(1): task_view(1, 1)})
    rows = [summary_row(2), detail_row(1, 1, task=1)]

    rendering = await renderer(reader, payload_max_bytes=10).render(rows)

    assert rendering.messages == []
    causes = [outcome.cause for _, outcome in rendering.failed if isinstance(outcome, Permanent)]
    assert causes == [
        "the message has 23 bytes, at most 10 are allowed",
        "the message has 40 bytes, at most 10 are allowed",
    ]


async def test_p5_detail_of_a_very_large_task_is_without_its_earlier_runs() -> None:
    view = task_view(1, 1)
    runs = tuple(RunView(RunRecord(task_id(1), 0, number, "", 1, view.as_of, "again"), ENDED) for number in (1, 2, 3))
    view = replace(view, task=replace(view.task, attempt=3), runs=runs)
    whole, least = (len(orjson.dumps(render_detail(replace(view, runs=kept)))) for kept in (runs, runs[-1:]))

    async def shown_runs(limit: int) -> list[int]:
        reader = FakeReader(views={task_id(1): view})
        rendering = await BatchRenderer(reader, render_detail, "7", payload_max_bytes=limit).render(
            [detail_row(1, 1, task=1)]
        )
        messages = [json.loads(message.publication.data) for message in rendering.messages]
        return [run["taskAttempt"] for message in messages for run in message["state"]["runs"]]

    assert [await shown_runs(limit) for limit in (whole, whole - 1, least, least - 1)] == [[1, 2, 3], [3], [3], []]


async def test_p5_detail_of_a_task_too_large_for_its_steps_says_so() -> None:
    view = task_view(1, 1)
    view = replace(view, steps=tuple(a_step(step_id=f"{number:03d}", display_name="x" * 200) for number in range(50)))
    small = len(orjson.dumps({**render_detail(replace(view, steps=())), "stepsOmitted": True}))
    reader = FakeReader(views={task_id(1): view})

    async def rendered(limit: int) -> list[dict[str, Any]]:
        rows = [detail_row(1, 1, task=1)]
        rendering = await BatchRenderer(reader, render_detail, "7", payload_max_bytes=limit).render(rows)
        return [json.loads(message.publication.data) for message in rendering.messages]

    whole = len(orjson.dumps(render_detail(view)))
    assert [len(message["state"]["steps"]) for message in await rendered(whole)] == [50]
    (cut,) = await rendered(whole - 1)
    assert (cut["stepsOmitted"], cut["state"]["steps"], cut["taskVersion"]) == (True, [], "1")
    assert await rendered(small - 1) == []


async def test_o2_a_task_whose_rows_cannot_be_read_stands_alone() -> None:
    views = {task_id(number): task_view(number, 1) for number in (1, 2, 3)}
    reader = FakeReader(views=views, unreadable=frozenset({task_id(2)}))
    rows = [detail_row(number, 1, task=number) for number in (1, 2, 3)]

    rendering = await renderer(reader).render(rows)

    assert [message.rows for message in rendering.messages] == [(rows[0],), (rows[2],)]
    assert rendering.failed == [(rows[1], Permanent("the task cannot be read: ValueError: not a lifecycle: NONSENSE"))]


async def test_o2_a_task_that_cannot_be_rendered_stands_alone() -> None:
    reader = FakeReader(views={task_id(1): task_view(1, 1), task_id(2): task_view(2, 2)})

    def fails_for_version_1(view: object) -> dict[str, object]:
        return {"version": 1 // (reader.views[task_id(1)] is not view)}

    rows = [detail_row(1, 1, task=1), detail_row(2, 2, task=2)]
    rendering = await BatchRenderer(reader, fails_for_version_1, "1").render(rows)

    assert [message.rows for message in rendering.messages] == [(rows[1],)]
    assert [row for row, _ in rendering.failed] == [rows[0]]


async def test_an_unavailable_store_is_the_callers_to_handle() -> None:
    with pytest.raises(StoreUnavailableError):
        await renderer(FakeReader(error=StoreUnavailableError("gone"))).render([detail_row(1, 1, task=1)])
