"""Building blocks of multi-row SQL: lists of placeholders, and rows cut into statements that the server will take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

MAX_ROWS = 1000
MAX_KEYS = 500
"""Keys per query: MariaDB turns IN lists of 1,000 and more into a join with a temporary table."""
MAX_BYTES = 4 * 1024 * 1024
"""Well below the smallest usual max_allowed_packet (16 MiB on MariaDB)."""
_BYTES_PER_VALUE = 8
_SIZED = frozenset({bytes, str})
_CACHED_TEXTS = 256

Parameters = tuple[Any, ...]
K = TypeVar("K")


def marks(count: int) -> str:
    """``count`` placeholders, separated by commas."""
    return ",".join(["%s"] * count)


@dataclass(frozen=True)
class MultiRow:
    """An INSERT of any number of rows, optionally with an ON DUPLICATE KEY UPDATE of some columns."""

    table: str
    columns: tuple[str, ...]
    updated: tuple[str, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()
    """Further columns whose SQL is the same in every row, so that no value has to be sent."""
    computed: tuple[tuple[str, str], ...] = ()
    """Further assignments of the update, as SQL."""

    @lru_cache(maxsize=_CACHED_TEXTS)  # noqa: B019 - instances are the few constants of hot_sql
    def text(self, rows: int, *, row_alias: bool = False) -> str:
        """The statement for so many rows; ``row_alias``: MySQL's name for the row that met a key (``Session``)."""
        names = ",".join((*self.columns, *(name for name, _ in self.fixed)))
        row = ",".join((*["%s"] * len(self.columns), *(sql for _, sql in self.fixed)))
        insert = f"INSERT INTO {self.table} ({names}) VALUES {','.join([f'({row})'] * rows)}"
        if not self.updated:
            return insert
        alias, given = (" AS given", "given.{}") if row_alias else ("", "VALUES({})")
        assignments = [f"{self.table}.{column}={given.format(column)}" for column in self.updated]
        assignments += [f"{self.table}.{column}={sql}" for column, sql in self.computed]
        return f"{insert}{alias} ON DUPLICATE KEY UPDATE {','.join(assignments)}"


def flatten(rows: Sequence[Parameters]) -> Parameters:
    """All values of all rows, in order."""
    return tuple(chain.from_iterable(rows))


def cut_rows(rows: Sequence[Parameters]) -> Iterator[Sequence[Parameters]]:
    """The rows in groups of at most MAX_ROWS and about MAX_BYTES; a row larger than that goes alone."""
    group: list[Parameters] = []
    size = 0
    for row in rows:
        row_size = _size(row)
        if group and (len(group) == MAX_ROWS or size + row_size > MAX_BYTES):
            yield group
            group, size = [], 0
        group.append(row)
        size += row_size
    if group:
        yield group


def cut_keys(keys: Sequence[K]) -> Iterator[Sequence[K]]:
    """The keys in groups of at most MAX_KEYS."""
    rest = iter(keys)
    while group := list(islice(rest, MAX_KEYS)):
        yield group


def _size(row: Parameters) -> int:
    """About the bytes of a row in the statement; escaping can double a value, and characters take up to four bytes."""
    values = sum([len(value) for value in row if value.__class__ in _SIZED])
    return len(row) * _BYTES_PER_VALUE + 2 * values
