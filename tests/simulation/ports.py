"""The small ports of a simulated process: clocks, randomness, credentials, shard map, observer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from taskstatus.adapters.memory.definitions import MemoryRegistry
from taskstatus.application.identity import ExecutionBinding, ExecutionGrant, HandleClaim
from taskstatus.application.ports_health import StuckCause
from taskstatus.domain.definitions import DataSchema, JsonObject
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.events import EXECUTION_EVENTS
from taskstatus.domain.health_changes import HealthSign
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Verdict
from tests.simulation.faults import START_UNIX_SECONDS
from tests.simulation.loop import SimulatedLoop

T = TypeVar("T")


class ProcessClock:
    """Port ``Clock``: each process has its own monotonic start and its own error of the wall clock."""

    def __init__(self, loop: SimulatedLoop, offset_seconds: float) -> None:
        self._loop = loop
        self._offset_seconds = offset_seconds

    def unix_seconds(self) -> float:
        """The process's wall clock."""
        return START_UNIX_SECONDS + self._loop.time() + self._offset_seconds / 1_000

    def monotonic_seconds(self) -> float:
        """The process's monotonic clock."""
        return self._offset_seconds + self._loop.time()


class SeededRandomness:
    """Port ``Randomness`` from a generator of the seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def bits(self, count: int) -> int:
        """See the port."""
        return self._random.getrandbits(count)

    def fraction(self) -> float:
        """See the port."""
        return self._random.random()


@dataclass(slots=True)
class Credentials:
    """Port ``ExecutionCredentials``: genuine is what was issued here, by any replica."""

    now: ProcessClock
    token_seconds: float
    tokens: dict[str, ExecutionGrant] = field(default_factory=dict)
    handles: dict[str, HandleClaim] = field(default_factory=dict)

    def issue_token(self, binding: ExecutionBinding, generation: int) -> tuple[str, float]:
        """See the port."""
        token = f"token-{len(self.tokens) + 1}"
        expires_at = self.now.unix_seconds() + self.token_seconds
        self.tokens[token] = ExecutionGrant(binding, EXECUTION_EVENTS, generation, expires_at)
        return token, expires_at

    def make_handle(self, binding: ExecutionBinding, generation: int) -> str:
        """See the port."""
        handle = f"exh_{binding.execution_id.hex()}.{generation}"
        self.handles[handle] = HandleClaim(binding.execution_id, generation)
        return handle

    def open_token(self, token: str) -> ExecutionGrant:
        """See the port."""
        return _genuine(self.tokens, token)

    def open_handle(self, handle: str) -> HandleClaim:
        """See the port."""
        return _genuine(self.handles, handle)


def _genuine(issued: dict[str, T], credential: str) -> T:
    if credential not in issued:
        raise RefusedError(Reason.UNAUTHENTICATED, "the credential is forged")
    return issued[credential]


class OneShard:
    """Port ``ShardMap`` of an undivided store."""

    def shard_of(self, bucket: int) -> str:
        """See the port."""
        return "0"


class GenericDefinitions(MemoryRegistry):
    """Ports ``DefinitionRegistry`` and ``SchemaValidator``: nothing is published, and every value fits its schema."""

    def violation(self, schema: DataSchema, value: JsonObject) -> str | None:
        """See the port."""
        return None


class SilentObserver:
    """Ports ``ServiceObserver``, ``HeartbeatObserver``, ``HealthObserver``, ``WorkflowObserver``, keeping nothing."""

    def event_judged(self, transport: str, verdict: Verdict) -> None:
        """See the port."""

    def batch_committed(self, commands: int, commit_seconds: float) -> None:
        """See the port."""

    def rows_locked(self, seconds: float) -> None:
        """See the port."""

    def lane_depth(self, queued: int) -> None:
        """See the port."""

    def heartbeats_judged(self, outcome: str, beats: int) -> None:
        """See the port."""

    def heartbeats_pending(self, executions: int) -> None:
        """See the port."""

    def heartbeats_lost(self, beats: int) -> None:
        """See the port."""

    def health_judged(self, sign: HealthSign, outcome: str) -> None:
        """See the port."""

    def health_scanned(self, candidates: int, held_back: int) -> None:
        """See the port."""

    def stuck_counted(self, counts: Mapping[StuckCause, int]) -> None:
        """See the port."""

    def projector_lag(self, seconds: float) -> None:
        """See the port."""

    def workflows_projected(self, outcome: str, count: int) -> None:
        """See the port."""
