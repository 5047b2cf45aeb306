"""Canonical bytes of an event, version 1: the deterministic serialisation of ``CanonicalEvent`` (E-3).

The one adapter that knows protobuf: its message is a storage format with frozen field numbers and test vectors.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from taskstatus_pb.storage.v1 import canonical_pb2

from taskstatus.domain.commands import EventContent, TaskEventCommand
from taskstatus.domain.records import CANONICAL_VERSION

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_VERSION_BYTE = bytes([CANONICAL_VERSION])


def canonicalize(command: TaskEventCommand) -> tuple[bytes, bytes]:
    """See the port ``Canonicalizer``: credentials, transport, receipt and trace are left out."""
    canonical = _event(command).SerializeToString(deterministic=True)
    return canonical, hashlib.sha256(_VERSION_BYTE + canonical).digest()


def _event(command: TaskEventCommand) -> canonical_pb2.CanonicalEvent:
    content = command.content
    event = canonical_pb2.CanonicalEvent(
        event_id=content.event_id,
        event_type=content.event_type,
        tenant_id=command.caller.tenant_id,
        authority_scope=command.caller.authority_scope,
        workflow_id=command.workflow_id or b"",
        task_id=command.task_id,
        task_attempt=command.task_attempt,
        step_id=command.step_id,
        step_attempt=command.step_attempt,
        execution_id=command.execution_id or b"",
        operation_code=command.operation_code,
        producer_id=command.caller.producer_id,
        source_seq=content.source_seq,
        business_status=content.business_status,
        occurred_at_us=0 if content.occurred_at is None else (content.occurred_at - _EPOCH) // _MICROSECOND,
        duration_ms=content.duration_ms,
        duration_source=content.duration_source or "",
        phase_code=content.phase_code,
        phase_label=content.phase_label,
        failed_step_id=content.failed_step_id,
        reason=content.reason,
    )
    _add_optional_parts(event, content)
    return event


def _add_optional_parts(event: canonical_pb2.CanonicalEvent, content: EventContent) -> None:
    if content.progress is not None:
        event.has_progress = True
        event.progress_current = content.progress.current
        event.progress_total = content.progress.total
        event.progress_unit = content.progress.unit
    event.progress_seq = content.progress_seq
    if content.data is not None:
        event.data_schema = content.data.schema
        event.data_value = content.data.wire
    if content.error is not None:
        event.has_error = True
        event.error_category = content.error.category
        event.error_code = content.error.code
        event.error_message = content.error.message
        event.diagnostics_ref = content.error.diagnostics_ref
        if content.error.retryable is not None:
            event.error_retryable = content.error.retryable
