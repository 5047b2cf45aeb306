"""Spans of requests and the trace in a row's log fields."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from relay.settling import log_fields
from relay.tracing import LINKS_MAX, publish_span, span_context
from taskstatus.domain.ids import format_task_id, format_workflow_id
from taskstatus.domain.records import AggregateType

from .support import summary_row

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def test_a_request_is_one_producer_span_linked_to_each_trace_once() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    with publish_span(provider.get_tracer("test"), 4, [TRACEPARENT, TRACEPARENT, "", "nonsense"]):
        pass

    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("publish", SpanKind.PRODUCER)
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE]
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 4


def test_links_are_bounded() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    parents = [f"00-{number:032x}-b7ad6b7169203331-00" for number in range(1, 1000)]

    with publish_span(provider.get_tracer("test"), 999, parents):
        pass

    assert len(exporter.get_finished_spans()[0].links) == LINKS_MAX


@pytest.mark.parametrize("text", ["", "00", f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{TRACE}-{'0' * 16}-01", "é"])
def test_a_malformed_traceparent_names_no_trace(text: str) -> None:
    assert span_context(text) is None


def test_a_row_is_found_in_the_logs_by_its_trace_and_its_task() -> None:
    row = summary_row(1, traceparent=TRACEPARENT, aggregate_version=3)
    assert log_fields(row) == {
        "outboxId": row.outbox_id.hex(),
        "projection": "USER_SUMMARY",
        "traceId": TRACE,
        "taskId": format_task_id(row.aggregate_id),
        "taskVersion": 3,
    }
    workflow = log_fields(summary_row(1, aggregate_type=AggregateType.WORKFLOW))
    assert workflow["workflowId"] == format_workflow_id(row.aggregate_id)
    assert "traceId" not in workflow
