"""What the processes of the demo tell: children one JSON object per line on stdout, the demo itself aligned text."""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

SAY: Final = "say"
WHO_WIDTH: Final = 14
LOG_WIDTH: Final = 90


def tell(kind: str, **fields: Any) -> None:
    """One line of a child process to the demo."""
    print(json.dumps({"kind": kind, **fields}), flush=True)


def say(text: str) -> None:
    """A line for the reader."""
    tell(SAY, text=text)


def heard(line: bytes) -> dict[str, Any]:
    """A child's line as it was told; anything else that it printed becomes something said."""
    text = line.decode(errors="replace").rstrip()
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    return told if isinstance(told, dict) and "kind" in told else {"kind": SAY, "text": text}


def say_what_the_sdk_logs() -> None:
    """Let the reader see when the SDK waits for the service and sends again."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_AsTold())
    logger = logging.getLogger("taskstatus.sdk")
    logger.addHandler(handler)
    logger.propagate = False


class _AsTold(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        shown = text if len(text) <= LOG_WIDTH else f"{text[: LOG_WIDTH - 1]}…"
        return json.dumps({"kind": SAY, "text": f"! {shown}"})


@dataclass
class Stage:
    """Where the reader looks: every line with its time since the start and its speaker."""

    began: float = field(default_factory=time.monotonic)

    def line(self, who: str, text: str) -> None:
        """Print one line now, whatever stands between us and the reader."""
        print(f"{time.monotonic() - self.began:8.3f}  {who:<{WHO_WIDTH}}  {text}", flush=True)

    def headline(self, text: str) -> None:
        """A line of its own."""
        print(f"\n{text}", flush=True)
