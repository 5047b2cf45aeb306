"""Plans of the statements on definitions: by index, without a scan (L-5)."""

from __future__ import annotations

from datetime import datetime

import pytest

from taskstatus.adapters.definitions.catalogue import Catalogue
from taskstatus.adapters.mysql.definition_table import TABLES, Table
from taskstatus.adapters.mysql.engine import Database
from taskstatus.application.ports_definitions import DefinitionKey
from tests.support.clients import SCOPE, unique
from tests.support.definitions import table_of
from tests.unit.definitions.building import operation, statuses, stored

from .test_health_sql import explain

KEY = DefinitionKey("DOCUMENT.PARSE", "DOCUMENT_PROCESS", 1)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_l5_definitions_are_read_by_index(database: Database, table: Table) -> None:
    tenant, items = unique("t"), range(1, 61)
    wanted = stored(*map(operation, items), *map(statuses, items))
    done = await Catalogue(table_of(database)).publish_all(tenant, SCOPE, wanted, "test", dry_run=False)
    assert done.published == 2 * len(items)
    scope, key = (tenant, SCOPE), table.key_values(tenant, SCOPE, KEY)
    plans = {
        "changes": (table.changes, (datetime(2026, 1, 1),), f"{table.name}_changed"),
        "versions": (table.versions(50), tuple(value for n in range(1, 51) for value in (*key[:-1], n)), "PRIMARY"),
        "of_scope": (table.of_scope, scope, "PRIMARY"),
        "locked_keys": (table.locked_keys, scope, "PRIMARY"),
        "retire": (table.retire, (datetime(2026, 1, 1), datetime(2026, 1, 1), *key), "PRIMARY"),
    }
    for name, (statement, parameters, index) in plans.items():
        for plan in await explain(database, statement, parameters):
            assert plan["type"] in {"range", "ref", "const", None}, (name, plan)
            assert plan["key"] in {index, None}, (name, plan)
            if name == "changes":
                assert "Using index" in plan["Extra"], plan
