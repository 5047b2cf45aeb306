"""Building blocks of multi-row SQL: lists of placeholders, and rows cut into statements that the server will take.

Every size of a statement is a text of its own, which each connection has to prepare: for the outbox rows of a hundred
events 5 ms of the server's, a quarter of what it takes to run it. So statements come in a few sizes only. Rows are
dealt to several of them, largest first; lists of keys are filled up with their last key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

MAX_ROWS = 1000
MAX_KEYS = 500
"""Keys per query: MariaDB turns IN lists of 1,000 and more into a join with a temporary table."""
MAX_BYTES = 4 * 1024 * 1024
"""Well below the smallest usual max_allowed_packet (16 MiB on MariaDB)."""
KEY_SIZES = (1, 2, 4, 8, 16, 32, 64, 100, 200, 300, 400, MAX_KEYS, 700, 999, MAX_ROWS)
ROW_SIZES = (*range(1, 13), 16, 24, 32, 48, 64, 100, 150, 200, 300, 400, 500, MAX_ROWS)
"""Small ones are cheap to prepare, and a statement more costs as much as three rows."""
_BYTES_PER_VALUE = 8
_SIZED = frozenset({bytes, str})
_CACHED_TEXTS = 1024

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
    """The rows in groups of ROW_SIZES and of at most about MAX_BYTES; a row larger than that goes alone."""
    if _size(flatten(rows)) <= MAX_BYTES:
        # As good as always, and the sizes of single rows do not matter then.
        yield from _in_sizes(rows)
        return
    group: list[Parameters] = []
    size = 0
    for row in rows:
        row_size = _size(row)
        if size + row_size > MAX_BYTES:
            yield from _in_sizes(group)
            group, size = [], 0
        group.append(row)
        size += row_size
    yield from _in_sizes(group)


def _in_sizes(rows: Sequence[Parameters]) -> Iterator[Sequence[Parameters]]:
    first = 0
    while left := len(rows) - first:
        size = ROW_SIZES[bisect_right(ROW_SIZES, left) - 1]
        yield rows[first : first + size]
        first += size


def cut_keys(keys: Sequence[K]) -> Iterator[Sequence[K]]:
    """The keys in groups of KEY_SIZES, at most MAX_KEYS: the last key is repeated as often as it takes."""
    for first in range(0, len(keys), MAX_KEYS):
        yield filled_up(keys[first : first + MAX_KEYS])


def filled_up(keys: Sequence[K]) -> Sequence[K]:
    """At least one key, at most MAX_ROWS, and the last one repeated up to the next of KEY_SIZES."""
    return (*keys, *[keys[-1]] * (KEY_SIZES[bisect_left(KEY_SIZES, len(keys))] - len(keys)))


def _size(values: Parameters) -> int:
    """About their bytes in the statement; escaping can double a value, and characters take up to four bytes."""
    sizes = sum([len(value) for value in values if value.__class__ in _SIZED])
    return len(values) * _BYTES_PER_VALUE + 2 * sizes
