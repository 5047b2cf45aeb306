"""The port of the wake-up hint: it makes the relay fast; the poll makes it sure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

OnHint = Callable[[], None]


class WakeUpListener(Protocol):
    """Hears that something has been committed. Hints may be lost or repeated; nothing depends on them."""

    async def start(self, on_hint: OnHint) -> None:
        """Begin to call ``on_hint`` in this event loop; returns at once, never raises for an absent source."""
        ...

    async def stop(self) -> None:
        """End it; may be called again."""
        ...


class PollOnly:
    """A listener that hears nothing: without Redis the poll alone drives the relay."""

    async def start(self, on_hint: OnHint) -> None:
        """Nothing to begin."""

    async def stop(self) -> None:
        """Nothing to end."""
