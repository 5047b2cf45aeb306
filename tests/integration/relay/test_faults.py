"""Two relay processes on one outbox, with and without faults: nothing missing, nothing twice but what was in flight.

Counted are the publish calls of summaries (a proxy before the real Centrifugo), and what a subscriber of the detail
channels receives (O-1, O-6).
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from cent import AsyncClient

from scripts.stack import devkeys, servers
from taskstatus.domain.channels import task_detail_channel, task_user_channel
from tests.integration.relay.counting_proxy import CountingProxy, counting_proxy
from tests.integration.relay.crew import RelayCrew, RelayProcess, relay_crew
from tests.integration.relay.feeding import (
    OWNERS,
    ROWS,
    SUMMARIES,
    TASKS,
    VERSIONS,
    WAVES,
    feed,
    owner_of,
    prepare_tasks,
)
from tests.integration.relay.history import History
from tests.integration.relay.store import TENANT, OutboxTable, task_id
from tests.integration.relay.subscriber import Received, subscribed
from tests.integration.relay.waiting import until

_logger = logging.getLogger(__name__)

KILLS = 20
DETAIL_CHANNELS = [task_detail_channel(TENANT, task_id(task)) for task in range(TASKS)]


class Saboteur:
    """Kills one of two relays each time that enough more messages have been taken, and in the end suspends one."""

    def __init__(self, crew: RelayCrew, relays: list[RelayProcess]) -> None:
        self._crew = crew
        self.relays = relays
        self.kills = 0
        self.in_flight = 0
        self.suspended: RelayProcess | None = None
        self.suspensions = 0
        self._acting = asyncio.Lock()
        self._every = ROWS // (2 * KILLS)

    async def on_batch(self, taken: int) -> None:
        """One fault when it is time for the next; the batch at hand waits for it."""
        async with self._acting:
            if self.kills < KILLS and taken > (self.kills + 1) * self._every:
                await self._kill()
            elif self.kills == KILLS and self.suspensions == 0:
                await self._suspend()

    async def _kill(self) -> None:
        """Kill a relay with rows in its hands, at least those of the batch that is waiting for this."""
        for place, relay in enumerate(self.relays):
            if relay.runs and await self._crew.in_flight(relay) > 0:
                self.kills += 1
                await relay.kill9()
                self.in_flight += await self._crew.in_flight(relay)
                self.relays[place] = await self._crew.fork()
                return

    async def _suspend(self) -> None:
        """Suspend a relay that has rows in its hands; the next batch tries again when it has just put them down."""
        for relay in self.relays:
            if relay.runs and await self._crew.in_flight(relay) > 0:
                await relay.suspend()
                held = await self._crew.in_flight(relay)
                if held > 0:
                    self.suspensions, self.suspended = 1, relay
                    self.in_flight += held
                    return
                relay.resume()

    async def wake_after_its_lease(self) -> None:
        """Resume the suspended relay once others have taken all of its rows."""

        async def suspended() -> bool:
            return self.suspended is not None

        await until(suspended, "a relay is suspended")
        assert self.suspended is not None
        relay = self.suspended

        async def taken_over() -> bool:
            return await self._crew.in_flight(relay) == 0

        await until(taken_over, "the rows of the suspended relay have been taken by the other")
        relay.resume()
        self.suspended = None


async def test_o1_o6_two_relays_without_faults_publish_nothing_twice(
    outbox_table: OutboxTable, own_centrifugo: servers.RunningCentrifugo, dev_keys: devkeys.DevKeys, tmp_path: Path
) -> None:
    await prepare_tasks(outbox_table)
    async with (
        counting_proxy(own_centrifugo) as proxy,
        subscribed(own_centrifugo, dev_keys, DETAIL_CHANNELS) as received,
        relay_crew(outbox_table, tmp_path, grpc_target=proxy.target, api_key=own_centrifugo.api_key) as crew,
    ):
        relays = [await crew.start_product(), await crew.start_product()]
        await feed(outbox_table)
        await crew.until_drained()
        for relay in relays:
            relay.terminate()
        assert [await relay.wait() for relay in relays] == [0, 0]

        assert proxy.summary_duplicates() == 0
        await assert_nothing_is_missing(outbox_table, proxy, own_centrifugo, received)


async def test_o1_o6_kill_9_and_suspension_lose_nothing_and_repeat_only_what_was_in_flight(
    outbox_table: OutboxTable,
    own_centrifugo: servers.RunningCentrifugo,
    dev_keys: devkeys.DevKeys,
    tmp_path: Path,
) -> None:
    await prepare_tasks(outbox_table)
    async with (
        counting_proxy(own_centrifugo) as proxy,
        subscribed(own_centrifugo, dev_keys, DETAIL_CHANNELS) as received,
        relay_crew(outbox_table, tmp_path, grpc_target=proxy.target, api_key=own_centrifugo.api_key) as crew,
    ):
        saboteur = Saboteur(crew, [await crew.fork(), await crew.fork()])
        proxy.on_batch = saboteur.on_batch
        waking = asyncio.create_task(saboteur.wake_after_its_lease())
        await feed(outbox_table)
        await asyncio.gather(waking, crew.until_drained())
        for relay in saboteur.relays:
            await relay.terminate()

        assert (saboteur.kills, saboteur.suspensions) == (KILLS, 1)
        _logger.info("%s calls repeated, %s rows in flight", proxy.summary_duplicates(), saboteur.in_flight)
        assert saboteur.in_flight > 0
        assert proxy.summary_duplicates() <= saboteur.in_flight
        await assert_nothing_is_missing(outbox_table, proxy, own_centrifugo, received)


async def assert_nothing_is_missing(
    table: OutboxTable, proxy: CountingProxy, server: servers.RunningCentrifugo, received: Received
) -> None:
    """Each summary is in its channel once, each detail channel rose to its last version without a repetition."""
    await proxy.settled()
    assert await table.counts() == {"PUBLISHED": ROWS}
    assert proxy.summaries() == WAVES * OWNERS * SUMMARIES
    client = AsyncClient(server.ports.api_url, server.api_key)
    for owner in range(OWNERS):
        messages = await History(client).of(task_user_channel(TENANT, owner_of(owner)))
        assert sorted(int(message["taskVersion"]) for message in messages) == list(range(1, WAVES * SUMMARIES + 1))
    await client.close()

    async def all_received() -> bool:
        return all(received.versions[channel][-1:] == [WAVES * VERSIONS] for channel in DETAIL_CHANNELS)

    await until(all_received, "the subscriber has every task's last version")
    for channel in DETAIL_CHANNELS:
        versions = received.versions[channel]
        assert versions == sorted(set(versions)), channel
