"""Wires health: the parts that every process has, and the loop that only ``taskstatus serve`` starts."""

from __future__ import annotations

from dataclasses import dataclass

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.mysql.health_table import HealthTable
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.stuck_table import StuckTable
from taskstatus.application.health import HealthChanges
from taskstatus.application.ports_clock import Clock, Randomness
from taskstatus.application.ports_health import HealthObserver, OverdueLeases, StuckWork, WorkerProbe
from taskstatus.application.ports_runtime import EventWriter
from taskstatus.domain.health_changes import HealthTerms
from taskstatus.runtime.health_reconciler import HealthReconciler, ReconcilerConfig
from taskstatus.runtime.recoveries import Recoveries, RecoveriesConfig
from taskstatus.settings import Settings


@dataclass(frozen=True, slots=True)
class HealthParts:
    """What watches over executions; nothing is started yet."""

    recoveries: Recoveries
    """Told by heartbeats; runs wherever heartbeats are taken."""
    stuck: StuckWork
    leases: OverdueLeases
    changes: HealthChanges

    def reconciler(
        self,
        settings: Settings,
        clock: Clock,
        randomness: Randomness,
        observer: HealthObserver,
        probe: WorkerProbe | None = None,
    ) -> HealthReconciler:
        """What finds silence, and asks by ``probe`` before it is believed (H-6); the service process only starts it."""
        return HealthReconciler(
            self.leases,
            self.changes,
            self.stuck,
            clock,
            randomness,
            observer,
            ReconcilerConfig(batch=settings.health_batch, grace_seconds=settings.health_grace_seconds),
            probe if settings.health_second_check else None,
        )


def health_parts(
    settings: Settings, reader: MySqlTaskReader, writer: EventWriter, clock: Clock, observer: HealthObserver
) -> HealthParts:
    """The parts over one database and one process's lanes."""
    terms = HealthTerms(
        lost_after_seconds=settings.worker_lost_after_seconds, stuck_after_seconds=settings.stale_stuck_after_seconds
    )
    leases = HealthTable(reader)
    changes = HealthChanges(writer, canonicalize, clock, observer, terms)
    recoveries = Recoveries(leases, changes, RecoveriesConfig(batch=settings.health_batch))
    return HealthParts(recoveries, StuckTable(reader), leases, changes)
