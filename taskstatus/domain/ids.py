"""Identities: UUIDv7 ids that carry their virtual bucket, their text forms, and the frozen bucket hash (ID-4, S-1).

A workflow, task or execution id is a UUIDv7 whose 12 ``rand_a`` bits hold the bucket of (tenant, owner). Text forms
are ``wf_``, ``task_`` and ``exec_`` + 32 hex digits; the bare UUID is accepted too.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NewType

import xxhash

WorkflowId = NewType("WorkflowId", bytes)
TaskId = NewType("TaskId", bytes)
ExecutionId = NewType("ExecutionId", bytes)

BUCKET_COUNT = 4096
HASH_VERSION = "v1"
_SEPARATOR = "\x1f"

WORKFLOW_PREFIX = "wf_"
TASK_PREFIX = "task_"
EXECUTION_PREFIX = "exec_"

_HEX_32 = re.compile(r"[0-9a-f]{32}\Z")
_UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


def routing_hash(tenant_id: str, owner_id: str) -> int:
    """The frozen 64-bit routing hash v1 of (tenant, owner): xxHash64, seed 0, over UTF-8 parts joined by 0x1F (S-1)."""
    key = _SEPARATOR.join((HASH_VERSION, tenant_id, owner_id))
    return xxhash.xxh64_intdigest(key.encode(), seed=0)


def bucket_of_owner(tenant_id: str, owner_id: str) -> int:
    """The virtual bucket, 0…4095, in which everything of this owner lives (S-1)."""
    return routing_hash(tenant_id, owner_id) % BUCKET_COUNT


def bucket_of_id(raw: bytes) -> int:
    """The bucket that a workflow, task or execution id carries."""
    return int.from_bytes(raw[6:8], "big") & 0x0FFF


def make_id(unix_ms: int, bucket: int, random_62: int) -> bytes:
    """Compose a UUIDv7 from a time in milliseconds, a bucket (12 bits) and 62 random bits."""
    value = (
        (unix_ms & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | bucket << 64 | 0b10 << 62 | (random_62 & 0x3FFF_FFFF_FFFF_FFFF)
    )
    return value.to_bytes(16, "big")


def moment_of_id(raw: bytes) -> datetime:
    """When an id was made, to the millisecond, by the clock of the process that made it; naive UTC."""
    return datetime(1970, 1, 1) + timedelta(milliseconds=int.from_bytes(raw[:6], "big"))


def least_id_of(moment: datetime) -> bytes:
    """The id that sorts before all that are made at ``moment`` (naive UTC) or later."""
    return make_id((moment - datetime(1970, 1, 1)) // timedelta(milliseconds=1), 0, 0)


def format_workflow_id(raw: bytes) -> str:
    """``wf_`` + 32 hex digits."""
    return WORKFLOW_PREFIX + raw.hex()


def format_task_id(raw: bytes) -> str:
    """``task_`` + 32 hex digits."""
    return TASK_PREFIX + raw.hex()


def format_execution_id(raw: bytes) -> str:
    """``exec_`` + 32 hex digits."""
    return EXECUTION_PREFIX + raw.hex()


def parse_workflow_id(text: str) -> WorkflowId | None:
    """The id of a text form, or None when it is not one (which a caller sees as not found)."""
    raw = _parse(text, WORKFLOW_PREFIX)
    return None if raw is None else WorkflowId(raw)


def parse_task_id(text: str) -> TaskId | None:
    """The id of a text form, or None when it is not one."""
    raw = _parse(text, TASK_PREFIX)
    return None if raw is None else TaskId(raw)


def parse_execution_id(text: str) -> ExecutionId | None:
    """The id of a text form, or None when it is not one."""
    raw = _parse(text, EXECUTION_PREFIX)
    return None if raw is None else ExecutionId(raw)


def _parse(text: str, prefix: str) -> bytes | None:
    digits = text.removeprefix(prefix)
    if digits is text or digits == text:
        digits = text.replace("-", "") if _UUID_TEXT.match(text) else text
    if not _HEX_32.match(digits):
        return None
    raw = bytes.fromhex(digits)
    is_uuid7 = raw[6] >> 4 == 0x7 and raw[8] >> 6 == 0b10
    return raw if is_uuid7 else None
