"""``docs/one-event.md`` beyond its rendered blocks: the order of modules, and that the values belong together."""

from __future__ import annotations

import asyncio
import hashlib
import re

import orjson
import pytest
from taskstatus_pb.storage.v1 import canonical_pb2

from scripts.docs import blocks, stops
from scripts.docs.one_event import Journey
from scripts.docs.reference import TABLES_OF_GROUP
from scripts.docs.stops import STOPS
from taskstatus.adapters.mysql import rows_event
from taskstatus.application.ports_store import LOCK_ORDER
from taskstatus.domain.guards import GUARDS
from taskstatus.domain.ids import bucket_of_id, bucket_of_owner
from taskstatus.domain.reasons import Reason
from tests.docs.support import DOCS

PAGE = DOCS / "one-event.md"
ELSEWHERE = {
    "gateway_rest.endpoint": "the other transport",
    "taskstatus.adapters.wake_up": "a port that counts stands in",
    "relay.claims": "its statements are shown, a table in memory stands in",
    "relay.publisher_grpc": "a port that keeps the batch stands in",
    "taskstatus.application.realtime": "named for what it did before",
}
"""Modules that the page names and the run does not enter, with the reason."""
NOT_OF_THIS_EVENT = {
    Reason.STALE_EXECUTION: "an attempt has one execution for life",
    Reason.PROGRESS_NOT_MONOTONIC: "of STEP_PROGRESS",
}


def modules_named() -> list[str]:
    """The modules of the walk, in the order of their first mention; the table at the end is no walk."""
    # Not hot_sql: its texts are cached, so that a second run does not enter it.
    walk = PAGE.read_text().partition("## Where it could have stopped")[0]
    paths = re.findall(r"\]\(\.\./((?:taskstatus|relay|gateway_rest)/[\w/]+)\.py\)", walk)
    return [name for name in dict.fromkeys(path.replace("/", ".") for path in paths) if not name.endswith("hot_sql")]


def test_page_names_modules_in_the_order_in_which_the_event_enters_them(journey: Journey) -> None:
    entered = [name for name in modules_named() if name not in ELSEWHERE]
    assert entered
    positions = [journey.modules.index(name) for name in entered if not name.startswith("relay.")]
    assert positions == sorted(positions)
    assert {name for name in entered if name.startswith("relay.")} <= set(journey.modules)


def test_page_excuses_no_module_that_the_event_enters(journey: Journey) -> None:
    assert not ELSEWHERE.keys() & set(journey.modules)


def test_e3_digest_covers_the_version_byte_and_the_canonical_bytes(journey: Journey) -> None:
    assert journey.event.digest == hashlib.sha256(b"\x01" + journey.event.canonical).digest()
    assert journey.dedup.digest == journey.event.digest


def test_e9_canonical_form_holds_the_full_ids_and_no_handle(journey: Journey) -> None:
    canonical = canonical_pb2.CanonicalEvent.FromString(journey.event.canonical)
    assert canonical.task_id == journey.event.task_id
    assert canonical.execution_id == journey.event.execution_id
    assert journey.request["executionHandle"].encode() not in journey.event.canonical


def test_e6_statements_follow_the_lock_order(journey: Journey) -> None:
    group_of = {table: LOCK_ORDER.index(group) for group, tables in TABLES_OF_GROUP.items() for table in tables}
    written = [text for text in journey.statements if text.startswith(("INSERT", "UPDATE"))]
    groups = [
        group_of[re.split(r"\s+", text.removeprefix("INSERT INTO ").removeprefix("UPDATE "))[0]] for text in written
    ]
    assert groups == sorted(groups)
    assert journey.statements[0] == "BEGIN"
    assert journey.statements[-1] == "COMMIT"


def test_e6_versions_rise_by_one(journey: Journey) -> None:
    (task, step), (next_task, next_step) = journey.before, journey.after
    assert (task.version + 1, step.version + 1) == (next_task.version, next_step.version)
    assert journey.answer.task_version == journey.event.task_version == next_task.version


def test_e3_dedup_row_gives_the_answer_again(journey: Journey) -> None:
    stored = rows_event.result_from_json(journey.event.task_id, rows_event.result_to_json(journey.dedup.result))
    assert stored == journey.dedup.result
    assert stored.task_version == journey.answer.task_version


def test_s1_ids_carry_the_owners_bucket(journey: Journey) -> None:
    assert bucket_of_id(journey.event.task_id) == bucket_of_owner("t-01", "u-88") == journey.event.bucket


def test_p2_messages_show_the_fields_that_the_definition_names(journey: Journey) -> None:
    summary, detail = [publication.data for publication in journey.publications]
    assert [b"pages" in summary, b"language" in summary, b"w-7" in summary] == [True, False, False]
    assert [b"pages" in detail, b"language" in detail, b"w-7" in detail] == [True, True, False]


def test_o6_detail_is_published_with_the_version_that_it_shows(journey: Journey) -> None:
    (detail,) = [publication for publication in journey.publications if publication.version is not None]
    assert orjson.loads(detail.data)["state"]["taskVersion"] == str(detail.version)


def test_commit_is_followed_by_one_hint(journey: Journey) -> None:
    assert journey.hints == 1


def test_e2_table_of_stops_follows_the_order_of_the_guards() -> None:
    names = [guard.name for guard in GUARDS]
    told = [asyncio.run(stops.outcome(stop))[0] for stop in STOPS if stop.path == stops.DOMAIN]
    positions = [names.index(name) for name in told]
    assert positions == sorted(positions)


def test_e2_table_of_stops_has_every_reason_of_the_guards() -> None:
    page = PAGE.read_text().partition("## Where it could have stopped")[2]
    possible = {reason for guard in GUARDS for reason in guard.reasons} - NOT_OF_THIS_EVENT.keys()
    assert [reason for reason in possible if f"`{reason}`" not in page] == []


def test_unknown_block_is_refused() -> None:
    with pytest.raises(ValueError, match="has the blocks"):
        blocks.filled("<!-- block: odd -->\n<!-- /block -->", {})
