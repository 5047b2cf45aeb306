"""``dataclass`` and ``replace`` for records that every event makes and copies, at a fraction of the originals' cost.

An event makes some twenty records of up to thirty fields each. The original's frozen ``__init__`` sets every field by a
call around its own guard, several times the cost of setting it; its ``replace`` looks at every field in Python. So here
the guard is the type checker's alone, for which both names are the originals: ``make check`` refuses an assignment to a
field of a frozen record. Everything else (fields, equality, hash, slots) is as the originals have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:
    import dataclasses
    from functools import cache
    from operator import attrgetter

    def dataclass(*, frozen=False, **options):
        """A dataclass with the original's options, whose ``frozen`` makes it hashable and no more."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)

    def replace(record, /, **changes):
        """The record with ``changes``; TypeError for a field that it lacks or that cannot be given.

        For plain dataclasses of two fields and more: every field is a parameter of ``__init__``, in order.
        """
        kind = type(record)
        read, places = _shape(kind)
        values = list(read(record))
        try:
            for name, value in changes.items():
                values[places[name]] = value
        except KeyError:
            raise TypeError(f"{kind.__name__} has no field {name!r}") from None
        return kind(*values)

    @cache
    def _shape(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return attrgetter(*names), {name: place for place, name in enumerate(names)}


__all__ = ["dataclass", "replace"]
