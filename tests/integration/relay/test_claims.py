"""Claims and marks on MySQL and MariaDB (O-1, O-2, O-4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relay.claims import BACKLOG_COUNT, CLAIM_SELECT, CLEAN_PAGE, DEAD_COUNT, MysqlOutbox
from relay.rows import OutboxUnavailableError
from taskstatus.adapters.mysql.engine import open_database
from taskstatus.adapters.mysql.outbox_admin import OutboxAdmin
from tests.integration.relay.store import OutboxTable, summaries

LEASE_SECONDS = 30.0
MINE, OTHER = b"m" * 16, b"o" * 16


async def filled(table: OutboxTable, count: int) -> None:
    """``count`` rows that are due, the oldest first."""
    await table.insert([replace(record, payload=b"{}") for record in summaries(count, await table.now())])


async def expire_leases(table: OutboxTable) -> None:
    """As if every lease had been taken long ago."""
    await table.run("UPDATE task_outbox SET due_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE status = 'PROCESSING'")


async def test_o1_a_claim_takes_the_rows_that_became_due_first(outbox_table: OutboxTable) -> None:
    records = summaries(30, await outbox_table.now())
    await outbox_table.insert(list(reversed(records)))

    claim = await outbox_table.outbox.claim(MINE, 10, LEASE_SECONDS)

    assert [row.outbox_id for row in claim.rows] == [record.outbox_id for record in records[:10]]
    first, record = claim.rows[0], records[0]
    for name in ("bucket", "aggregate_type", "aggregate_id", "aggregate_version", "kind", "projection", "audience"):
        assert getattr(first, name) == getattr(record, name)
    for name in ("tenant_id", "owner_id", "payload", "traceparent"):
        assert getattr(first, name) == getattr(record, name)
    assert (first.failures, first.lease_expired) == (0, False)
    assert 0 < first.age_seconds < 60


async def test_o1_a_claimed_row_is_leased_with_its_token_and_counted(outbox_table: OutboxTable) -> None:
    await filled(outbox_table, 3)

    await outbox_table.outbox.claim(MINE, 10, LEASE_SECONDS)

    columns = "status, attempts, failures, claim_token, claimed_by, due_at > UTC_TIMESTAMP(6) + INTERVAL 20 SECOND"
    rows = await outbox_table.rows(f"SELECT {columns} FROM task_outbox")
    assert {tuple(row) for row in rows} == {(b"PROCESSING", 1, 0, MINE, b"test", 1)}
    assert (await outbox_table.outbox.claim(OTHER, 10, LEASE_SECONDS)).rows == ()


async def test_o2_a_row_with_odd_codes_is_claimed_like_any_other(outbox_table: OutboxTable) -> None:
    await filled(outbox_table, 2)
    await outbox_table.run(
        "UPDATE task_outbox SET projection = %s, audience = %s ORDER BY id LIMIT 1", b"\xff\xfe", b"a b"
    )

    odd, good = (await outbox_table.outbox.claim(MINE, 10, LEASE_SECONDS)).rows

    assert (good.projection, good.audience) == ("USER_SUMMARY", "OWNER")
    assert odd.projection != "USER_SUMMARY"


async def test_an_empty_outbox_gives_an_empty_claim(outbox_table: OutboxTable) -> None:
    claim = await outbox_table.outbox.claim(MINE, 10, LEASE_SECONDS)
    assert claim.rows == ()


async def test_o1_a_row_whose_lease_ended_is_taken_by_another(outbox_table: OutboxTable) -> None:
    await filled(outbox_table, 3)
    await outbox_table.outbox.claim(MINE, 10, LEASE_SECONDS)
    await expire_leases(outbox_table)

    taken = await outbox_table.outbox.claim(OTHER, 10, LEASE_SECONDS)

    assert [row.lease_expired for row in taken.rows] == [True] * 3


async def test_o1_marks_are_fenced_by_the_claim(outbox_table: OutboxTable) -> None:
    outbox = outbox_table.outbox
    await filled(outbox_table, 4)
    mine = await outbox.claim(MINE, 4, LEASE_SECONDS)
    await expire_leases(outbox_table)
    other = await outbox.claim(OTHER, 3, LEASE_SECONDS)

    assert await outbox.mark_published(MINE, mine.rows) == 1
    assert await outbox.mark_failed(MINE, mine.rows, 1, "late") == 0
    assert await outbox.mark_dead(MINE, mine.rows, "late") == 0
    assert await outbox.release(MINE, mine.rows, 0) == 0

    assert await outbox_table.counts() == {"PUBLISHED": 1, "PROCESSING": 3}
    assert await outbox.mark_published(OTHER, other.rows) == 3
    assert await outbox.mark_published(OTHER, other.rows) == 0


async def test_marks_of_no_rows_ask_nothing(outbox_table: OutboxTable) -> None:
    assert await outbox_table.outbox.mark_published(MINE, []) == 0


async def test_o2_a_failed_row_rests_and_a_released_one_is_not_counted(outbox_table: OutboxTable) -> None:
    outbox = outbox_table.outbox
    await filled(outbox_table, 2)
    failed, released = (await outbox.claim(MINE, 2, LEASE_SECONDS)).rows

    assert await outbox.mark_failed(MINE, [failed], 40, "centrifugo error 100") == 1
    assert await outbox.release(MINE, [released], 0) == 1

    (again,) = (await outbox.claim(OTHER, 2, LEASE_SECONDS)).rows
    assert (again.outbox_id, again.failures) == (released.outbox_id, 0)
    ((failures, error, rests),) = await outbox_table.rows(
        "SELECT failures, last_error, due_at > UTC_TIMESTAMP(6) + INTERVAL 30 SECOND FROM task_outbox WHERE id = %s",
        failed.outbox_id,
    )
    assert (failures, error, rests) == (1, "centrifugo error 100", 1)


async def test_o2_dead_rows_are_listed_and_requeued_with_a_fresh_budget(outbox_table: OutboxTable) -> None:
    outbox = outbox_table.outbox
    await filled(outbox_table, 3)
    rows = (await outbox.claim(MINE, 3, LEASE_SECONDS)).rows
    cause = "🧨" * 2000
    assert await outbox.mark_dead(MINE, rows[:2], cause) == 2

    admin = OutboxAdmin(outbox_table.engine)
    dead = await admin.dead_rows(10)
    assert [one.outbox_id for one in dead] == [row.outbox_id for row in rows[:2]]
    assert (dead[0].last_error, dead[0].failures, dead[0].attempts) == (cause[:1024], 1, 1)
    assert (await outbox.claim(OTHER, 10, LEASE_SECONDS)).rows == ()
    assert len(await admin.dead_rows(1)) == 1

    assert await admin.requeue([rows[0].outbox_id, rows[2].outbox_id, b"x" * 16]) == 1
    assert await admin.requeue([]) == 0
    (again,) = (await outbox.claim(OTHER, 10, LEASE_SECONDS)).rows
    assert (again.outbox_id, again.failures, again.lease_expired) == (rows[0].outbox_id, 0, False)
    assert [one.outbox_id for one in await admin.dead_rows(10)] == [rows[1].outbox_id]


async def test_o4_published_rows_are_cleaned_in_batches_after_their_retention(outbox_table: OutboxTable) -> None:
    now = await outbox_table.now()
    await outbox_table.insert(summaries(250, now - timedelta(days=5)))
    await outbox_table.run("UPDATE task_outbox SET status = 'PUBLISHED', due_at = NULL, published_at = committed_at")
    late = await outbox_table.run("UPDATE task_outbox SET published_at = UTC_TIMESTAMP(6) ORDER BY id LIMIT 10")
    dead = await outbox_table.run("UPDATE task_outbox SET status = 'DEAD', dead_at = now() ORDER BY id DESC LIMIT 20")
    fresh = [replace(one, aggregate_version=one.aggregate_version + 1000) for one in summaries(30, now)]
    await outbox_table.insert(fresh)
    await outbox_table.run(
        "UPDATE task_outbox SET status = 'PUBLISHED', published_at = %s WHERE id >= %s", now, fresh[0].outbox_id
    )

    deleted, after = 0, b""
    batches = 0
    position: bytes | None = after
    while position is not None:
        count, position = await outbox_table.outbox.clean_batch(position, 3 * 24 * 3600, 100)
        deleted, batches = deleted + count, batches + 1

    assert (late, dead) == (10, 20)
    assert (deleted, batches) == (220, 3)
    assert await outbox_table.counts() == {"DEAD": 20, "PUBLISHED": 40}


async def test_o4_the_backlog_tells_age_and_rows(outbox_table: OutboxTable) -> None:
    outbox = outbox_table.outbox
    assert (await outbox.backlog()).oldest_age_seconds == 0
    await outbox_table.insert(summaries(10, await outbox_table.now() - timedelta(hours=1)))
    rows = (await outbox.claim(MINE, 5, LEASE_SECONDS)).rows
    await outbox.mark_dead(MINE, rows[:2], "no")
    await outbox.mark_published(MINE, rows[2:3])

    backlog = await outbox.backlog()

    assert dict(backlog.rows) == {"READY": 5, "WAITING": 2, "DEAD": 2}
    assert 3590 < backlog.oldest_age_seconds < 3900


async def test_o1_two_relays_share_a_hundred_thousand_rows_without_waiting(outbox_table: OutboxTable) -> None:
    await filled(outbox_table, 1000)
    assert await outbox_table.multiply(100) == 99_000
    for query, parameters in (
        (CLAIM_SELECT, (100,)),
        (BACKLOG_COUNT, ()),
        (DEAD_COUNT, ()),
        (CLEAN_PAGE, (b"", b"~", 9)),
    ):
        await assert_indexed(outbox_table, query, parameters)

    async with outbox_table.transaction() as relay:
        taken = (await relay.exec_driver_sql(CLAIM_SELECT, (100,))).all()
        locked = (
            await relay.exec_driver_sql(
                "SELECT trx_rows_locked FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = CONNECTION_ID()"
            )
        ).scalar_one()
        assert len(taken) == 100
        assert locked <= 200
        assert await record_locks(outbox_table) <= 200

        other = await outbox_table.outbox.claim(OTHER, 100, LEASE_SECONDS)

    assert len(other.rows) == 100
    assert not {row[0] for row in taken} & {row.outbox_id for row in other.rows}


async def assert_indexed(table: OutboxTable, query: str, parameters: tuple[object, ...]) -> None:
    """The plan uses an index for range and order, and sorts nothing."""
    # MySQL 9's own default is a tree; MariaDB has no other name for its table.
    form = "" if await table.is_mariadb() else "FORMAT=TRADITIONAL "
    async with table.engine.connect() as connection:
        plan = (await connection.exec_driver_sql(f"EXPLAIN {form}{query}", parameters)).mappings().one()
    assert plan["key"] in ("outbox_due", "outbox_dead", "PRIMARY"), dict(plan)
    assert "filesort" not in (plan["Extra"] or ""), dict(plan)
    assert plan["type"] in ("range", "index"), dict(plan)


async def record_locks(table: OutboxTable) -> int:
    """Record locks in the table, where the server shows them (MySQL); 0 elsewhere."""
    if await table.is_mariadb():
        return 0
    ((count,),) = await table.rows(
        "SELECT COUNT(*) FROM performance_schema.data_locks "
        "WHERE OBJECT_NAME = 'task_outbox' AND LOCK_TYPE = 'RECORD' AND LOCK_STATUS = 'GRANTED'"
    )
    return int(count)


async def test_a_cut_connection_is_an_outage_and_the_next_call_opens_another(outbox_table: OutboxTable) -> None:
    await filled(outbox_table, 2)
    database = open_database(outbox_table.url)
    outbox = MysqlOutbox(database.writer, "test")
    assert len((await outbox.claim(MINE, 1, LEASE_SECONDS)).rows) == 1

    await cut_other_connections(outbox_table)
    with pytest.raises(OutboxUnavailableError, match="LOST"):
        await outbox.claim(MINE, 1, LEASE_SECONDS)

    assert len((await outbox.claim(MINE, 1, LEASE_SECONDS)).rows) == 1
    await database.dispose()


async def test_an_absent_database_is_an_outage() -> None:
    database = open_database("mysql://root@127.0.0.1:1/taskstatus")
    with pytest.raises(OutboxUnavailableError):
        await MysqlOutbox(database.writer, "test").claim(MINE, 1, LEASE_SECONDS)
    await database.dispose()


async def cut_other_connections(table: OutboxTable) -> None:
    """Kill every connection to this schema but the one that kills."""
    async with table.engine.connect() as killer:
        found = await killer.exec_driver_sql(
            "SELECT id FROM information_schema.PROCESSLIST WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        )
        for (connection_id,) in found.all():
            await killer.exec_driver_sql(f"KILL CONNECTION {connection_id}")
