"""Definitions as their teams use them, on real databases: publish, create, report, retire, classify (L-4, L-5, R-8)."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from taskstatus_pb.v1 import common_pb2, definitions_pb2, query_service_pb2, task_commands_pb2

from taskstatus.application.identity import Role
from tests.integration.service.conftest import OpenSite, Site
from tests.integration.service.test_definitions import data, definition
from tests.support.clients import OWNER, Caller, activate, new_task, step, unique
from tests.support.databases import count_rows

FAILED_PRECONDITION, NOT_FOUND = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND
INVALID_ARGUMENT, ABORTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ABORTED


def admin(site: Site) -> Caller:
    """An administrator's tool."""
    return site.caller(site.tokens.service("admin-tool", Role.ADMIN))


def review(task_type: str, version: int = 1, **changes: Any) -> dict[str, Any]:
    """The statuses of documents that a person reviews, in the request's JSON form."""
    statuses = [
        {"code": "PARSING", "lifecycleStatus": "RUNNING", "allowedFrom": ["PENDING", "RUNNING"]},
        {
            "code": "WAITING_REVIEW",
            "lifecycleStatus": "RUNNING",
            "allowedFrom": ["PARSING"],
            "severity": "WARNING",
            "presentation": {"colorToken": "warning", "titleKey": "status.review"},
        },
        {"code": "PUBLISHED", "lifecycleStatus": "SUCCEEDED", "allowedFrom": ["WAITING_REVIEW"]},
    ]
    return {"taskType": task_type, "version": version, "statuses": statuses, **changes}


def parsing(operation: str, task_type: str, version: int = 1, **changes: Any) -> dict[str, Any]:
    """An operation of a type, in the request's JSON form."""
    item = definition(operation, version, **changes)
    schemas = [
        {
            "name": schema["name"],
            "events": schema["events"],
            "jsonSchema": schema["schema"],
            "detailFields": schema["detail"],
            "summaryFields": schema["summary"],
        }
        for schema in item.pop("schemas")
    ]
    code = item.pop("operation")
    return {**item, "operationCode": code, "taskType": task_type, "schemas": schemas}


