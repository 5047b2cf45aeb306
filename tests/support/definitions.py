"""Publishing definitions into a database, as the command line does."""

from __future__ import annotations

from typing import Any

from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.definitions.catalogue import Catalogue
from taskstatus.adapters.mysql.definition_table import DefinitionTable
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.application.ports_definitions import Publication
from tests.support.clients import SCOPE, TENANT


def table_of(database: Database) -> DefinitionTable:
    """The table of definitions in a database."""
    store = MySqlTaskStore(database.writer, SystemClock(), SystemRandomness())
    return DefinitionTable(store, MySqlTaskReader(database.reader))


async def publish(
    url: str, *operations: dict[str, Any], statuses: tuple[dict[str, Any], ...] = (), scope: str = SCOPE
) -> Publication:
    """Publish documents in the form of the file."""
    database = open_database(url)
    try:
        catalogue = Catalogue(table_of(database))
        document = {"operations": list(operations), "statuses": list(statuses)}
        return await catalogue.publish(TENANT, scope, document, "test", dry_run=False)
    finally:
        await database.dispose()
