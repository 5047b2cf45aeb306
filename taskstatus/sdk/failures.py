"""Failures of the work itself, in a form that people and programs can use (E-12)."""

from __future__ import annotations

import asyncio
from typing import Final

from taskstatus_pb.v1 import common_pb2

MESSAGE_MAX: Final = 512
UNEXPECTED_MESSAGE: Final = "The step failed unexpectedly."


class StepError(Exception):
    """Raise it in a step to say what failed; everything given is shown to people, but for ``diagnostics_ref``.

    ``code`` is stable (at most 128 characters), ``category`` a broad class such as INPUT, DEPENDENCY or SYSTEM.
    ``retryable=None`` leaves it open: it may help.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        category: str = "SYSTEM",
        retryable: bool | None = None,
        diagnostics_ref: str = "",
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.category = category
        self.retryable = retryable
        self.diagnostics_ref = diagnostics_ref


def as_step_error(error: BaseException) -> StepError:
    """The error to report. The text of an unknown exception may hold a secret or an address and stays here."""
    if isinstance(error, StepError):
        return error
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return StepError("TIMEOUT", "Something that the step needs did not answer in time.", category="DEPENDENCY")
    if isinstance(error, ConnectionError):
        return StepError("CONNECTION", "Something that the step needs could not be reached.", category="DEPENDENCY")
    return StepError(type(error).__name__, UNEXPECTED_MESSAGE)


def to_message(error: StepError) -> common_pb2.EventError:
    """The wire form, cut to its bounds."""
    message = common_pb2.EventError(
        category=error.category,
        code=error.code,
        message=error.message[:MESSAGE_MAX],
        diagnostics_ref=error.diagnostics_ref,
    )
    if error.retryable is not None:
        message.retryable = error.retryable
    return message
