"""The execution handle: ``exh_`` + base64url of 42 bytes, stored nowhere (architecture.md, *Ids*).

===========  =====  =============================================
field        bytes  content
===========  =====  =============================================
version      1      1
key tag      3      which secret (``ExecutionKey.tag``)
execution    16     the execution id
generation   4      credential generation, big-endian
MAC          18     HMAC-SHA256 of label + the fields above, first 144 bits
===========  =====  =============================================

42 bytes are exactly 56 base64url characters: no padding and no spare bits, so that each handle has one spelling. The
layout, the label and the key derivation are frozen by a test vector; another layout takes another version byte.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

from taskstatus.adapters.tokens.errors import RejectedTokenError
from taskstatus.adapters.tokens.execution_keys import KEY_TAG_BYTES, ExecutionKey, ExecutionKeyRing
from taskstatus.application.identity import HandleClaim
from taskstatus.domain.ids import ExecutionId

HANDLE_PREFIX = "exh_"
MAX_GENERATION = 2**32 - 1

_VERSION = b"\x01"
_LABEL = b"taskstatus/execution-handle/v1\x00"
_ID_BYTES = 16
_GENERATION_BYTES = 4
_MAC_BYTES = 18
_ID_AT = len(_VERSION) + KEY_TAG_BYTES
_GENERATION_AT = _ID_AT + _ID_BYTES
_MAC_AT = _GENERATION_AT + _GENERATION_BYTES
_FORM = re.compile(r"exh_([A-Za-z0-9_-]{56})")


def make_handle(key: ExecutionKey, execution_id: ExecutionId, generation: int) -> str:
    """The handle of an execution's credential generation. Raises ValueError when either does not fit its field."""
    if len(execution_id) != _ID_BYTES or not 0 <= generation <= MAX_GENERATION:
        raise ValueError("execution id or generation out of range")
    body = _VERSION + key.tag + execution_id + generation.to_bytes(_GENERATION_BYTES, "big")
    return HANDLE_PREFIX + base64.urlsafe_b64encode(body + _mac(key, body)).decode()


def open_handle(ring: ExecutionKeyRing, handle: str) -> HandleClaim:
    """What a genuine handle names. Raises RejectedTokenError for any other text."""
    form = _FORM.fullmatch(handle)
    if form is None:
        raise RejectedTokenError("not a handle")
    raw = base64.urlsafe_b64decode(form[1])
    body, mac = raw[:_MAC_AT], raw[_MAC_AT:]
    key = ring.by_tag.get(body[len(_VERSION) : _ID_AT])
    if key is None or not body.startswith(_VERSION):
        raise RejectedTokenError("unknown handle key or version")
    if not hmac.compare_digest(mac, _mac(key, body)):
        raise RejectedTokenError("forged handle")
    return HandleClaim(ExecutionId(body[_ID_AT:_GENERATION_AT]), int.from_bytes(body[_GENERATION_AT:], "big"))


def _mac(key: ExecutionKey, body: bytes) -> bytes:
    return hmac.digest(key.handle_key, _LABEL + body, hashlib.sha256)[:_MAC_BYTES]
