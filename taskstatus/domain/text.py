"""What texts may hold: ids, codes and free text (ID-4).

Ids, keys and codes are visible ASCII: they compare byte for byte, and are safe in logs, channel names and URLs. Free
text is any Unicode without control characters. Lengths are the figures of names.md, in characters.
"""

from __future__ import annotations

import re

from taskstatus.domain.errors import RefusedError, invalid

TENANT_MAX = OWNER_MAX = SCOPE_MAX = PRODUCT_MAX = BUSINESS_STATUS_MAX = 64
EVENT_ID_MAX = 64
PRINCIPAL_MAX = 64
CODE_MAX = 128
"""Client keys, types, operations, producers, schemas, error codes and phase codes."""
STEP_ID_MAX = 64
CLIENT_STEP_KEY_MAX = 60
TITLE_MAX = 200
LABEL_MAX = 200
UNIT_MAX = CATEGORY_MAX = 64
FAILURE_MESSAGE_MAX = 512
DECISION_REASON_MAX = 512
REFERENCE_MAX = 255
INPUT_REF_MAX = 1024
DYNAMIC_STEP_PREFIX = "dyn_"

_VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+\Z")
_CONTROL_OR_SURROGATE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Unicode's categories Cc and Cs, which will never grow."""
_STEP_ID = re.compile(r"[A-Za-z0-9._-]+\Z")


def check_id(path: str, text: str, limit: int) -> str:
    """The text, when it is 1…limit visible ASCII characters; else INVALID_ARGUMENT naming ``path``."""
    if not text:
        raise invalid(path, "is required")
    return check_optional_id(path, text, limit)


def check_optional_id(path: str, text: str, limit: int) -> str:
    """As ``check_id``, but the empty text passes."""
    if not text:
        return text
    if len(text) > limit:
        raise invalid(path, f"has {len(text)} characters, at most {limit} are allowed")
    if not _VISIBLE_ASCII.match(text):
        raise invalid(path, "may hold visible ASCII characters only, without spaces")
    return text


def check_step_id(path: str, text: str, limit: int = STEP_ID_MAX) -> str:
    """A step id or client step key: ``[A-Za-z0-9._-]``, 1…limit characters."""
    if not 1 <= len(text) <= limit or not _STEP_ID.match(text):
        raise invalid(path, f"must be 1 to {limit} characters of A-Z a-z 0-9 . _ -")
    return text


def check_text(path: str, text: str, limit: int) -> str:
    """Free text: at most ``limit`` characters, no control characters or lone surrogates; may be empty."""
    if len(text) > limit:
        raise invalid(path, f"has {len(text)} characters, at most {limit} are allowed")
    if _CONTROL_OR_SURROGATE.search(text):
        raise invalid(path, "may not hold control characters")
    return text


def check_title(path: str, text: str) -> str:
    """A title: 1…200 characters after trimming (R-9); returns it trimmed."""
    trimmed = text.strip()
    if not trimmed:
        raise invalid(path, "is required")
    return check_text(path, trimmed, TITLE_MAX)


def is_refused_id(text: str, limit: int) -> bool:
    """Whether ``check_id`` would refuse the text."""
    try:
        check_id("id", text, limit)
    except RefusedError:
        return True
    return False
