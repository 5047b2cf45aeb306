"""CPU time by process and of the whole machine: who paid, and how much work of others disturbed a round."""

from __future__ import annotations

import os
from collections.abc import Mapping

import psutil

SELF = "client"
FOREIGN = "foreign"


class CpuMeter:
    """Seconds of CPU since :meth:`start`, by name; not for concurrent use."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self._processes[SELF] = psutil.Process(os.getpid())
        self._began: dict[str, float] = {}
        self._machine_began = 0.0

    def start(self) -> None:
        """Begin the period."""
        self._began = self._now()
        self._machine_began = _machine()

    def read(self) -> dict[str, float]:
        """CPU seconds of each process, and of all others together as ``foreign``."""
        used = {name: seconds - self._began[name] for name, seconds in self._now().items()}
        return used | {FOREIGN: max(0.0, _machine() - self._machine_began - sum(used.values()))}

    def _now(self) -> dict[str, float]:
        times = {name: process.cpu_times() for name, process in self._processes.items()}
        return {name: time.user + time.system for name, time in times.items()}


def _machine() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))
