"""Traces by OpenTelemetry: ids always, export when an OTLP endpoint is configured (N-3)."""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def configure_traces(process: str) -> None:
    """Give every call a trace id; send spans to the endpoint of the OTEL_* variables when one is set."""
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: f"taskstatus-{process}"}))
    if any(os.environ.get(name) for name in _ENDPOINT_VARIABLES):
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
