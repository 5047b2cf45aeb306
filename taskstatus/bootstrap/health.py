"""Wires health: the parts that every process has, and the loop that only ``taskstatus serve`` starts."""

from __future__ import annotations

from dataclasses import dataclass

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.mysql.health_table import HealthTable
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.stuck_table import StuckTable
from taskstatus.application.health import HealthChanges
from taskstatus.application.ports_clock import Clock, Randomness
from taskstatus.application.ports_health import HealthObserver, StuckWork
from taskstatus.application.ports_runtime import EventWriter
from taskstatus.domain.health_changes import HealthTerms
from taskstatus.runtime.health_reconciler import HealthReconciler, ReconcilerConfig
from taskstatus.runtime.recoveries import Recoveries, RecoveriesConfig
from taskstatus.settings import Settings


@dataclass(frozen=True, slots=True)
class HealthParts:
    """What watches over executions."""

    recoveries: Recoveries
    """Told by heartbeats; runs wherever heartbeats are taken."""
    reconciler: HealthReconciler
    """Finds silence; started by the service process only."""
    stuck: StuckWork


def health_parts(
    settings: Settings,
    reader: MySqlTaskReader,
    writer: EventWriter,
    clock: Clock,
    randomness: Randomness,
    observer: HealthObserver,
) -> HealthParts:
    """The parts over one database and one process's lanes; nothing is started yet."""
    terms = HealthTerms(
        lost_after_seconds=settings.worker_lost_after_seconds, stuck_after_seconds=settings.stale_stuck_after_seconds
    )
    leases, stuck = HealthTable(reader), StuckTable(reader)
    changes = HealthChanges(writer, canonicalize, clock, observer, terms)
    config = ReconcilerConfig(batch=settings.health_batch, grace_seconds=settings.health_grace_seconds)
    return HealthParts(
        recoveries=Recoveries(leases, changes, RecoveriesConfig(batch=settings.health_batch)),
        reconciler=HealthReconciler(leases, changes, stuck, clock, randomness, observer, config),
        stuck=stuck,
    )
