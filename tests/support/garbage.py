"""What lives and what is dead, while the cyclic collector stands still."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Begin without garbage; then an object goes by its last reference, or stays."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def living(kind: type[object]) -> int:
    """How many objects of exactly this class there are, dead ones in cycles among them."""
    return sum(type(each) is kind for each in gc.get_objects())
