"""The round trips of each producer, kept over executions: a new one over a known poor link starts patient (H-6)."""

from __future__ import annotations

from collections import OrderedDict

from taskstatus.domain.heartbeat import Link
from taskstatus.domain.standing import ExecutionStanding

REMEMBERED_LINKS = 10_000


class Links:
    """One ``Link`` for each (tenant, scope, producer); the least recently seen are forgotten, that is, good again."""

    def __init__(self, size: int = REMEMBERED_LINKS) -> None:
        self._size = size
        self._links: OrderedDict[tuple[str, str, str], Link] = OrderedDict()

    def of(self, standing: ExecutionStanding) -> Link:
        """The link of the producer that runs this execution."""
        key = (standing.tenant_id, standing.authority_scope, standing.producer_id)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link()
            if len(self._links) > self._size:
                self._links.popitem(last=False)
            return link
        self._links.move_to_end(key)
        return link
