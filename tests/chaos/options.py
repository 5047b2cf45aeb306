"""What one seed decides before anything runs: the shape of the load and the plan of faults; printed in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from tests.chaos.terms import TIMEOUT_SECONDS

FAULTLESS_ONE_IN = 10
FAULTS_PER_SECOND = 1.0
QUIET_SECONDS = 0.5
"""No fault begins before; the last ones begin this long before the end."""
MOST_DATABASE_KILLS = 2

DATABASE, CENTRIFUGO = "database", "centrifugo"
REPLICAS = ("serve-1", "serve-2")
GATEWAY = "gateway"
RELAYS = ("relay-1", "relay-2")
STEPPED_REPLICA = "serve-2"
SERVICES = (*REPLICAS, GATEWAY)
FEWEST_HOSTS = 10
WORKERS = tuple(f"worker {number} by executions" for number in range(1, 5))
ALL_WORKERS = "workers"
BEHIND_PROXIES = (*SERVICES, *RELAYS)


class Fault(StrEnum):
    """What the nemesis can do; names as printed and counted."""

    KILL_SERVICE = "kill -9 of a replica or the gateway"
    DRAIN_SERVICE = "SIGTERM and restart of a replica or the gateway"
    KILL_RELAY = "kill -9 of a relay"
    KILL_DATABASE = "kill -9 of the database"
    PAUSE = "SIGSTOP for a while"
    LOSE_COMMIT_REPLY = "COMMIT done, reply lost"
    LOSE_COMMIT = "COMMIT lost"
    CUT = "database connections cut"
    DELAY = "database connection delayed"
    THROTTLE = "database connection throttled"
    HOLD = "database connection held"
    KILL_SESSIONS = "database sessions killed"
    DEADLOCK = "rows locked in the opposite order"
    LOCK_WAIT = "rows locked for long"
    STEP_CLOCK = "clock of a replica stepped"
    CUT_STREAM = "stream cut within a frame"
    PAUSE_WORKER = "worker paused, beyond its timeout or nearly"
    STORM = "storm of heartbeats"


TARGETS: dict[Fault, Sequence[str]] = {
    Fault.KILL_SERVICE: SERVICES,
    Fault.DRAIN_SERVICE: SERVICES,
    Fault.KILL_RELAY: RELAYS,
    Fault.KILL_DATABASE: (DATABASE,),
    Fault.PAUSE: (*SERVICES, *RELAYS, DATABASE, CENTRIFUGO),
    Fault.LOSE_COMMIT_REPLY: BEHIND_PROXIES,
    Fault.LOSE_COMMIT: BEHIND_PROXIES,
    Fault.CUT: BEHIND_PROXIES,
    Fault.DELAY: BEHIND_PROXIES,
    Fault.THROTTLE: BEHIND_PROXIES,
    Fault.HOLD: BEHIND_PROXIES,
    Fault.KILL_SESSIONS: (DATABASE,),
    Fault.DEADLOCK: (DATABASE,),
    Fault.LOCK_WAIT: (DATABASE,),
    Fault.STEP_CLOCK: (STEPPED_REPLICA,),
    Fault.CUT_STREAM: REPLICAS,
    Fault.PAUSE_WORKER: WORKERS,
    Fault.STORM: (ALL_WORKERS,),
}
OF_WORKERS = frozenset({Fault.PAUSE_WORKER, Fault.STORM})
"""What workers may do: the service is not at fault, and nothing may be published twice."""
OF_STREAMS = OF_WORKERS | {Fault.CUT_STREAM}
"""Planned apart, so that the seeds of other faults keep their plans."""
RECOVERED_FROM = frozenset({Fault.KILL_SERVICE, Fault.DRAIN_SERVICE, Fault.KILL_DATABASE, Fault.PAUSE, Fault.HOLD})
PAUSES_OF_TIMEOUT = (0.97, 1.06, 1.2, 1.5, 1.8)
"""How long a worker pauses, in timeouts."""
SHORTEST_SILENCE_OF_TIMEOUT = 1.1


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault of the plan."""

    at: float
    """Seconds since the load began."""
    fault: Fault
    target: str
    seconds: float
    """How long it lasts; for a kill, until the restart begins."""
    figure: int
    """COMMITs to spoil, milliseconds of delay, bytes per second, seconds of a clock's step."""

    def __str__(self) -> str:
        return f"{self.at:6.2f} s  {self.fault.value}: {self.target}, {self.seconds:.2f} s, {self.figure}"


