"""Failure messages for people: what looks like a stack trace, SQL, an address or a secret is taken out (E-12).

The event log keeps the original for the service's own operators; nothing else does.
"""

from __future__ import annotations

import re

from taskstatus.domain.text import FAILURE_MESSAGE_MAX

REMOVED = "[removed]"
NOT_FOR_PEOPLE = "The details of this failure are kept with the service."

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_SECRET = re.compile(r"\bbearer\s+\S+|\b(token|password|passwd|secret|api[-_ ]?key)\b\s*[:=]\s*\S+", re.IGNORECASE)
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_STACK = re.compile(
    r"Traceback \(most recent call last\)|\bFile \"[^\"]+\", line \d+|^\s*at [\w.$<>]+\(|\.java:\d+\)|goroutine \d+ \[",
    re.MULTILINE,
)
_SQL = re.compile(
    r"\bSQL syntax\b|\bSQLSTATE\b|\bORA-\d{5}\b"
    r"|\b(SELECT|DELETE)\b.+\bFROM\b|\bINSERT INTO\b|\bUPDATE\b.+\bSET\b",
    re.DOTALL,
)
"""Statements are looked for in capitals: people delete pages from documents, too."""


def scrubbed(message: str) -> str:
    """The message without addresses and secrets; a technical one is replaced whole."""
    if _STACK.search(message) or _SQL.search(message):
        return NOT_FOR_PEOPLE
    for pattern in (_JWT, _ADDRESS, _SECRET):
        message = pattern.sub(REMOVED, message)
    return message[:FAILURE_MESSAGE_MAX]
