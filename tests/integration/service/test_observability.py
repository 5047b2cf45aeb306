"""One trace from worker to publish, and metrics that say what happened (N-3), on real parts."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from taskstatus_pb.v1 import common_pb2, query_service_pb2, report_service_pb2

from relay.assembly import open_relay
from relay.config import RelayConfig, UpkeepConfig
from scripts.stack import servers
from taskstatus.adapters.telemetry.logs import extra_fields
from taskstatus.entrypoints.wire import tracing
from taskstatus.settings import Settings
from tests.integration.relay.waiting import until
from tests.integration.service.conftest import Site
from tests.support.clients import activate, event_request, new_task

WORKERS_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
WORKERS_SPAN = "00f067aa0ba902b7"
TRACEPARENT = f"00-{WORKERS_TRACE}-{WORKERS_SPAN}-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans of this process, for the test alone: a global provider could never be taken back."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    tracing._tracer.cache_clear()
    yield exporter
    tracing._tracer.cache_clear()


@pytest.fixture
async def relayed(database_url: str, centrifugo: servers.RunningCentrifugo) -> AsyncIterator[CollectorRegistry]:
    """A relay in this process."""
    settings = Settings.model_validate(
        {
            "database_url": database_url,
            "centrifugo_grpc_target": centrifugo.ports.grpc_target,
            "centrifugo_api_url": centrifugo.ports.api_url,
            "centrifugo_api_key": centrifugo.api_key,
        }
    )
    registry = CollectorRegistry()
    async with open_relay(settings, registry, RelayConfig(), UpkeepConfig()):
        yield registry


def in_trace(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """Spans of this name that belong to, or are linked to, the worker's trace."""
    return [
        span
        for span in spans.get_finished_spans()
        if span.name == name
        and WORKERS_TRACE
        in {f"{context.trace_id:032x}" for context in (span.context, *(x.context for x in span.links))}
    ]


async def test_n3_one_trace_leads_from_the_worker_to_the_publication(
    spans: InMemorySpanExporter, site: Site, relayed: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    request = event_request(event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle)
    worker = site.worker
    with caplog.at_level(logging.DEBUG):
        metadata = (*worker.metadata, ("traceparent", TRACEPARENT))
        answer = await worker.report_service.ReportEvent(request, metadata=metadata, timeout=30)

        async def published() -> bool:
            return bool(in_trace(spans, "publish"))

        await until(published, "the relay has published in the worker's trace")
    assert answer.accepted

    (served,) = in_trace(spans, "taskstatus.v1.ReportService/ReportEvent")
    assert served.parent is not None
    assert f"{served.parent.span_id:016x}" == WORKERS_SPAN
    (publish,) = in_trace(spans, "publish")
    assert served.context is not None
    assert served.context.span_id in {link.context.span_id for link in publish.links}

    timeline = await site.coordinator.call(
        site.coordinator.query.ListTaskEvents, query_service_pb2.ListTaskEventsRequest(task_id=task_id, limit=10)
    )
    assert timeline.events[-1].trace_id == WORKERS_TRACE
    assert (relayed.get_sample_value("state_commit_to_publish_seconds_count") or 0) >= 2


async def test_n3_metrics_count_what_was_answered_and_what_it_took(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)
    handle = context.execution_handle
    started = {"event_id": "metrics-1", "event_type": common_pb2.STEP_STARTED, "source_seq": 1}
    await site.worker.report(**started, execution_handle=handle)
    await site.worker.report(**started, execution_handle=handle)
    await site.worker.report(event_type=common_pb2.STEP_PROGRESS, source_seq=1, execution_handle=handle)
    outside = report_service_pb2.EventData(schema="nowhere.v1")
    await site.worker.report_refused(
        event_type=common_pb2.STEP_PROGRESS, source_seq=2, execution_handle=handle, data=outside
    )
    await site.worker.report_refused(
        event_type=common_pb2.STEP_PROGRESS, source_seq=2, execution_handle=handle, operation_code="OTHER"
    )
    await site.worker.report(event_type=common_pb2.STEP_COMPLETED, source_seq=9, execution_handle=handle)

    def value(name: str, **labels: str) -> float:
        return site.service.metrics.registry.get_sample_value(name, labels) or 0.0

    def answered(outcome: str, reason: str = "") -> float:
        return value("taskstatus_report_requests_total", transport="grpc", outcome=outcome, reason=reason)

    assert answered("accepted") == 2
    assert answered("duplicate") == value("taskstatus_idempotent_hits_total") == 1
    assert answered("stale", "STALE_SEQUENCE") == value("taskstatus_stale_total", reason="STALE_SEQUENCE") == 1
    assert answered("refused", "SCHEMA_NOT_ALLOWED") == value("taskstatus_schema_rejects_total", operation="*") == 1
    assert answered("refused", "OPERATION_MISMATCH") == value("taskstatus_identity_mismatch_total") == 1
    assert value("taskstatus_sequence_gaps_total") == 7
    for what in ("commit_duration_seconds", "row_lock_wait_seconds", "pool_wait_seconds", "lane_batch_size"):
        assert value(f"taskstatus_{what}_count") >= 5, what
    method = "taskstatus.v1.ReportService/ReportEvent"
    assert value("taskstatus_report_duration_seconds_count", transport="grpc", method=method, status="OK") == 4


async def test_n3_a_row_that_cannot_be_recorded_is_found_in_the_logs_by_its_event(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await new_task(site.coordinator)
    context = await activate(site.coordinator, task_id)

    def refuse(*_arguments: object) -> None:
        raise ValueError("rows that no database takes")

    monkeypatch.setattr("taskstatus.runtime.batch_commit.evaluate", refuse)
    refusal = await site.worker.report_refused(
        event_id="lost-1", event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle
    )
    assert refusal.reason == "INTERNAL"
    (record,) = [one for one in caplog.records if one.getMessage() == "an event could not be committed"]
    assert extra_fields(record)["eventId"] == "lost-1"
    assert context.execution_handle not in caplog.text
