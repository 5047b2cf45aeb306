"""Commands and reads over many tasks: every way gives one answer, writes one set of rows, refuses alike (T-3, R-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.message import Message
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.parity.calls import Command, Done, Way, ways_of
from tests.parity.carried_out import CARRIED_OUT
from tests.parity.conftest import Theatre
from tests.parity.outcome import OK
from tests.parity.reads import READS, REFUSED_READS
from tests.parity.refused import REFUSED
from tests.parity.rows import Normaliser, difference, stored_rows
from tests.parity.stage import Preparation, Stage, remember, set_stage
from tests.support.databases import TABLES

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALL_REFUSED = {**REFUSED, **REFUSED_READS}


@pytest.mark.parametrize("name", CARRIED_OUT)
async def test_t3_a_command_is_carried_out_alike_by_every_way(theatre: Theatre, name: str) -> None:
    case = CARRIED_OUT[name]
    ways = list(ways_of(case.method).items())
    assert len(ways) > 1
    stages = await asyncio.gather(*(new_stage(theatre, case.before) for _ in ways))
    requests = [(stage, case.request(stage)) for stage in stages]

    answers = [await carried_out(theatre, case, way, *sent) for (_, way), sent in zip(ways, requests, strict=True)]

    rows = await asyncio.gather(*(stored_rows(theatre.database.reader, stage) for stage in stages))
    assert missing_of(case.expected, answers[0]) == {}
    for (way_name, _), answer, own in zip(ways, answers, rows, strict=True):
        assert answer == answers[0], f"{way_name} against {ways[0][0]}"
        assert difference(own, rows[0]) == [], f"{way_name} against {ways[0][0]}"

    # Sent again by another way it is the same command, and gives its first result.
    others = [way for _, way in ways[1:] + ways[:1]]
    again = [await carried_out(theatre, case, way, *sent) for way, sent in zip(others, requests, strict=True)]
    assert all(one == again[0] for one in again)
    assert told_again(again[0]) == told_again(answers[0])
    later = await asyncio.gather(*(stored_rows(theatre.database.reader, stage) for stage in stages))
    assert [difference(*pair) for pair in zip(rows, later, strict=True)] == [[]] * len(stages)


@pytest.mark.parametrize("name", ALL_REFUSED)
async def test_t3_a_command_is_refused_alike_by_every_way_and_writes_nothing(theatre: Theatre, name: str) -> None:
    case: Command = ALL_REFUSED[name]
    stage = await new_stage(theatre, case.before)
    request = case.request(stage)
    before, counts = await stored_rows(theatre.database.reader, stage), await counted(theatre.database.reader)

    outcomes = {
        way_name: await way(theatre.lines, theatre.callers[case.by], request)
        for way_name, way in ways_of(case.method).items()
    }

    first = outcomes["gRPC"]
    assert first.reason == case.reason
    for way_name, outcome in outcomes.items():
        assert outcome == first, way_name
    assert difference(before, await stored_rows(theatre.database.reader, stage)) == []
    assert await counted(theatre.database.reader) == counts


@pytest.mark.parametrize("name", READS)
async def test_t3_a_read_is_answered_alike_by_every_way(theatre: Theatre, name: str) -> None:
    case = READS[name]
    stage = await new_stage(theatre, case.before)
    request, normal = case.request(stage), Normaliser(stage)

    answers = {}
    for way_name, way in ways_of(case.method).items():
        outcome = await way(theatre.lines, theatre.callers[case.by], request)
        assert (outcome.code, outcome.message) == (OK, ""), way_name
        answers[way_name] = normal.document(outcome.answer)

    assert len(answers) > 1
    for way_name, answer in answers.items():
        assert answer == answers["gRPC"], way_name
    assert case.holds in str(answers["gRPC"])


async def new_stage(theatre: Theatre, before: tuple[Preparation, ...]) -> Stage:
    """A task of its own, brought to where a case begins."""
    return await set_stage(theatre.callers, theatre.forger, theatre.database.writer, theatre.now(), before)


async def carried_out(theatre: Theatre, case: Done, way: Way, stage: Stage, request: Message) -> dict[str, Any]:
    """The answer without what must differ; the stage knows from now on what it was given."""
    outcome = await way(theatre.lines, theatre.callers[case.by], request)
    assert (outcome.code, outcome.message) == (OK, "")
    remember(stage, case.method, outcome.answer)
    return Normaliser(stage).document(outcome.answer)


def told_again(answer: Mapping[str, Any]) -> Any:
    """An answer without what says that it was given before."""
    if isinstance(answer, Mapping):
        flags = ("duplicate", "created", "published", "unchanged", "differences")
        return {name: told_again(value) for name, value in answer.items() if name not in flags}
    return answer


def missing_of(expected: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """What of the expected part an answer does not hold."""
    found: dict[str, Any] = {}
    for name, value in expected.items():
        inner = answer.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            found |= missing_of(value, inner)
        elif inner != value:
            found[name] = inner
    return found


async def counted(reader: AsyncEngine) -> dict[str, int]:
    """The number of rows of every table."""
    counts = {}
    async with reader.connect() as connection:
        for table in (*TABLES, "task_status_definition", "task_operation_definition"):
            counts[table] = (await connection.exec_driver_sql(f"SELECT COUNT(*) AS n FROM {table}")).scalar_one()
        await connection.rollback()
    return counts
