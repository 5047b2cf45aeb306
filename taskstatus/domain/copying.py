"""A copy of a record with some fields changed, at less than half the cost of ``dataclasses.replace``.

Each event makes half a dozen copies of records with up to thirty fields, a seventh of the service's time for it. The
original looks at every field in Python; here they are read by one ``attrgetter`` and passed on by position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # For the checker it is the original, whose field names and types it knows.
    from dataclasses import replace
else:
    from dataclasses import fields
    from functools import cache
    from operator import attrgetter

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
        names = [field.name for field in fields(kind)]
        return attrgetter(*names), {name: place for place, name in enumerate(names)}


__all__ = ["replace"]
