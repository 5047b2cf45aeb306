"""What calls of the SDK ended with, in a form that two services can be compared in.

Ids are named by their order of appearance; times, credentials and measured durations are left out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from taskstatus.sdk import StepError, TaskStatusError

_ID = re.compile(r"\b(wf|task|exec)_[0-9a-f]{32}\b")
_UNLIKE = frozenset(
    {
        *(
            "committed_at",
            "received_at",
            "occurred_at",
            "created_at",
            "started_at",
            "finished_at",
            "updated_at",
            "as_of",
        ),
        *("execution_token", "execution_handle", "execution_token_expires_at", "event_id", "source_event_id"),
        *("skip_source_event_id", "next_cursor"),
        # Whether a worker is told to beat is a matter of settings, and how long something took of the machine.
        *("heartbeat_interval_seconds", "heartbeat_timeout_seconds", "duration_ms", "duration_source", "elapsed_ms"),
        *("queue_duration_ms", "run_duration_ms", "total_duration_ms"),
        # The fake keeps no data, and notifies nobody.
        *("data", "trace_id", "summary_data", "notifications"),
    }
)


@dataclass
class Journal:
    """What was asked, and what came of it."""

    lines: list[tuple[str, Any]] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    async def note(self, what: str, answer: Awaitable[Any]) -> Any:
        """Note an answer or a refusal, and give the answer (None for a refusal)."""
        try:
            found = await answer
        except TaskStatusError as error:
            fields = [violation.field for violation in error.violations]
            self.lines.append((what, (type(error).__name__, error.reason, fields)))
            return None
        self.lines.append((what, self._plain(found)))
        return found

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Message):
            shown = json_format.MessageToDict(value, preserving_proto_field_name=True)
            return self._plain(shown)
        if isinstance(value, StepError):
            return (value.code, value.message, value.category, value.retryable)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
        if isinstance(value, dict):
            return {name: self._plain(part) for name, part in value.items() if name not in _UNLIKE}
        if isinstance(value, list | tuple):
            return [self._plain(part) for part in value]
        if isinstance(value, str):
            return _ID.sub(self._name_of, value)
        assert not isinstance(value, datetime)
        return value

    def _name_of(self, match: re.Match[str]) -> str:
        return self._names.setdefault(match[0], f"{match[1]} {len(self._names) + 1}")
