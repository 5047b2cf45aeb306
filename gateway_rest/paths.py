"""Path templates of ``google.api.http``: literals, ``{field}`` for one segment, and a ``:verb`` at the end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

_VARIABLE = re.compile(r"\{([a-z][a-z0-9_.]*)(?:=\*)?\}")
_LITERAL = re.compile(r"[A-Za-z0-9._~/:-]*")


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """One template. A value holds no ``/`` and no ``:`` unless percent-encoded: those belong to the template."""

    text: str
    """As in the proto."""
    variables: tuple[str, ...]
    """Field paths in the order of their places."""
    pattern: re.Pattern[str]

    @property
    def shape(self) -> str:
        """The template without its variables' names: two of the same shape match the same paths."""
        return _VARIABLE.sub("{}", self.text)

    @property
    def segments(self) -> int:
        """How many segments a matching path has."""
        return self.text.count("/")

    def match(self, raw_path: str) -> tuple[str, ...] | None:
        """The values as they stand in the path, still percent-encoded; None when the path does not match."""
        found = self.pattern.fullmatch(raw_path)
        return None if found is None else found.groups()


def parse_template(text: str) -> PathTemplate:
    """Raises ValueError for what this adapter does not serve: wildcards, values of several segments, odd characters."""
    pattern, position, variables = "", 0, []
    for found in _VARIABLE.finditer(text):
        pattern += _literal(text, text[position : found.start()]) + "([^/:]+)"
        variables.append(found.group(1))
        position = found.end()
    pattern += _literal(text, text[position:])
    if not text.startswith("/") or len(set(variables)) != len(variables):
        raise ValueError(f"unsupported path template {text!r}")
    return PathTemplate(text, tuple(variables), re.compile(pattern))


def percent_decoded(value: str) -> str:
    """A path value as text; UnicodeDecodeError when its bytes are not UTF-8."""
    return unquote_to_bytes(value.encode("latin-1")).decode("utf-8")


def _literal(template: str, part: str) -> str:
    if not _LITERAL.fullmatch(part):
        raise ValueError(f"unsupported path template {template!r}")
    return re.escape(part)
