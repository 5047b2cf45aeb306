"""A proxy between one process and its database that loses COMMITs or their replies, delays, holds and cuts."""

from __future__ import annotations

import asyncio
from enum import Enum

from tests.support.commit_proxy import CommitProxy
from tests.support.tcp_proxy import Link


class Fate(Enum):
    """What becomes of one COMMIT."""

    PASSES = "passes"
    REPLY_LOST = "done, its reply and the connection are lost"
    LOST = "never arrives, and the connection is lost"


class FaultyProxy(CommitProxy):
    """Forwards everything; every fault is switched on from outside and ends with ``heal``."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__(upstream_port)
        self._fates: list[Fate] = []
        self._open = asyncio.Event()
        self._open.set()
        self._delay_seconds = 0.0
        self._bytes_per_second = 0.0

    def spoil_commits(self, fate: Fate, count: int) -> None:
        """The fate of the next COMMITs."""
        self._fates.extend([fate] * count)

    def cut(self) -> int:
        """Reset every connection; how many there were."""
        for link in self.links:
            link.abort()
        return len(self.links)

    def slow_down(self, delay_seconds: float, bytes_per_second: float) -> None:
        """Delay each packet or chunk; 0 bytes per second: no limit."""
        self._delay_seconds, self._bytes_per_second = delay_seconds, bytes_per_second

    def hold(self) -> None:
        """Let nothing through, and close nothing either, as a partition does."""
        self._open.clear()

    def release(self) -> None:
        """The end of ``hold``."""
        self._open.set()

    def heal(self) -> None:
        """Forward everything at once again."""
        self._fates.clear()
        self.release()
        self.slow_down(0.0, 0.0)

    async def commits(self, link: Link) -> bool:
        """See ``CommitProxy``."""
        fate = self._fates.pop(0) if self._fates else Fate.PASSES
        if fate is Fate.REPLY_LOST:
            self.mute(link)
        return fate is not Fate.LOST

    async def passes(self, size: int) -> None:
        """Wait as the present faults want for so many bytes."""
        rate = self._bytes_per_second
        seconds = self._delay_seconds + (size / rate if rate else 0.0)
        if seconds:
            await asyncio.sleep(seconds)
        await self._open.wait()
