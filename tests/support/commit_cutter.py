"""A proxy before a database that can lose the reply of a COMMIT, or hold COMMITs back, on command."""

from __future__ import annotations

import asyncio

from tests.support.commit_proxy import CommitProxy
from tests.support.tcp_proxy import Link


class CommitCutter(CommitProxy):
    """Forwards everything; the faults are switched on per commit."""

    def __init__(self, upstream_port: int) -> None:
        super().__init__(upstream_port)
        self._cuts_wanted = 0
        self._open = asyncio.Event()
        self._open.set()
        self._held = asyncio.Event()
        self.replies_cut = 0

    def cut_next_commit_reply(self) -> None:
        """The next COMMIT reaches the database; its reply, and the connection, are lost."""
        self._cuts_wanted += 1

    def hold_commits(self) -> None:
        """COMMITs wait here until ``release_commits``."""
        self._open.clear()
        self._held.clear()

    def release_commits(self) -> None:
        """Let the held COMMITs go on."""
        self._open.set()

    async def commit_held(self) -> None:
        """Return once a COMMIT is waiting."""
        async with asyncio.timeout(10):
            await self._held.wait()

    async def commits(self, link: Link) -> bool:
        """See ``CommitProxy``."""
        if not self._open.is_set():
            self._held.set()
            await self._open.wait()
        if self._cuts_wanted:
            self._cuts_wanted -= 1
            self.mute(link)
        return True

    def reply_lost(self) -> None:
        """See ``CommitProxy``."""
        self.replies_cut += 1
