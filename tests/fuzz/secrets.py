"""Whether anything secret reached a log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from taskstatus.adapters.telemetry.logs import JsonFormatter

SHAPES = re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|exh_[A-Za-z0-9_-]{40,}")
"""A JWT of any kind; a handle."""
LONG_WORDS = re.compile(r"[A-Za-z0-9_+/=-]{40,}")
"""What a key is written in."""


def secrets_in(records: Iterable[logging.LogRecord], known: Iterable[str]) -> list[str]:
    """The log lines, as they would be written, that hold a known secret or something shaped like one."""
    formatter = JsonFormatter("fuzz")
    needles = [secret for secret in known if secret]
    lines = [formatter.format(record) for record in records]
    return [line for line in lines if SHAPES.search(line) or any(needle in line for needle in needles)]


def key_texts(folder: Path) -> list[str]:
    """The texts of the development keys, API key included."""
    private = [file for file in folder.iterdir() if "pub" not in file.name]
    return [word for file in private for word in LONG_WORDS.findall(file.read_text())]
