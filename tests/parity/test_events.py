"""Every case by every transport in every form: one answer, one set of rows (T-3, E-2, E-9)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

import pytest

from tests.parity.cases import CASES, FAULTS, TWO_FAULTS_BEFORE, Case, Fault, pairs_after, with_faults
from tests.parity.conftest import Theatre
from tests.parity.outcome import Outcome
from tests.parity.rows import Rows, dedup_digests_match, difference, stored_rows
from tests.parity.stage import FORMS, Form, Stage, build, expressible, set_stage
from tests.parity.transports import TRANSPORTS, is_compact

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = "gRPC stream"
COMPACT_ONLY = ("gRPC compact batch", STREAM)
BOUND_BY_NOBODY = frozenset({"other tenant", "other producer", "coordinator", "other coordinator"})
"""They could not bind the execution in the first place; its refusal is told before an event could be."""
ONE_BY_ONE = ("gRPC", "REST")


@dataclass(frozen=True)
class Sending:
    """One way of sending a case, on a stage of its own."""

    name: str
    transport: str
    form: Form
    stage: Stage


@pytest.mark.parametrize("name", CASES)
async def test_t3_every_transport_and_form_gives_one_answer_and_one_set_of_rows(theatre: Theatre, name: str) -> None:
    await compare(theatre, CASES[name])


@pytest.mark.parametrize("first", FAULTS[:-1], ids=lambda fault: fault.reason)
async def test_e2_of_two_faults_every_transport_reports_the_earlier_guard(theatre: Theatre, first: Fault) -> None:
    seconds = pairs_after(first)
    events = tuple(with_faults(first, second) for second in seconds)
    for sender in {event.by for event in events}:
        own = tuple(event for event in events if event.by == sender)
        await compare(theatre, Case(own, (first.reason,) * len(own), TWO_FAULTS_BEFORE))


async def compare(theatre: Theatre, case: Case) -> None:
    """Send the case by all ways at once, each on a task of its own, and hold them against one another."""
    sendings = await prepare(theatre, case)
    assert len({sending.transport for sending in sendings}) > 1
    writes = bool({"accepted", "coalesced"} & set(case.expected))
    before = [] if writes else await asyncio.gather(*(rows_of(theatre, sending) for sending in sendings))
    outcomes = await asyncio.gather(*(send(theatre, case, sending) for sending in sendings))
    after = await asyncio.gather(*(rows_of(theatre, sending) for sending in sendings))
    for sending, outcome, rows in zip(sendings, outcomes, after, strict=True):
        assert [each.verdict for each in outcome] == list(case.expected), sending.name
        assert outcome == outcomes[0], f"{sending.name} against {sendings[0].name}"
        assert difference(rows, after[0]) == [], f"{sending.name} against {sendings[0].name}"
        assert await dedup_digests_match(theatre.database.reader, sending.stage)
    if not writes:
        assert [difference(*pair) for pair in zip(before, after, strict=True)] == [[]] * len(sendings)


async def prepare(theatre: Theatre, case: Case) -> list[Sending]:
    """A stage for each way in which the case can be said."""
    now = theatre.now()
    pairs = [(transport, form) for form in FORMS for transport in TRANSPORTS]
    if case.in_one_call:
        pairs = [(transport, form) for transport, form in pairs if transport not in ONE_BY_ONE]
    pairs = [pair for pair in pairs if all(expressible(sent, pair[1]) for sent in case.events)]
    if {sent.by for sent in case.events} & BOUND_BY_NOBODY:
        pairs = [pair for pair in pairs if pair[0] != STREAM]
    pairs = [pair for pair in pairs if pair != (STREAM, "full")]
    writer, worker = theatre.database.writer, theatre.callers["worker"].token
    stages = await asyncio.gather(
        *(
            set_stage(
                theatre.callers,
                theatre.forger,
                writer,
                now,
                case.before,
                partial(theatre.lines.streams.bind, worker) if transport == STREAM else None,
            )
            for transport, _ in pairs
        )
    )
    sendings = [
        Sending(f"{transport}, {form}", transport, form, stage)
        for (transport, form), stage in zip(pairs, stages, strict=True)
    ]
    return [
        sending
        for sending in sendings
        if sending.transport not in COMPACT_ONLY
        or all(is_compact(build(sent, sending.stage, sending.form)) for sent in case.events)
    ]


async def send(theatre: Theatre, case: Case, sending: Sending) -> list[Outcome]:
    """The outcomes of the case's events; all of a case come from one caller."""
    requests = [build(sent, sending.stage, sending.form) for sent in case.events]
    (caller,) = {sent.by for sent in case.events}
    return await TRANSPORTS[sending.transport](theatre.lines, theatre.callers[caller].token, requests)


async def rows_of(theatre: Theatre, sending: Sending) -> Rows:
    """The rows of the sending's task."""
    return await stored_rows(theatre.database.reader, sending.stage)
