"""The vocabulary of refusals: advice for every reason, and the sets of answers and of what may be sent again."""

from __future__ import annotations

from taskstatus.application.reason_guide import ADVICE, explain, guards_giving
from taskstatus.domain.guards import GUARDS
from taskstatus.domain.reasons import ANSWER_REASONS, RETRYABLE_REASONS, STALE_REASONS, Reason

ANSWERS = {"STALE_ATTEMPT", "STALE_EXECUTION", "STALE_SEQUENCE", "PROGRESS_NOT_MONOTONIC", "TERMINAL"}
AFTER_A_PAUSE = {
    *("RATE_LIMITED", "DYNAMIC_LIMIT_REACHED", "DETAIL_SUBSCRIPTION_LIMIT", "WINDOW_EXCEEDED"),
    *("BUCKET_MOVED", "UNAVAILABLE", "INTERNAL"),
}


def test_names_answers_are_those_of_the_vocabulary() -> None:
    assert {reason.value for reason in ANSWER_REASONS} == ANSWERS
    assert {reason.value for reason in STALE_REASONS} == {name for name in ANSWERS if name.startswith("STALE_")}


def test_names_retryable_reasons_are_those_of_the_vocabulary() -> None:
    assert {reason.value for reason in RETRYABLE_REASONS} == AFTER_A_PAUSE
    assert not RETRYABLE_REASONS & ANSWER_REASONS


def test_names_reasons_are_written_as_they_are_named() -> None:
    assert all(reason.name == reason.value for reason in Reason)
    assert set(ADVICE) == set(Reason)


def check_explanation(reason: Reason) -> None:
    """Meaning, cure, kind, whether to send again, and the guards that give it."""
    told = explain(reason)
    assert told.startswith(f"{reason}: {ADVICE[reason].meaning}")
    assert ADVICE[reason].cure in told
    assert ("send again: yes" in told) is (reason in RETRYABLE_REASONS)
    assert ("an answer" in told) is (reason in ANSWER_REASONS)
    assert (
        told.count("given by guard") == sum(reason in guard.reasons for guard in GUARDS) == len(guards_giving(reason))
    )


def test_names_every_reason_is_explained() -> None:
    for reason in Reason:
        check_explanation(reason)
