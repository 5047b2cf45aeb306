"""Whether traffic should come here: the database is asked, the gRPC health service is told."""

from __future__ import annotations

import logging

from taskstatus.adapters.mysql.engine import Database
from taskstatus.adapters.mysql.server_check import check_server
from taskstatus.application.ports_store import StoreUnavailableError
from taskstatus.entrypoints.grpc.server import GrpcServer

logger = logging.getLogger(__name__)


class GrpcHealth:
    """Where readiness is announced: the health service of a server that is made later than the probe."""

    def __init__(self) -> None:
        self.server: GrpcServer | None = None
        self._serving = False

    async def announce(self, ready: bool) -> None:
        """Keep the state, and pass it on when the server exists."""
        self._serving = ready
        if self.server is not None:
            await self.server.set_serving(ready)

    async def attach(self, server: GrpcServer) -> None:
        """The server exists now."""
        self.server = server
        await server.set_serving(self._serving)


class Announce:
    """Tells a health service, where there is one."""

    def __init__(self, health: GrpcHealth | None) -> None:
        self._health = health

    async def __call__(self, ready: bool) -> None:
        if self._health is not None:
            await self._health.announce(ready)


class DatabaseProbe:
    """Whether the database answers and is fit to be written to; its warnings are logged once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reported = False

    async def __call__(self) -> bool:
        try:
            report = await check_server(self._database.writer)
        except StoreUnavailableError as error:
            logger.warning("the database cannot be reached: %s", error)
            return False
        if not self._reported:
            self._reported = True
            logger.info("database ready", extra={"product": report.product, "version": report.version})
            for warning in report.warnings:
                logger.warning("database: %s", warning)
        return True
