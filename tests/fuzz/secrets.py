"""Whether anything secret reached a log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.descriptor import Descriptor, MethodDescriptor

from taskstatus.adapters.telemetry.logs import JsonFormatter

SHAPES = re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|exh_[A-Za-z0-9_-]{40,}")
"""A JWT of any kind; a handle."""
CREDENTIALS = frozenset({"execution_token", "execution_handle", "token", "connection_token", "subscription_token"})
"""Fields of answers."""
LONG_WORDS = re.compile(r"[A-Za-z0-9_+/=-]{40,}")
"""What a key is written in."""


def secrets_in(records: Iterable[logging.LogRecord], known: Iterable[str]) -> list[str]:
    """The log lines, as they would be written, that hold a known secret or something shaped like one."""
    formatter = JsonFormatter("fuzz")
    needles = [secret for secret in known if secret]
    lines = [formatter.format(record) for record in records]
    return [line for line in lines if SHAPES.search(line) or any(needle in line for needle in needles)]


def issues(method: MethodDescriptor) -> bool:
    """Whether it is the method's purpose to answer with credentials."""
    return _holds_credentials(method.output_type, frozenset())


def _holds_credentials(message: Descriptor, seen: frozenset[str]) -> bool:
    if message.full_name in seen:
        return False
    inner = [field.message_type for field in message.fields if field.message_type is not None]
    own = any(field.name in CREDENTIALS for field in message.fields)
    return own or any(_holds_credentials(each, seen | {message.full_name}) for each in inner)


def key_texts(folder: Path) -> list[str]:
    """The texts of the development keys, API key included."""
    private = [file for file in folder.iterdir() if "pub" not in file.name]
    return [word for file in private for word in LONG_WORDS.findall(file.read_text())]
