"""Tables, fences, and JSON and SQL in a form that is read, not scrolled."""

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

WIDTH = 110
"""Of JSON and SQL."""
PROSE_WIDTH = 120

_ITEM = r"[\w.%'-]+(?:=VALUES\(\w+\)|=\w+\+1)?(?![\w('])"
_LONG_LIST = re.compile(rf"((?:{_ITEM},){{3}})({_ITEM}(?:,{_ITEM}){{4,}})")
_CLAUSE = re.compile(r" (?=FROM |WHERE |VALUES |ORDER BY |SET |ON DUPLICATE KEY )")


def page(title: str, *parts: str) -> str:
    """A page of headings, paragraphs and tables."""
    return "\n\n".join((f"# {title}", *parts))


def prose(text: str) -> str:
    """A paragraph, filled anew."""
    return textwrap.fill(" ".join(text.split()), PROSE_WIDTH, break_long_words=False, break_on_hyphens=False)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; a pipe inside a cell is escaped."""
    lines: list[Sequence[object]] = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def code(value: object) -> str:
    """Inline code; nothing for an empty value."""
    return f"`{value}`" if str(value) else ""


def codes(values: Iterable[object]) -> str:
    """Several, separated by commas."""
    return ", ".join(map(code, values))


def fence(text: str, language: str = "") -> str:
    """A fenced block."""
    return f"```{language}\n{text}\n```"


def json_text(value: Any, depth: int = 0) -> str:
    """JSON whose lines are filled up to WIDTH; an object or list that does not fit is broken up."""
    short = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(short) + 2 * depth <= WIDTH:
        return short
    if isinstance(value, dict):
        members = [f"{json.dumps(name)}: {json_text(member, depth + 1)}" for name, member in value.items()]
    else:
        members = [json_text(member, depth + 1) for member in value]
    pad = "  " * (depth + 1)
    body = f",\n{pad}".join(_filled(members, WIDTH - len(pad)))
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n{pad}{body}\n{'  ' * depth}{end}"


def _filled(members: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for member in members:
        fits = lines and "\n" not in lines[-1] + member and len(lines[-1]) + 2 + len(member) <= width
        if fits:
            lines[-1] = f"{lines[-1]}, {member}"
        else:
            lines.append(member)
    return lines


def sql_text(statement: str) -> str:
    """A statement with lines for each clause, and long lists of columns or placeholders cut after three."""
    cut = _LONG_LIST.sub(lambda match: f"{match[1]} …{match[2].count(',') + 1} more…", " ".join(statement.split()))
    spaced = re.sub(r",(?=\S)", ", ", cut)
    lines = [textwrap.wrap(line, WIDTH, break_long_words=False) for line in _CLAUSE.sub("\n", spaced).split("\n")]
    first, *rest = ["\n    ".join(parts) for parts in lines]
    return "\n  ".join([first, *rest]) + ";"


def hex_text(raw: bytes, width: int = 32) -> str:
    """Hex digits, ``width`` bytes a line."""
    return "\n".join(raw[at : at + width].hex() for at in range(0, len(raw), width))
