"""What one seed decides before anything runs; printed in full, so that a failure can be read without a debugger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from random import Random

from relay.config import RelayConfig
from taskstatus.runtime.health_reconciler import ReconcilerConfig
from taskstatus.runtime.heartbeat_coalescer import CoalescerConfig
from taskstatus.runtime.lanes import LaneConfig
from tests.simulation.loop import Ordering


class Fault(StrEnum):
    """Where the simulation can hurt; names as printed and counted."""

    COMMIT_DONE_REPLY_LOST = "commit done, reply lost"
    COMMIT_UNDONE_REPLY_LOST = "commit not done, reply lost"
    DEADLOCK = "deadlock"
    STORE_DOWN = "store unavailable for a while"
    POISON_EVENT = "rows that the database refuses"
    CALLER_CANCELLED = "caller cancelled"
    REPLICA_KILLED = "replica killed"
    CLOCK_STEPPED = "database clock stepped back"
    RELAY_KILLED = "relay killed"
    RELAY_PAUSED = "relay paused beyond its lease"
    OUTBOX_LOST = "outbox call failed, done or not"
    VIEW_UNREADABLE = "a task's rows cannot be decoded by the relay"
    PUBLISHER_DOWN = "publisher outage for a while"
    PUBLISH_LOST = "publish request failed, taken or not"
    ITEM_RETRYABLE = "one message refused for now"
    ITEM_PERMANENT = "one message refused for good"
    ITEM_REPLY_LOST = "one message taken, its reply lost"
    HINT_LOST = "wake-up hint lost"
    LEASES_LOST = "lease read or written, reply lost, or not at all"


WINDOWS = (Fault.STORE_DOWN, Fault.PUBLISHER_DOWN, Fault.REPLICA_KILLED, Fault.CLOCK_STEPPED)
"""Faults of the whole world, begun by the nemesis; all others happen at one call."""

INTERVAL_SECONDS, TIMEOUT_SECONDS = 1, 4
"""Of every execution; short, so that silence fits into a run."""
FAULTLESS_ONE_IN = 10
LEASES_SHARE = 0.3
"""Of the seeds with faults."""


@dataclass(frozen=True, slots=True)
class Options:
    """One schedule's shape."""

    seed: int
    ordering: Ordering
    tasks: int
    steps_per_task: int
    replicas: int
    relays: int
    hosts: int
    """Worker processes."""
    turns: int
    """Calls that each client makes before it only settles what is open."""
    think_seconds: float
    latency_seconds: float
    wrong_rate: float
    """Share of deliberately wrong items among those sent."""
    fault_rates: Mapping[Fault, float]
    lanes: LaneConfig
    relay: RelayConfig
    enduring_rate: float
    """Share of executions that do not end by themselves."""
    ends_tasks: bool
    """Whether coordinators end steps and tasks."""
    silence_rate: float
    """How often a worker process stands still for a while, instead of beating."""
    lost_after_seconds: int
    coalescer: CoalescerConfig
    reconciler: ReconcilerConfig
    order_rate: float
    """Share of a coordinator's turns in which it cancels, runs again, relabels, attaches, revokes or corrects."""

    @property
    def faultless(self) -> bool:
        """Whether this seed injects nothing."""
        return not self.fault_rates

    def describe(self) -> str:
        """Every option, one a line."""
        lines = [
            f"  {field.name} = {getattr(self, field.name)}" for field in fields(self) if field.name != "fault_rates"
        ]
        rates = [f"    {fault.value}: {rate:.3f}" for fault, rate in self.fault_rates.items()]
        return "\n".join([*lines, "  fault_rates:", *(rates or ["    none"])])


def options_of(seed: int) -> Options:
    """The options of a seed; the same at any time."""
    random, health = stream(seed, "options"), stream(seed, "health")
    return Options(
        seed=seed,
        ordering=random.choice(tuple(Ordering)),
        tasks=random.randint(2, 3),
        steps_per_task=random.randint(1, 3),
        replicas=random.randint(1, 2),
        relays=random.randint(1, 2),
        hosts=random.randint(1, 3),
        turns=random.choice((3, 5, 8)),
        think_seconds=random.choice((0.0, 0.02, 0.2)),
        latency_seconds=random.choice((0.0, 0.002, 0.02)),
        wrong_rate=random.choice((0.0, 0.15, 0.3, 0.3)),
        fault_rates=_fault_rates(random, health),
        lanes=_lanes(random),
        relay=_relay(random),
        enduring_rate=health.choice((0.0, 0.4, 0.8)),
        ends_tasks=health.randrange(3) > 0,
        silence_rate=health.choice((0.0, 0.15, 0.3, 0.3)),
        lost_after_seconds=health.choice((3, 30)),
        coalescer=_coalescer(health),
        reconciler=_reconciler(health),
        order_rate=stream(seed, "orders").choice((0.0, 0.15, 0.3, 0.3)),
    )


def stream(seed: int, name: str) -> Random:
    """An own generator for each concern, so that a change to one leaves the choices of the others alone."""
    return Random(f"{seed}/{name}")


def _fault_rates(random: Random, health: Random) -> dict[Fault, float]:
    """A few kinds of fault at a time find more than all of them at once."""
    if random.randrange(FAULTLESS_ONE_IN) == 0:
        return {}
    others = [fault for fault in Fault if fault is not Fault.LEASES_LOST]
    kinds = [fault for fault in others if random.random() < random.choice((0.15, 0.4, 0.8))]
    rates = {fault: random.choice((0.02, 0.08, 0.25)) for fault in kinds}
    return rates | ({Fault.LEASES_LOST: health.choice((0.02, 0.1))} if health.random() < LEASES_SHARE else {})


def _lanes(random: Random) -> LaneConfig:
    return LaneConfig(
        lanes_per_shard=random.choice((1, 2, 4)),
        max_batch_commands=random.choice((1, 2, 5, 100)),
        max_batch_bytes=random.choice((1, 3_000, 1024 * 1024)),
        max_queued_commands=random.choice((3, 8, 2_000, 2_000)),
    )


def _coalescer(random: Random) -> CoalescerConfig:
    return CoalescerConfig(
        persist_every_seconds=random.choice((0.2, 1.0)),
        flush_executions=random.choice((2, 20_000)),
        soon_seconds=0.05,
        ask_again_seconds=0.2,
        first_pause_seconds=0.05,
        longest_pause_seconds=0.4,
    )


def _reconciler(random: Random) -> ReconcilerConfig:
    return ReconcilerConfig(
        batch=random.choice((1, 2, 100)),
        grace_seconds=random.choice((0.0, 1.0)),
        busy_pause_seconds=0.05,
        idle_pause_seconds=0.3,
    )


def _relay(random: Random) -> RelayConfig:
    return RelayConfig(
        batch_rows=random.choice((2, 5, 20, 100)),
        lease_seconds=random.choice((1.5, 4.0)),
        publish_timeout_seconds=0.5,
        failure_budget=random.choice((1, 3, 20)),
        backoff_first_seconds=0.05,
        backoff_most_seconds=1.0,
        poll_busy_seconds=0.02,
        poll_idle_seconds=random.choice((0.5, 2.0)),
        outage_first_seconds=0.05,
        outage_most_seconds=0.5,
    )
