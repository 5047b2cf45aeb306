"""Finding things in Markdown."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_INLINE = re.compile(r"`([^`\n]+)`")


def name_of(page: Path) -> str:
    """The page's path in the checkout."""
    return page.relative_to(ROOT).as_posix()


def fences(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return [text for found, text in _FENCE.findall(page.read_text()) if found == language]


def links(page: Path) -> list[str]:
    """Targets of links inside the checkout."""
    return [target for target in _LINK.findall(page.read_text()) if "://" not in target]


def inline_code(page: Path) -> list[str]:
    """What stands between single backticks outside of fences."""
    return _INLINE.findall(_FENCE.sub("", page.read_text()))