def publishing(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """PublishDefinitions in its JSON form."""
    return {
        "operations": [item for item in items if "operationCode" in item],
        "statuses": [item for item in items if "operationCode" not in item],
        **fields,
    }


async def publish(site: Site, *items: dict[str, Any], **fields: Any) -> definitions_pb2.PublishDefinitionsResponse:
    """PublishDefinitions."""
    request = json_format.ParseDict(publishing(*items, **fields), definitions_pb2.PublishDefinitionsRequest())
    tool = admin(site)
    response: definitions_pb2.PublishDefinitionsResponse = await tool.call(tool.admin.PublishDefinitions, request)
    return response


async def retire(site: Site, **fields: Any) -> Any:
    """RetireDefinition."""
    tool = admin(site)
    return await tool.call(tool.admin.RetireDefinition, definitions_pb2.RetireDefinitionRequest(**fields))


def classifying(task_id: str, task_type: str, **fields: Any) -> task_commands_pb2.ClassifyTaskRequest:
    """ClassifyTask."""
    named = {"command_id": unique("cmd"), "task_id": task_id, "task_type": task_type, **fields}
    return task_commands_pb2.ClassifyTaskRequest(**named)


async def snapshot(site: Site, task_id: str) -> Any:
    """The task as its owner sees it."""
    request = query_service_pb2.GetTaskRequest(task_id=task_id)
    return (await site.owner.call(site.owner.query.GetTask, request)).task


async def published(site: Site) -> str:
    """A task type with statuses and an operation of its own, all in version 1."""
    task_type = unique("DOCUMENT")
    await publish(site, review(task_type), parsing("DOCUMENT.PARSE", task_type))
    return task_type


async def started(site: Site, task_id: str, **fields: Any) -> Any:
    """The context of the first step, started."""
    context = await activate(site.coordinator, task_id)
    await site.worker.report(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=context.execution_handle, **fields
    )
    return context


async def test_l4_a_typed_task_goes_through_the_statuses_of_its_type(site: Site, database_url: str) -> None:
    task_type = await published(site)
    task_id = await new_task(site.coordinator, task_type=task_type)
    context = await started(site, task_id, business_status="PARSING")
    assert (context.status_definition_version, context.operation_definition_version) == (1, 1)
    handle, before = context.execution_handle, await count_rows(database_url)

    for status, code, reason in (
        ("PUBLISHED", INVALID_ARGUMENT, "BUSINESS_STATUS_NOT_REGISTERED"),
        ("RUNNING", INVALID_ARGUMENT, "BUSINESS_STATUS_NOT_REGISTERED"),
        ("NOWHERE", INVALID_ARGUMENT, "BUSINESS_STATUS_NOT_REGISTERED"),
    ):
        refusal = await site.worker.report_refused(
            event_type=common_pb2.STEP_PROGRESS, source_seq=2, execution_handle=handle, business_status=status
        )
        assert (refusal.code, refusal.reason) == (code, reason)
    done = {"event_type": common_pb2.TASK_COMPLETED, "source_seq": 1, "task_id": task_id}
    refusal = await site.coordinator.report_refused(**done, business_status="PUBLISHED")
    assert (refusal.code, refusal.reason) == (FAILED_PRECONDITION, "TRANSITION_NOT_ALLOWED")
    assert await count_rows(database_url) == before

    reviewed = await site.worker.report(
        event_type=common_pb2.STEP_COMPLETED,
        source_seq=2,
        execution_handle=handle,
        business_status="WAITING_REVIEW",
        data=data(pageCount=3),
    )
    assert (reviewed.business_status, reviewed.lifecycle_status) == ("WAITING_REVIEW", common_pb2.RUNNING)
    ended = await site.coordinator.report(**done, business_status="PUBLISHED")
    assert (ended.business_status, ended.lifecycle_status) == ("PUBLISHED", common_pb2.SUCCEEDED)
    view = await snapshot(site, task_id)
    assert (view.status_definition_version, view.operation_definition_version) == (1, 1)

    asked = definitions_pb2.GetStatusDefinitionRequest(task_type=task_type, version=view.status_definition_version)
    shown = (await site.owner.call(site.owner.query.GetStatusDefinition, asked)).status_definition
    assert {item.code: item.presentation.color_token for item in shown.statuses}["WAITING_REVIEW"] == "warning"


async def test_l5_a_task_keeps_its_versions_whatever_is_published_and_retired(site: Site) -> None:
    task_type = await published(site)
    old = await new_task(site.coordinator, task_type=task_type)
    only = [{"code": "ONLY", "lifecycleStatus": "RUNNING"}]
    await publish(site, review(task_type, 2, statuses=only), parsing("DOCUMENT.PARSE", task_type, 2))
    await retire(site, task_type=task_type, version=1)

    new = await new_task(site.coordinator, task_type=task_type)

    assert (await started(site, old, business_status="PARSING")).operation_definition_version == 1
    assert (await started(site, new, business_status="ONLY")).operation_definition_version == 2
    assert (await snapshot(site, old)).business_status == "PARSING"


@pytest.mark.parametrize("where", ["create", "classify"])
async def test_r8_unknown_and_retired_versions_are_refused_and_write_nothing(
    site: Site, database_url: str, where: str
) -> None:
    task_type = await published(site)
    await publish(site, review(task_type, 2), parsing("DOCUMENT.PARSE", task_type, 2))
    await retire(site, task_type=task_type, version=1)
    await retire(site, operation_code="DOCUMENT.PARSE", task_type=task_type, version=1)
    task_id = await new_task(site.coordinator)
    before = await count_rows(database_url)
    for field, version, code, reason in (
        ("status_definition_version", 9, NOT_FOUND, "DEFINITION_NOT_FOUND"),
        ("operation_definition_version", 9, NOT_FOUND, "DEFINITION_NOT_FOUND"),
        ("status_definition_version", 1, FAILED_PRECONDITION, "DEFINITION_INCOMPATIBLE"),
        ("operation_definition_version", 1, FAILED_PRECONDITION, "DEFINITION_INCOMPATIBLE"),
    ):
        if where == "create":
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await new_task(site.coordinator, task_type=task_type, **{field: version})
            assert raised.value.code() is code
        else:
            refusal = await site.coordinator.refused(
                site.coordinator.register.ClassifyTask, classifying(task_id, task_type, **{field: version})
            )
            assert (refusal.code, refusal.reason) == (code, reason)
    assert await count_rows(database_url) == before


async def test_r8_classification_binds_once_and_tells_its_story(site: Site, database_url: str) -> None:
    task_type = await published(site)
    task_id = await new_task(site.coordinator)
    context = await started(site, task_id)
    classify = site.coordinator.register.ClassifyTask
    stale = await site.coordinator.refused(classify, classifying(task_id, task_type, expected_task_version=1))
    assert (stale.code, stale.reason) == (ABORTED, "VERSION_MISMATCH")

    request = classifying(task_id, task_type, expected_task_version=2, product_id="knowledge")
    first = await site.coordinator.call(classify, request)
    again = await site.coordinator.call(classify, request)

    assert (first.change.task_version, first.status_definition_version, first.operation_definition_version) == (3, 1, 1)
    assert (again.change.duplicate, again.change.task_version, again.status_definition_version) == (True, 3, 1)
    before = await count_rows(database_url)
    twice = await site.coordinator.refused(classify, classifying(task_id, task_type))
    assert (twice.code, twice.reason) == (FAILED_PRECONDITION, "ALREADY_CLASSIFIED")
    request.task_type = "ANOTHER"
    conflict = await site.coordinator.refused(classify, request)
    assert (conflict.code, conflict.reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_CONFLICT")
    assert await count_rows(database_url) == before

    review_ = await site.worker.report(
        event_type=common_pb2.STEP_PROGRESS,
        source_seq=2,
        execution_handle=context.execution_handle,
        business_status="PARSING",
        phase_code="OCR",
    )
    assert review_.business_status == "PARSING"
    view = await snapshot(site, task_id)
    assert (view.task_type, view.product_id, view.status_definition_version) == (task_type, "knowledge", 1)
    events = await site.owner.call(
        site.owner.query.ListTaskEvents, query_service_pb2.ListTaskEventsRequest(task_id=task_id, limit=50)
    )
    told = next(event for event in events.events if event.event_type == common_pb2.TASK_CLASSIFIED)
    assert (told.event_id, told.task_version) == (request.command_id, 3)
    assert json_format.MessageToDict(told.data)["value"]["taskType"] == task_type


@pytest.mark.parametrize("who", ["another coordinator", "another scope", "worker", "owner"])
async def test_r8_only_the_recorded_coordinator_classifies(site: Site, who: str) -> None:
    task_id = await new_task(site.coordinator)
    callers = {
        "another coordinator": (
            site.caller(site.tokens.service("someone", Role.COORDINATOR)),
            grpc.StatusCode.PERMISSION_DENIED,
        ),
        "another scope": (
            site.caller(site.tokens.service("coordinator", Role.COORDINATOR, scope="billing")),
            NOT_FOUND,
        ),
        "worker": (site.worker, grpc.StatusCode.PERMISSION_DENIED),
        "owner": (site.owner, grpc.StatusCode.PERMISSION_DENIED),
    }
    caller, code = callers[who]
    refusal = await caller.refused(caller.register.ClassifyTask, classifying(task_id, "VIDEO"))
    assert refusal.code is code


async def test_r8_an_ended_task_is_classified_no_more(site: Site) -> None:
    task_id = await new_task(site.coordinator)
    await site.coordinator.report(event_type=common_pb2.TASK_COMPLETED, source_seq=1, task_id=task_id)
    refusal = await site.coordinator.refused(site.coordinator.register.ClassifyTask, classifying(task_id, "VIDEO"))
    assert (refusal.code, refusal.reason) == (FAILED_PRECONDITION, "TERMINAL")


async def test_r8_of_classifications_at_once_one_binds(site: Site) -> None:
    task_type = await published(site)
    task_id = await new_task(site.coordinator)
    classify = site.coordinator.register.ClassifyTask
    answers = await asyncio.gather(
        *(site.coordinator.call(classify, classifying(task_id, task_type)) for _ in range(6)), return_exceptions=True
    )
    won = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert [answer.change.task_version for answer in won] == [2]


async def test_l5_a_breaking_request_publishes_nothing_of_it(site: Site, database_url: str) -> None:
    task_type = await published(site)
    breaking = parsing("DOCUMENT.PARSE", task_type, 2)
    breaking["schemas"][0]["jsonSchema"]["properties"]["pageCount"] = {"type": "string"}
    only_first = review(task_type)["statuses"][:1]
    before = await count_rows(database_url)
    tool = admin(site)
    for items, code, reason in (
        ([breaking, review(task_type, 2)], FAILED_PRECONDITION, "DEFINITION_INCOMPATIBLE"),
        ([review(task_type, statuses=only_first)], FAILED_PRECONDITION, "DEFINITION_INCOMPATIBLE"),
        ([review("*")], INVALID_ARGUMENT, "INVALID_ARGUMENT"),
        ([review(task_type, 3, statuses=[])], INVALID_ARGUMENT, "INVALID_ARGUMENT"),
    ):
        request = json_format.ParseDict(publishing(*items), definitions_pb2.PublishDefinitionsRequest())
        refusal = await tool.refused(tool.admin.PublishDefinitions, request)
        assert (refusal.code, refusal.reason) == (code, reason)
    assert await count_rows(database_url) == before
    listing = await tool.call(tool.admin.ListDefinitions, definitions_pb2.ListDefinitionsRequest(task_type=task_type))
    assert ([item.version for item in listing.operations], [item.version for item in listing.statuses]) == ([1], [1])


async def test_l5_another_replica_judges_by_a_definition_that_it_never_saw(open_site: OpenSite) -> None:
    """Published, bound and reported within one period of the other replica's reading."""
    here, there = await open_site(), await open_site()
    task_type = await published(here)
    task_id = await new_task(here.coordinator, task_type=task_type)
    handle = (await activate(here.coordinator, task_id)).execution_handle
    refusal = await there.worker.report_refused(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle, business_status="WAITING_REVIEW"
    )
    assert refusal.reason == "TRANSITION_NOT_ALLOWED"
    answer = await there.worker.report(
        event_type=common_pb2.STEP_STARTED, source_seq=1, execution_handle=handle, business_status="PARSING"
    )
    assert answer.business_status == "PARSING"
    named = await new_task(there.coordinator, task_type=task_type, status_definition_version=1)
    assert (await snapshot(there, named)).status_definition_version == 1
    asked = definitions_pb2.GetStatusDefinitionRequest(task_type=task_type, version=1)
    shown = await there.owner.call(there.owner.query.GetStatusDefinition, asked)
    assert shown.status_definition.task_type == task_type


async def test_id1_people_of_another_tenant_find_no_definition(site: Site) -> None:
    task_type = await published(site)
    stranger = site.caller(site.tokens.person(OWNER, tenant="another"))
    asked = definitions_pb2.GetStatusDefinitionRequest(task_type=task_type, version=1)
    refusal = await stranger.refused(stranger.query.GetStatusDefinition, asked)
    assert (refusal.code, refusal.reason) == (NOT_FOUND, "DEFINITION_NOT_FOUND")


async def test_l6_a_step_without_a_policy_takes_that_of_the_bound_version(site: Site) -> None:
    task_type = await published(site)
    steps = [step(failure_policy=0)]
    old = await new_task(site.coordinator, task_type=task_type, known_steps=steps, operation_definition_version=1)
    await publish(site, parsing("DOCUMENT.PARSE", task_type, 2, failurePolicy="FAIL_TASK"))
    again = await new_task(site.coordinator, task_type=task_type, known_steps=steps, operation_definition_version=1)
    new = await new_task(site.coordinator, task_type=task_type, known_steps=steps)
    policies = [(await snapshot(site, task_id)).steps[0].failure_policy for task_id in (old, again, new)]
    assert policies == [common_pb2.WAIT_FOR_USER, common_pb2.WAIT_FOR_USER, common_pb2.FAIL_TASK]
