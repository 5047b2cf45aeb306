"""Every documented reason is reached by a case, or it is told why nothing can reach it yet."""

from __future__ import annotations

from collections.abc import Mapping

from taskstatus.domain.reasons import Reason
from tests.parity import test_commands, test_orders, test_passing_faults
from tests.parity.cases import CASES

NOT_YET: Mapping[Reason, str] = {
    Reason.DETAIL_SUBSCRIPTION_LIMIT: "CreateSubscriptionToken counts no sessions yet (A-2)",
    Reason.WINDOW_EXCEEDED: "only a stream has a window (T-2)",
    Reason.BUCKET_MOVED: "there is one shard (S-2)",
}
"""Reasons that no method of today can give."""


def reached() -> dict[Reason, list[str]]:
    """The cases that reach each reason, on every transport that can say them."""
    found: dict[Reason, list[str]] = {reason: [] for reason in Reason}
    for name, case in CASES.items():
        for verdict in case.expected:
            if verdict.isupper():
                found[Reason(verdict)].append(name)
    for name, command in {**test_commands.COMMANDS, **test_orders.ALL_REFUSED}.items():
        found[command.reason].append(name)
    for name, (_, reason, _) in test_passing_faults.FAULTS.items():
        found[reason].append(name)
    return found


def test_every_reason_is_reached_or_told_to_be_out_of_reach() -> None:
    unreached = {reason for reason, names in reached().items() if not names}
    assert unreached == NOT_YET.keys()
