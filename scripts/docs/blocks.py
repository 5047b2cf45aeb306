"""Marked blocks of a hand-written page: ``<!-- block: NAME -->`` to ``<!-- /block -->``, replaced as a whole."""

import re
from collections.abc import Mapping

_BLOCK = re.compile(r"<!-- block: (?P<name>[a-z-]+) -->\n.*?<!-- /block -->", re.DOTALL)


def filled(page: str, contents: Mapping[str, str]) -> str:
    """The page with every block's content. Raises ValueError unless the page has just the blocks of ``contents``."""
    names = [match["name"] for match in _BLOCK.finditer(page)]
    if sorted(names) != sorted(contents):
        raise ValueError(f"the page has the blocks {sorted(names)}, rendered are {sorted(contents)}")
    return _BLOCK.sub(lambda match: _block(match["name"], contents[match["name"]]), page)


def _block(name: str, content: str) -> str:
    return f"<!-- block: {name} -->\n{content}\n<!-- /block -->"
