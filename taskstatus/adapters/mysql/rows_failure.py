"""The five columns in which ``task`` and ``task_run`` keep what failed them."""

from __future__ import annotations

from taskstatus.adapters.mysql.session import Row
from taskstatus.adapters.mysql.statements import Parameters
from taskstatus.adapters.mysql.values import text
from taskstatus.domain.state import TaskFailure

_NO_FAILURE: Parameters = (None, None, None, None, None)


def failure_to_row(failure: TaskFailure | None) -> Parameters:
    """NULL in every column says that there is none; an empty text is a text."""
    if failure is None:
        return _NO_FAILURE
    return (failure.code, failure.message, failure.category, failure.retryable, failure.failed_step_id)


def failure_from_row(row: Row) -> TaskFailure | None:
    """The failure of a row of the five columns."""
    code, message, category, retryable, failed_step_id = row
    if code is None:
        return None
    return TaskFailure(text(code), message, category, bool(retryable), text(failed_step_id))
