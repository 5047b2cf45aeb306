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
    computed_column: str = ""
    """One more column, the same in every row: ``computed_insert``, and ``computed_update`` when the row exists."""
    computed_insert: str = ""
    computed_update: str = ""

    @lru_cache(maxsize=_CACHED_TEXTS)  # noqa: B019 - instances are the few constants of hot_sql
    def text(self, rows: int) -> str:
        """The statement for so many rows."""
        names, row = ",".join(self.columns), marks(len(self.columns))
        if self.computed_column:
            names, row = f"{names},{self.computed_column}", f"{row},{self.computed_insert}"
        insert = f"INSERT INTO {self.table} ({names}) VALUES {','.join([f'({row})'] * rows)}"
        return f"{insert} ON DUPLICATE KEY UPDATE {self._assignments()}" if self.updated else insert

    def _assignments(self) -> str:
        # VALUES() works on both products; MySQL's alias form does not exist on MariaDB.
        assignments = [f"{column}=VALUES({column})" for column in self.updated]
        if self.computed_update:
            assignments.append(f"{self.computed_column}={self.computed_update}")
        return ",".join(assignments)


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
    values = sum([len(value) for value in row if isinstance(value, bytes | str)])
    return len(row) * _BYTES_PER_VALUE + 2 * values
