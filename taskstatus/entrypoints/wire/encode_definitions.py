"""Published definitions → responses."""

from __future__ import annotations

import json
from datetime import datetime

from google.protobuf import json_format, struct_pb2, timestamp_pb2
from taskstatus_pb.v1 import common_pb2, definitions_pb2

from taskstatus.application.ports_definitions import (
    DefinitionListing,
    Publication,
    PublishedOperation,
    PublishedStatuses,
)
from taskstatus.domain.business_status import BusinessStatus
from taskstatus.domain.definitions import DataSchema
from taskstatus.entrypoints.wire.values import to_timestamp


def published(publication: Publication) -> definitions_pb2.PublishDefinitionsResponse:
    """Response of PublishDefinitions."""
    return definitions_pb2.PublishDefinitionsResponse(
        published=publication.published,
        unchanged=publication.unchanged,
        differences=publication.differences,
    )


def listing(found: DefinitionListing) -> definitions_pb2.ListDefinitionsResponse:
    """Response of ListDefinitions."""
    return definitions_pb2.ListDefinitionsResponse(
        operations=map(operation_definition, found.operations), statuses=map(status_definition, found.statuses)
    )


def operation_definition(item: PublishedOperation) -> definitions_pb2.OperationDefinition:
    """One version of an operation, as it may be published again elsewhere."""
    definition = item.definition
    policy = definition.failure_policy
    return definitions_pb2.OperationDefinition(
        operation_code=definition.operation_code,
        version=definition.version,
        task_type=definition.task_type,
        display_name=definition.display_name,
        producers=definition.producers,
        events=sorted(common_pb2.EventType.Value(event) for event in definition.events),
        failure_policy=common_pb2.FailurePolicy.Value(policy) if policy else common_pb2.FAILURE_POLICY_UNSPECIFIED,
        idempotent=definition.is_idempotent,
        schemas=map(_schema, definition.schemas),
        published_at=to_timestamp(item.published_at),
        retired_at=_stamp(item.retired_at),
    )


def _schema(schema: DataSchema) -> definitions_pb2.DataSchema:
    content = struct_pb2.Struct()
    json_format.ParseDict(json.loads(schema.json_schema), content)
    return definitions_pb2.DataSchema(
        name=schema.name,
        events=sorted(common_pb2.EventType.Value(event) for event in schema.events),
        json_schema=content,
        detail_fields=schema.detail_fields,
        summary_fields=schema.summary_fields,
        max_bytes=schema.max_bytes,
    )


def status_definition(item: PublishedStatuses) -> definitions_pb2.StatusDefinition:
    """One version of the statuses of a task type."""
    definition = item.definition
    return definitions_pb2.StatusDefinition(
        task_type=definition.task_type,
        version=definition.version,
        statuses=map(_status, definition.statuses),
        published_at=_stamp(item.published_at),
        retired_at=_stamp(item.retired_at),
    )


def _status(status: BusinessStatus) -> definitions_pb2.BusinessStatus:
    shown = status.presentation
    return definitions_pb2.BusinessStatus(
        code=status.code,
        lifecycle_status=common_pb2.LifecycleStatus.Value(status.lifecycle),
        allowed_from=sorted(status.allowed_from or ()),
        display_name=status.display_name,
        severity=definitions_pb2.Severity.Value(status.severity),
        sort_order=status.sort_order,
        presentation=definitions_pb2.StatusPresentation(
            color_token=shown.color_token,
            icon_key=shown.icon_key,
            title_key=shown.title_key,
            description_key=shown.description_key,
        ),
    )


def _stamp(at: datetime | None) -> timestamp_pb2.Timestamp | None:
    return None if at is None else to_timestamp(at)
