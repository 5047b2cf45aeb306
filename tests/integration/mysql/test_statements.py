"""How rows and keys are cut into statements that a server takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskstatus.adapters.mysql.engine import Database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.statements import (
    KEY_SIZES,
    MAX_BYTES,
    MAX_KEYS,
    MAX_ROWS,
    ROW_SIZES,
    MultiRow,
    cut_keys,
    cut_rows,
)
from tests.contract import records

from .filling import write


def test_rows_are_cut_by_number() -> None:
    groups = list(cut_rows([(number,) for number in range(2 * MAX_ROWS + 1)]))
    assert [len(group) for group in groups] == [MAX_ROWS, MAX_ROWS, 1]


def test_rows_are_cut_by_bytes_and_a_huge_one_goes_alone() -> None:
    large, huge = b"x" * (MAX_BYTES // 5), b"x" * MAX_BYTES
    groups = list(cut_rows([(large,), (large,), (large,), (huge,), (large,)]))
    assert [len(group) for group in groups] == [2, 1, 1, 1]


def test_nothing_is_cut_into_nothing() -> None:
    assert list(cut_rows([])) == []
    assert list(cut_keys([])) == []


def test_keys_are_cut_by_number() -> None:
    assert [len(group) for group in cut_keys(range(MAX_KEYS + 1))] == [MAX_KEYS, 1]


@given(st.integers(1, 2 * MAX_ROWS))
def test_rows_of_any_number_are_written_by_a_few_statements_that_are_known_already(number: int) -> None:
    rows = [(place,) for place in range(number)]

    groups = list(cut_rows(rows))

    assert [row for group in groups for row in group] == rows
    assert {len(group) for group in groups} <= set(ROW_SIZES)
    assert len(groups) <= 6 + number // MAX_ROWS


@given(st.integers(1, 2 * MAX_KEYS))
def test_keys_are_filled_up_with_one_of_them_to_a_known_size(number: int) -> None:
    groups = list(cut_keys(range(number)))

    assert sorted({key for group in groups for key in group}) == list(range(number))
    assert {len(group) for group in groups} <= set(KEY_SIZES)
    assert sum(map(len, groups)) < 2 * number


def test_text_names_columns_once_and_repeats_rows() -> None:
    statement = MultiRow("t", ("bucket", "id", "v"), updated=("v",), fixed=(("n", "0"),), computed=(("n", "n+1"),))
    rows = "INSERT INTO t (bucket,id,v,n) VALUES (%s,%s,%s,0),(%s,%s,%s,0)"
    assert statement.text(2) == f"{rows} ON DUPLICATE KEY UPDATE t.v=VALUES(v),t.n=n+1"
    assert statement.text(2, row_alias=True) == f"{rows} AS given ON DUPLICATE KEY UPDATE t.v=given.v,t.n=n+1"


async def test_batch_larger_than_a_packet_is_written_in_parts(database: Database) -> None:
    workflow = records.workflow()
    task = records.task(workflow.workflow_id)
    changes = records.creation(workflow, (task, []))
    for version in range(2, 40):
        later = records.next_version(task, version=version)
        changes.events.append(records.event(later, f"e-{version}", canonical=b"\x00'\\" * (150 * 1024)))

    await write(database, changes)

    page = await MySqlTaskReader(database.reader).timeline(task.envelope.task_id, 38, 10)
    assert [len(event.canonical) for event in page.events] == [450 * 1024]


async def test_more_keys_than_one_statement_takes_are_all_found(database: Database) -> None:
    workflow = records.workflow()
    tasks = [records.task(workflow.workflow_id, f"t-{number}") for number in range(MAX_KEYS + 3)]
    await write(database, records.creation(workflow, *((task, []) for task in tasks)))
    ids = [task.envelope.task_id for task in tasks]

    views = await MySqlTaskReader(database.reader).task_views(ids, with_trigger=True)

    assert set(views) == set(ids)
