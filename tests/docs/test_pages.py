"""Rendered pages are what the code renders; what pages link to and name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.docs.pages import REMEDY, rendered
from scripts.stack.cli import COMMANDS
from taskstatus.cli import app
from tests.docs.support import DOCS, PAGES, ROOT, inline_code, links, name_of

_PATH = re.compile(r"(?:taskstatus|relay|gateway_rest|scripts|proto|deploy|tests|bench)/[\w./-]+\.[a-z]+\Z")
_COMMAND = re.compile(r"taskstatus ([a-z][a-z-]*)\b")
DECISION_LINES = 40


def test_rendered_pages_are_what_the_code_renders() -> None:
    outdated = [page.name for page in rendered() if not page.path.exists() or page.path.read_text() != page.text]
    assert not outdated, f"to mend it: {REMEDY}"


def test_reference_has_no_page_that_nothing_renders() -> None:
    known = {page.path for page in rendered()}
    assert [page.name for page in (DOCS / "reference").glob("*.md") if page not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_named_exist(page: Path) -> None:
    named = [text for text in inline_code(page) if _PATH.match(text)]
    assert [text for text in named if not (ROOT / text).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_named_exist(page: Path) -> None:
    commands = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    groups = {group.name for group in app.registered_groups}
    named = [name for text in inline_code(page) for name in _COMMAND.findall(text) if text.startswith("taskstatus ")]
    assert [name for name in named if name not in commands | groups] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_named_exist(page: Path) -> None:
    named = re.findall(r"`make ([a-z]+)", page.read_text()) + re.findall(
        r"^make ([a-z]+)", page.read_text(), re.MULTILINE
    )
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [name for name in named if name not in targets] == []
    assert {"up", "demo", "test"} <= COMMANDS.keys()


@pytest.mark.parametrize("page", sorted((DOCS / "decisions").glob("*.md")), ids=name_of)
def test_decisions_are_short(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= DECISION_LINES
