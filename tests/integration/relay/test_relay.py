"""The assembled relay on real parts: outages of Centrifugo, hints, DEAD rows beside good ones (O-2, O-6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cent import AsyncClient
from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from relay.assembly import open_relay
from relay.config import RelayConfig, UpkeepConfig
from scripts.stack import servers
from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.mysql.outbox_admin import OutboxAdmin
from taskstatus.adapters.wake_up import WAKE_UP_CHANNEL, RedisWakeUp
from taskstatus.domain.channels import task_user_channel
from taskstatus.settings import Settings
from tests.integration.relay.history import History
from tests.integration.relay.store import TENANT, OutboxTable, summaries
from tests.integration.relay.waiting import until

BOTH = pytest.mark.parametrize("publisher", ["grpc", "http"])
SLOW_POLL = RelayConfig(poll_busy_seconds=3600, poll_idle_seconds=3600)


@asynccontextmanager
async def relaying(
    table: OutboxTable,
    server: servers.RunningCentrifugo,
    publisher: str = "grpc",
    *,
    redis_url: str | None = None,
    config: RelayConfig | None = None,
) -> AsyncIterator[CollectorRegistry]:
    """A relay in this process; leaving fails when one of its loops died."""
    settings = Settings.model_validate(
        {
            "database_url": table.url,
            "redis_url": redis_url,
            "centrifugo_grpc_target": server.ports.grpc_target,
            "centrifugo_api_url": server.ports.api_url,
            "centrifugo_api_key": server.api_key,
            "relay_publisher": publisher,
        }
    )
    registry = CollectorRegistry()
    async with open_relay(settings, registry, config or RelayConfig(), UpkeepConfig()) as loops:
        yield registry
        assert not [task for task in loops if task.done()]


async def until_published(table: OutboxTable, count: int) -> None:
    """Return once so many rows are PUBLISHED."""

    async def published() -> bool:
        return (await table.counts()).get("PUBLISHED", 0) == count

    await until(published, f"{count} rows are published")


@BOTH
async def test_o2_the_backlog_of_an_outage_drains_and_no_row_has_failed(
    outbox_table: OutboxTable, own_centrifugo: servers.RunningCentrifugo, publisher: str
) -> None:
    await outbox_table.insert(summaries(50, await outbox_table.now(), owners=5))
    async with relaying(outbox_table, own_centrifugo, publisher) as registry:
        await until_published(outbox_table, 50)
        own_centrifugo.kill9()
        late = summaries(300, await outbox_table.now(), owners=5, first_id=50)
        await outbox_table.insert([replace(one, aggregate_version=one.aggregate_version + 1000) for one in late])

        async def outage_met() -> bool:
            return (registry.get_sample_value("relay_publish_failures_total", {"class": "outage"}) or 0) >= 200

        await until(outage_met, "the relay has met the outage twice")
        own_centrifugo.restart()
        await until_published(outbox_table, 350)

    ((failures,),) = await outbox_table.rows("SELECT SUM(failures) FROM task_outbox")
    assert failures == 0
    client = AsyncClient(own_centrifugo.ports.api_url, own_centrifugo.api_key)
    messages = await History(client).of(task_user_channel(TENANT, "user-0"))
    await client.close()
    assert sorted(int(message["taskVersion"]) for message in messages) == list(range(1, 61))


@BOTH
async def test_o2_an_odd_row_goes_dead_beside_good_ones_and_can_be_requeued(
    outbox_table: OutboxTable, centrifugo: servers.RunningCentrifugo, publisher: str
) -> None:
    rows = summaries(20, await outbox_table.now(), owners=20)
    payload = rows[7].payload
    rows[7] = replace(rows[7], payload=b"not json")
    await outbox_table.insert(rows)
    admin = OutboxAdmin(outbox_table.engine)
    async with relaying(outbox_table, centrifugo, publisher):
        await until_published(outbox_table, 19)

        async def put_aside() -> bool:
            return await outbox_table.left() == 0

        await until(put_aside, "the odd row is put aside")
        (dead,) = await admin.dead_rows(10)
        assert (dead.outbox_id, dead.failures) == (rows[7].outbox_id, 1)
        assert dead.last_error.startswith("centrifugo error 107")

        await outbox_table.run("UPDATE task_outbox SET payload = %s WHERE id = %s", payload, dead.outbox_id)
        assert await admin.requeue([dead.outbox_id]) == 1
        await until_published(outbox_table, 20)


async def test_a_hint_publishes_long_before_the_next_poll(
    outbox_table: OutboxTable, centrifugo: servers.RunningCentrifugo, tmp_path: Path
) -> None:
    redis = servers.start_redis(tmp_path, own=True)
    sender = RedisWakeUp(redis.url, SystemClock())
    async with relaying(outbox_table, centrifugo, redis_url=redis.url, config=SLOW_POLL):
        await until(lambda: is_listening(redis.url), "the relay listens")
        await outbox_table.insert(summaries(1, await outbox_table.now()))
        sender.hint()
        await until_published(outbox_table, 1)
    await sender.stop()
    redis.stop()


async def test_o4_leaving_drains_what_is_claimed(
    outbox_table: OutboxTable, centrifugo: servers.RunningCentrifugo
) -> None:
    await outbox_table.insert(summaries(2000, await outbox_table.now()))
    async with relaying(outbox_table, centrifugo):

        async def begun() -> bool:
            return (await outbox_table.counts()).get("PUBLISHED", 0) > 0

        await until(begun, "the first batch is published")
    assert (await outbox_table.counts()).get("PROCESSING", 0) == 0


async def is_listening(redis_url: str) -> bool:
    """Whether somebody has subscribed to the hints."""
    client = Redis.from_url(redis_url)
    ((_, listeners),) = await client.pubsub_numsub(WAKE_UP_CHANNEL)
    await client.aclose()
    return int(listeners) > 0
