"""One span per request to Centrifugo, linked to the traces whose commits it carries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Final

from opentelemetry.trace import Link, Span, SpanContext, SpanKind, TraceFlags, Tracer
from opentelemetry.util.types import AttributeValue

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?\Z")
LINKS_MAX: Final = 128
"""What collectors keep of a span by default."""


def publish_span(tracer: Tracer, messages: int, traceparents: Iterable[str]) -> AbstractContextManager[Span]:
    """A PRODUCER span over one request, with a link for each distinct trace context."""
    contexts = (span_context(text) for text in dict.fromkeys(traceparents))
    links = [Link(context) for context in contexts if context is not None][:LINKS_MAX]
    attributes: dict[str, AttributeValue] = {
        "messaging.system": "centrifugo",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": messages,
    }
    return tracer.start_as_current_span("publish", kind=SpanKind.PRODUCER, links=links, attributes=attributes)


def span_context(traceparent: str) -> SpanContext | None:
    """The remote context that a W3C ``traceparent`` names; None when it is empty or malformed."""
    match = _TRACEPARENT.match(traceparent)
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return context if context.is_valid else None
