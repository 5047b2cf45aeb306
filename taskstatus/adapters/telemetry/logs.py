"""Structured logs: one JSON object a line, with the field names of names.md; credentials are never among them."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from opentelemetry import trace

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FORBIDDEN: Final = ("token", "authorization", "secret", "password", "handle")
LOG_FORMATS = ("json", "text")


class JsonFormatter(logging.Formatter):
    """Formats a record with its extra fields and the trace that is active."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            fields["traceId"] = f"{context.trace_id:032x}"
        fields |= extra_fields(record)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """For people at a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line with its extra fields behind it."""
        fields = " ".join(f"{name}={value}" for name, value in extra_fields(record).items())
        return f"{super().format(record)} {fields}".rstrip()


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """The ``extra`` of a record, without anything whose name suggests a credential."""
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _STANDARD and not any(word in name.lower() for word in _FORBIDDEN)
    }


def configure_logs(process: str, log_format: str, level: str = "INFO") -> None:
    """Log to standard error in one format; call once per process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process) if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
