"""Every rendered page by its path below ``docs/``."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.docs import blocks, one_event, reference

DOCS = Path(__file__).resolve().parents[2] / "docs"
REMEDY = "python -m scripts.docs --write"


@dataclass(frozen=True)
class Page:
    """A page as the code wants it."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The path as people say it."""
        return f"docs/{self.path.relative_to(DOCS).as_posix()}"


def rendered() -> list[Page]:
    """All pages. Raises ValueError when a page lacks a block or has an unknown one."""
    page = DOCS / "one-event.md"
    story = Page(page, blocks.filled(page.read_text(), asyncio.run(one_event.rendered_blocks())))
    return [story, *(Page(DOCS / "reference" / name, text) for name, text in reference.pages().items())]


def outdated() -> list[Page]:
    """The pages whose file says something else, or does not exist."""
    return [page for page in rendered() if not page.path.exists() or page.path.read_text() != page.text]


def write(pages: Sequence[Page]) -> None:
    """Replace their files."""
    for page in pages:
        page.path.parent.mkdir(parents=True, exist_ok=True)
        page.path.write_text(page.text)
