"""What one event or command was answered with, in words that every transport shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2

OK = "OK"
_IDS_AND_TIMES = ("taskId", "committedAt")
_CODE_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}
_METHOD = re.compile(r"\b(?:ReportEvent|BatchReportEvents|BatchReportCompactEvents|StreamExecutions)\b")
_SILENT = "REASON_UNSPECIFIED"


@dataclass(frozen=True)
class Outcome:
    """An answer (``code`` OK) or a refusal."""

    code: str
    """The gRPC status name; REST tells it beside its own status."""
    reason: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)
    """The response in its JSON form, without ids and times."""
    message: str = ""
    fields: tuple[str, ...] = ()
    """The invalid fields."""
    retryable: bool | None = None
    """None on gRPC unary, which tells it by RetryInfo alone."""
    retry_after: float | None = field(default=None, compare=False)
    """Seconds; None where the transport has no place for it (items of a batch)."""

    @property
    def verdict(self) -> str:
        """One word: a reason, or ``accepted``, ``duplicate``, ``coalesced`` or ``no-op``."""
        if self.reason:
            return self.reason
        for flag in ("duplicate", "coalesced"):
            if self.answer[flag]:
                return flag
        assert self.answer["accepted"]
        return "accepted" if self.answer["changed"] else "no-op"


def sentence(message: str) -> str:
    """A refusal's message without the name of the method, which differs."""
    return _METHOD.sub("this method", message)


def answered(document: Mapping[str, Any]) -> Outcome:
    """The outcome of a ReportEventResponse in its JSON form."""
    known = {name: value for name, value in document.items() if name not in _IDS_AND_TIMES}
    known["committed"] = "committedAt" in document
    reason = str(document["reason"])
    return Outcome(OK, "" if reason == _SILENT else reason, known)


def as_document(message: Message) -> dict[str, Any]:
    """The JSON form with every field, as REST gives it."""
    return json_format.MessageToDict(message, always_print_fields_with_no_presence=True)


def item_refused(error: common_pb2.ItemError) -> Outcome:
    """The outcome of a refused item of a gRPC batch."""
    return Outcome(
        _CODE_NAMES[error.code],
        common_pb2.Reason.Name(error.reason),
        message=sentence(error.message),
        fields=tuple(violation.field for violation in error.field_violations),
        retryable=error.retryable,
    )


def json_item_refused(error: Mapping[str, Any]) -> Outcome:
    """The outcome of a refused item of a REST batch."""
    return Outcome(
        _CODE_NAMES[error["code"]],
        error["reason"],
        message=sentence(error["message"]),
        fields=tuple(violation["field"] for violation in error["fieldViolations"]),
        retryable=error["retryable"],
    )
