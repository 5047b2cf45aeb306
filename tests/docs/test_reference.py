"""What the reference pages take from tables of their own is complete."""

from __future__ import annotations

import re

import pytest

from scripts.docs.reference import TABLES_OF_GROUP
from scripts.docs.reference_events import WRITTEN_BY
from scripts.docs.reference_settings import MEANINGS, SECRETS_BY_FILE, STACK
from taskstatus.adapters.mysql.hot_sql import HOT_STATEMENTS
from taskstatus.application.ports_store import LOCK_ORDER
from taskstatus.settings import PREFIX, Settings, SettingsError, load_settings
from tests.docs.support import ROOT

SOURCES = ("scripts/stack", "scripts/python", "taskstatus", "relay", "gateway_rest", "compose.yaml", "deploy")
DEMO_PREFIX = "TASKSTATUS_DEMO_"
"""What the demo hands to its own children."""


def test_every_setting_has_a_meaning() -> None:
    assert MEANINGS.keys() == Settings.model_fields.keys()


def test_every_variable_that_the_sources_name_is_told() -> None:
    told = {f"{PREFIX}{name.upper()}" for name in MEANINGS} | STACK.keys()
    told |= {f"{PREFIX}{name.upper()}_FILE" for name in SECRETS_BY_FILE}
    named = {name for text in _texts() for name in re.findall(r"\bTASKSTATUS_[A-Z_]*[A-Z]\b", text)}
    assert sorted(name for name in named - told if not name.startswith(DEMO_PREFIX)) == []


@pytest.mark.parametrize("name", SECRETS_BY_FILE)
def test_secrets_told_to_come_by_file_do(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name.upper()}_FILE: cannot read"):
        load_settings({f"{PREFIX}{name.upper()}_FILE": "/nonexistent/secret"})


def test_events_told_to_be_written_are_those_that_the_domain_makes() -> None:
    sources = [path for path in (ROOT / "taskstatus" / "domain").glob("*.py") if path.name != "events.py"]
    named = {name for path in sources for name in re.findall(r"EventType\.([A-Z_]+)", path.read_text())}
    own = {event for event in WRITTEN_BY if event.value in named}
    assert own == WRITTEN_BY.keys()


def test_lock_order_names_every_table_that_is_written() -> None:
    assert tuple(TABLES_OF_GROUP) == LOCK_ORDER
    known = {table for tables in TABLES_OF_GROUP.values() for table in tables}
    written = {
        name for make in HOT_STATEMENTS.values() for name in re.findall(r"^(?:INSERT INTO|UPDATE) (\w+)", make(1))
    }
    assert written == known


def _texts() -> list[str]:
    suffixes = {".py", ".yaml", ""}
    paths = [ROOT / source for source in SOURCES]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    return [file.read_text() for file in files if file.is_file() and file.suffix in suffixes]