@dataclass(frozen=True, slots=True)
class Options:
    """One seed's load and faults."""

    seed: int
    seconds: float
    """How long the load and the faults go on."""
    coordinators: int
    """Of each tenant."""
    hosts: int
    """Worker processes, simulated by clients."""
    think_seconds: float
    wrong_rate: float
    """Share of deliberately wrong items among those sent."""
    hasty_rate: float
    """Share of calls whose deadline is too short."""
    enduring_rate: float
    """Share of executions that do not end by themselves."""
    order_rate: float
    """Share of a coordinator's turns in which it cancels, runs again, relabels, attaches, revokes or corrects."""
    plan: tuple[Planned, ...]

    @property
    def faultless(self) -> bool:
        """Whether this seed injects nothing."""
        return self.hasty_rate == 0.0 and all(planned.fault in OF_WORKERS for planned in self.plan)

    def describe(self) -> str:
        """Every option, one a line."""
        shape = (
            f"  seconds={self.seconds} coordinators={self.coordinators} hosts={self.hosts} "
            f"think_seconds={self.think_seconds} wrong_rate={self.wrong_rate} hasty_rate={self.hasty_rate} "
            f"enduring_rate={self.enduring_rate} order_rate={self.order_rate}"
        )
        return "\n".join([shape, *(f"  {planned}" for planned in self.plan)])


def options_of(seed: int, seconds: float) -> Options:
    """The options of a seed; the same at any time."""
    random, health = stream(seed, "options"), stream(seed, "health")
    faultless = random.randrange(FAULTLESS_ONE_IN) == 0
    options = Options(
        seed=seed,
        seconds=seconds,
        coordinators=random.randint(3, 6),
        hosts=random.randint(FEWEST_HOSTS, 24),
        think_seconds=random.choice((0.01, 0.03)),
        wrong_rate=random.choice((0.0, 0.1, 0.2)),
        hasty_rate=0.0 if faultless else random.choice((0.0, 0.02, 0.08)),
        enduring_rate=health.choice((0.4, 0.7)),
        order_rate=stream(seed, "orders").choice((0.0, 0.05, 0.15, 0.15)),
        plan=() if faultless else _plan(random, seconds),
    )

    more = _plan_of_streams(health, options)
    return replace(options, plan=tuple(sorted((*options.plan, *more), key=lambda planned: planned.at)))


def stream(seed: int, name: str) -> Random:
    """An own generator for each concern, so that a change to one leaves the choices of the others alone."""
    return Random(f"{seed}/{name}")


def _plan(random: Random, seconds: float) -> tuple[Planned, ...]:
    """A few kinds of fault at a time find more than all of them at once."""
    kinds = random.sample(tuple(fault for fault in Fault if fault not in OF_STREAMS), random.randint(4, 10))
    times = sorted(
        random.uniform(QUIET_SECONDS, seconds - QUIET_SECONDS) for _ in range(int(seconds * FAULTS_PER_SECOND))
    )
    plan: list[Planned] = []
    for at in times:
        fault = random.choice(kinds)
        kills = sum(planned.fault is Fault.KILL_DATABASE for planned in plan)
        if fault is Fault.KILL_DATABASE and kills >= MOST_DATABASE_KILLS:
            continue
        plan.append(Planned(at, fault, random.choice(TARGETS[fault]), _seconds(fault, random), _figure(fault, random)))
    return tuple(plan)


def _plan_of_streams(random: Random, options: Options) -> list[Planned]:
    """Silent workers in every run, some for so long that completion and STALE race; a storm after a recovery."""
    seconds = options.seconds
    plan = [_pause(random, seconds) for _ in range(random.randint(1, max(1, int(seconds / 2))))]
    recoveries = [planned.at + planned.seconds for planned in options.plan if planned.fault in RECOVERED_FROM]
    last = seconds - QUIET_SECONDS
    for _ in range(random.randint(0, 1)):
        at = min(last, random.choice(recoveries)) if recoveries else random.uniform(QUIET_SECONDS, last)
        plan.append(Planned(at, Fault.STORM, ALL_WORKERS, random.uniform(0.5, 2.0), 0))
    cuts = 0 if options.faultless else random.randint(0, 4)
    plan.extend(
        Planned(random.uniform(QUIET_SECONDS, last), Fault.CUT_STREAM, random.choice(REPLICAS), 0.0, 0)
        for _ in range(cuts)
    )
    return plan


def _pause(random: Random, seconds: float) -> Planned:
    """Early enough to be over with the load, in a run that is not too short for it."""
    at = random.uniform(QUIET_SECONDS, max(2 * QUIET_SECONDS, seconds - TIMEOUT_SECONDS - 2 * QUIET_SECONDS))
    longest = max(SHORTEST_SILENCE_OF_TIMEOUT * TIMEOUT_SECONDS, seconds - at)
    pause = min(longest, TIMEOUT_SECONDS * random.choice(PAUSES_OF_TIMEOUT))
    return Planned(at, Fault.PAUSE_WORKER, random.choice(WORKERS), pause, 0)


def _seconds(fault: Fault, random: Random) -> float:
    if fault is Fault.LOCK_WAIT:
        return random.choice((0.5, 2.0, 6.0))
    if fault is Fault.PAUSE:
        return random.choice((0.2, 1.0, 4.0))
    return random.uniform(0.0, 2.0)


def _figure(fault: Fault, random: Random) -> int:
    if fault is Fault.DELAY:
        return random.choice((10, 50, 200))
    if fault is Fault.THROTTLE:
        return random.choice((20_000, 100_000))
    if fault is Fault.STEP_CLOCK:
        return random.choice((-600, -20, 20, 600))
    return random.randint(1, 4)
