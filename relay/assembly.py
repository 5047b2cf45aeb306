"""Puts a relay together from settings: the one place where its parts meet."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from opentelemetry import trace
from prometheus_client import CollectorRegistry

from relay.claims import MysqlOutbox
from relay.config import RelayConfig, UpkeepConfig
from relay.loop import RelayLoop
from relay.metrics import RelayMetrics
from relay.publisher import Publisher
from relay.rendering import BatchRenderer
from relay.upkeep import UpkeepLoop
from relay.wakeup import PollOnly, WakeUpListener
from relay.wakeup_redis import RedisWakeUp
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.mysql.engine import PoolLimits, open_database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.application.ports_clock import Randomness
from taskstatus.domain.projections import render_detail
from taskstatus.settings import Settings

CLAIMED_BY_MAX = 128
SPARE_CONNECTIONS = 2
"""One for upkeep, and one while a broken one is replaced; each turn of the publishing loop has one of its own."""


@asynccontextmanager
async def open_relay(
    settings: Settings, registry: CollectorRegistry, config: RelayConfig, upkeep: UpkeepConfig
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """A running relay: the tasks of its loops, each of which ends early only by a defect. On leaving, it drains.

    Raises SettingsError when the API key is missing. An unreachable database, Centrifugo or Redis is no error.
    """
    settings.require("centrifugo_api_key")
    clock, randomness, metrics = SystemClock(), SystemRandomness(), RelayMetrics(registry)
    async with AsyncExitStack() as stack:
        connections = config.turns_at_once + SPARE_CONNECTIONS
        pools = PoolLimits(writers=connections, readers=config.turns_at_once)
        database = open_database(settings.database_url.get_secret_value(), pools)
        stack.push_async_callback(database.dispose)
        publisher = make_publisher(settings, config)
        stack.push_async_callback(publisher.close)
        outbox = MysqlOutbox(database.writer, process_name())
        housekeeping = UpkeepLoop(outbox, clock, upkeep, metrics)
        stack.push_async_callback(housekeeping.stop)
        loop = RelayLoop(
            outbox=outbox,
            renderer=BatchRenderer(MySqlTaskReader(database.reader), render_detail, settings.version_epoch),
            publisher=publisher,
            wakeup=make_wakeup(settings, randomness),
            clock=clock,
            randomness=randomness,
            config=config,
            metrics=metrics,
            tracer=trace.get_tracer("relay"),
        )
        stack.push_async_callback(loop.stop)
        yield [await loop.start(), await housekeeping.start()]


def make_publisher(settings: Settings, config: RelayConfig) -> Publisher:
    """The publisher that the settings name; the API key must be set.

    Only its own client library is loaded: either takes a second on a small machine.
    """
    key = settings.centrifugo_api_key.get_secret_value() if settings.centrifugo_api_key else ""
    seconds = config.publish_timeout_seconds
    if settings.relay_publisher == "http":
        from relay.publisher_http import HttpPublisher

        return HttpPublisher(settings.centrifugo_api_url, key, timeout_seconds=seconds)
    from relay.publisher_grpc import GrpcPublisher

    return GrpcPublisher(settings.centrifugo_grpc_target, key, timeout_seconds=seconds)


def make_wakeup(settings: Settings, randomness: Randomness) -> WakeUpListener:
    """Redis when there is one, else the poll alone."""
    return RedisWakeUp(settings.redis_url.get_secret_value(), randomness) if settings.redis_url else PollOnly()


def process_name() -> str:
    """Who claims: host and process, for people who look at the table."""
    return f"{socket.gethostname()}:{os.getpid()}"[-CLAIMED_BY_MAX:]
