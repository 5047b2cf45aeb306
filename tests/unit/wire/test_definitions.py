"""Definitions by RPC: the same document as the file's, paths in the request's names, and the way back (L-4, L-5)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from taskstatus_pb.v1 import common_pb2, definitions_pb2, task_commands_pb2

from taskstatus.adapters.definitions import catalogue as catalogue_module
from taskstatus.adapters.definitions.catalogue import Catalogue
from taskstatus.adapters.definitions.documents import parse_document
from taskstatus.adapters.definitions.registry import CachedRegistry
from taskstatus.adapters.memory.clock import MemoryDatabaseClock
from taskstatus.adapters.memory.definitions import MemoryDefinitionTable
from taskstatus.application.access import METHOD_ROLES
from taskstatus.application.definitions import Definitions
from taskstatus.application.identity import Identity, Role, UserIdentity
from taskstatus.application.service import TaskStatusService
from taskstatus.domain.business_status import GENERIC_STATUSES
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import format_task_id
from taskstatus.domain.lifecycle import Lifecycle
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.wire.decode_definitions import to_document
from taskstatus.entrypoints.wire.encode import execution_context
from taskstatus.entrypoints.wire.encode_view import task_snapshot
from taskstatus.entrypoints.wire.handlers_definitions import DefinitionHandlers
from tests.unit.definitions.building import document, operation, status, statuses
from tests.unit.factories import (
    COORDINATOR,
    REVIEWED,
    TASK_ID,
    TENANT,
    UNIX_NOW,
    a_running_step,
    a_step,
    a_task,
    a_task_in,
    an_activation,
    an_operation,
)
from tests.unit.service_kit import Kit, a_service, drive

from .requests import a_call

ADMIN = a_service("admin-tool", Role.ADMIN)
OTHER_SCOPE = a_service("admin-tool", Role.ADMIN, scope="billing")
PERSON = UserIdentity(TENANT, "u-7", frozenset(), frozenset(), UNIX_NOW + 600)
SERVICE = "taskstatus.v1."

OPERATION: dict[str, Any] = {
    "operationCode": "DOCUMENT.PARSE",
    "version": 2,
    "taskType": "DOCUMENT_PROCESS",
    "displayName": "Parse",
    "producers": ["document-*"],
    "events": ["STEP_STARTED", "STEP_COMPLETED"],
    "failurePolicy": "WAIT_FOR_USER",
    "idempotent": True,
    "schemas": [
        {
            "name": "document.parse.completed.v2",
            "events": ["STEP_COMPLETED"],
            "jsonSchema": {
                "type": "object",
                "properties": {"pageCount": {"type": "integer", "minimum": 0}},
                "required": ["pageCount"],
            },
            "detailFields": ["pageCount"],
            "summaryFields": ["pageCount"],
            "maxBytes": 2000,
        }
    ],
}
STATUSES: dict[str, Any] = {
    "taskType": "DOCUMENT_PROCESS",
    "version": 3,
    "statuses": [
        {
            "code": "PARSING",
            "lifecycleStatus": "RUNNING",
            "allowedFrom": ["PENDING", "RUNNING"],
            "displayName": "Parsing",
            "severity": "INFO",
            "sortOrder": -1,
            "presentation": {
                "colorToken": "info",
                "iconKey": "cog",
                "titleKey": "status.parsing",
                "descriptionKey": "status.parsing.long",
            },
        },
        {"code": "PUBLISHED", "lifecycleStatus": "SUCCEEDED", "severity": "WARNING", "presentation": {}},
    ],
}


class Line:
    """The handlers over one table and a registry that follows it."""

    def __init__(self) -> None:
        self.table = MemoryDefinitionTable(MemoryDatabaseClock())
        self.registry = CachedRegistry(self.table)
        drive(self.registry.run_once())
        self.kit = Kit()
        definitions = Definitions(Catalogue(self.table), self.registry)
        service = SimpleNamespace(definitions=definitions, classification=self.kit.classification)
        self._handlers = DefinitionHandlers(cast(TaskStatusService, service)).by_method()

    def call(self, method: str, request: Message, caller: Identity = ADMIN) -> Any:
        """The response of a method."""
        return drive(self._handlers[SERVICE + method](request, caller, a_call()))  # type: ignore[arg-type]

    def refused(self, method: str, request: Message, caller: Identity = ADMIN) -> RefusedError:
        """The refusal of a method."""
        with pytest.raises(RefusedError) as raised:
            self.call(method, request, caller)
        return raised.value

    def publish(self, *items: dict[str, Any], caller: Identity = ADMIN, **fields: Any) -> Any:
        """PublishDefinitions."""
        return self.call("AdminService/PublishDefinitions", publishing(*items, **fields), caller)


def publishing(*items: dict[str, Any], **fields: Any) -> definitions_pb2.PublishDefinitionsRequest:
    """A request in its JSON form."""
    request = {
        "operations": [item for item in items if "operationCode" in item],
        "statuses": [item for item in items if "operationCode" not in item],
        **fields,
    }
    return json_format.ParseDict(request, definitions_pb2.PublishDefinitionsRequest())


def asked(version: int, task_type: str = "DOCUMENT_PROCESS") -> definitions_pb2.GetStatusDefinitionRequest:
    """GetStatusDefinition."""
    return definitions_pb2.GetStatusDefinitionRequest(task_type=task_type, version=version)


@pytest.fixture
def line() -> Line:
    """Nothing is published."""
    return Line()


def test_l5_a_request_and_a_file_of_the_same_content_are_stored_alike() -> None:
    by_file = document(
        operation(
            2,
            OPERATION["schemas"][0]["jsonSchema"],
            taskType="DOCUMENT_PROCESS",
        ),
        statuses(3, status("PARSING", allowedFrom=["RUNNING", "PENDING"])),
    )
    plain = {
        **OPERATION,
        "producers": ["document-parser"],
        "displayName": "",
        "failurePolicy": "FAILURE_POLICY_UNSPECIFIED",
        "idempotent": False,
        "events": [],
    }
    plain["schemas"] = [
        {key: value for key, value in OPERATION["schemas"][0].items() if key in ("name", "events", "jsonSchema")}
    ]
    listed = {"code": "PARSING", "lifecycleStatus": "RUNNING", "allowedFrom": ["PENDING", "RUNNING"]}
    by_request = to_document(publishing(plain, {**STATUSES, "statuses": [listed]}))
    assert parse_document(by_request, "request") == parse_document(by_file, "file")


def test_l5_what_is_published_is_listed_as_it_was_sent(line: Line) -> None:
    response = line.publish(OPERATION, STATUSES)
    assert (response.published, response.unchanged, len(response.differences)) == (2, 0, 2)

    listing = line.call("AdminService/ListDefinitions", definitions_pb2.ListDefinitionsRequest())

    (found,) = listing.operations
    assert found.HasField("published_at")
    assert not found.HasField("retired_at")
    found.ClearField("published_at")
    assert json_format.MessageToDict(found) == OPERATION
    (kept,) = listing.statuses
    kept.ClearField("published_at")
    assert json_format.MessageToDict(kept) == STATUSES
    again = line.publish(json_format.MessageToDict(found), json_format.MessageToDict(kept))
    assert (again.published, again.unchanged) == (0, 2)


@pytest.mark.parametrize(
    ("items", "fields"),
    [
        ([{**OPERATION, "operationCode": ""}], {"operations[0].operationCode"}),
        ([{**OPERATION, "version": 0}], {"operations[0].version"}),
        ([{**OPERATION, "producers": []}], {"operations[0].producers"}),
        ([OPERATION, {**OPERATION, "events": ["TASK_COMPLETED"]}], {"operations[1].events"}),
        (
            [{**OPERATION, "schemas": [{**OPERATION["schemas"][0], "jsonSchema": {"type": "array"}}]}],
            {"operations[0].schemas[0].jsonSchema"},
        ),
        (
            [{**OPERATION, "schemas": [{**OPERATION["schemas"][0], "detailFields": [f"f{'x' * 400}"]}]}],
            {"operations[0].schemas[0]"},
        ),
        ([{**OPERATION, "events": ["EVENT_TYPE_UNSPECIFIED"]}], {"operations[0].events[0]"}),
        ([{**STATUSES, "taskType": "*"}], {"statuses[0].taskType"}),
        ([{**STATUSES, "statuses": []}], {"statuses[0].statuses"}),
        ([{**STATUSES, "statuses": [{"code": "A"}]}], {"statuses[0].statuses[0].lifecycleStatus"}),
        (
            [{**STATUSES, "statuses": [{"code": "A", "lifecycleStatus": "RUNNING", "allowedFrom": ["B"]}]}],
            {"statuses[0].statuses[0].allowedFrom"},
        ),
        ([STATUSES, STATUSES], {"statuses[1].version"}),
        ([], {"operations"}),
    ],
)
def test_l5_a_malformed_request_names_its_own_fields(line: Line, items: list[Any], fields: set[str]) -> None:
    refusal = line.refused("AdminService/PublishDefinitions", publishing(*items))
    assert refusal.reason is Reason.INVALID_ARGUMENT
    assert {violation.field for violation in refusal.violations} == fields
    assert refusal.message.startswith(refusal.violations[0].field)
    assert all(len(violation.description) <= 200 for violation in refusal.violations)
    assert drive(line.table.of_scope(ADMIN.tenant_id, ADMIN.authority_scope)) == []


def test_l5_numbers_that_no_json_has_are_refused(line: Line) -> None:
    request = publishing(OPERATION)
    request.operations[0].schemas[0].json_schema["const"] = float("inf")
    refusal = line.refused("AdminService/PublishDefinitions", request)
    assert refusal.violations[0].field == "operations[0].schemas[0].jsonSchema"


def test_l5_enum_numbers_of_a_later_release_are_refused(line: Line) -> None:
    request = publishing(STATUSES)
    request.statuses[0].statuses[0].severity = cast(Any, 77)
    refusal = line.refused("AdminService/PublishDefinitions", request)
    assert refusal.violations[0].field == "statuses[0].statuses[0].severity"


def test_l5_what_would_break_is_told_and_not_published(line: Line) -> None:
    line.publish(OPERATION)
    breaking = {**OPERATION, "idempotent": False}
    refusal = line.refused("AdminService/PublishDefinitions", publishing(breaking, STATUSES))
    assert (refusal.reason, refusal.violations) == (Reason.DEFINITION_INCOMPATIBLE, ())
    assert "publish version 3" in refusal.message
    many = [{**OPERATION, "operationCode": f"OP.{n}"} for n in range(9)]
    line.publish(*many)
    refusal = line.refused(
        "AdminService/PublishDefinitions", publishing(*({**item, "idempotent": False} for item in many))
    )
    assert refusal.message.endswith("and 4 more")


def test_l5_a_dry_run_tells_the_difference_only(line: Line) -> None:
    response = line.publish(STATUSES, dryRun=True)
    assert response.published == 1
    assert '+      "code": "PARSING",' in response.differences[0]
    assert drive(line.table.of_scope(ADMIN.tenant_id, ADMIN.authority_scope)) == []


def test_l5_a_listing_that_is_too_long_asks_for_less(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    line.publish(OPERATION, STATUSES)
    monkeypatch.setattr(catalogue_module, "LISTING_MAX_BYTES", 400)
    refusal = line.refused("AdminService/ListDefinitions", definitions_pb2.ListDefinitionsRequest())
    assert refusal.reason is Reason.INVALID_ARGUMENT


def test_id1_definitions_are_the_callers_own_scopes(line: Line) -> None:
    line.publish(OPERATION, STATUSES)
    empty = line.call("AdminService/ListDefinitions", definitions_pb2.ListDefinitionsRequest(), OTHER_SCOPE)
    assert empty == definitions_pb2.ListDefinitionsResponse()
    retire = definitions_pb2.RetireDefinitionRequest(task_type="DOCUMENT_PROCESS", version=3)
    assert line.refused("AdminService/RetireDefinition", retire, OTHER_SCOPE).reason is Reason.DEFINITION_NOT_FOUND
    assert line.refused("QueryService/GetStatusDefinition", asked(3), OTHER_SCOPE).reason is Reason.DEFINITION_NOT_FOUND


def test_l5_a_retired_version_is_told_and_still_read(line: Line) -> None:
    line.publish(OPERATION, STATUSES)
    retire = definitions_pb2.RetireDefinitionRequest(task_type="DOCUMENT_PROCESS", version=3)
    first = line.call("AdminService/RetireDefinition", retire)
    assert line.call("AdminService/RetireDefinition", retire) == first
    found = line.call("QueryService/GetStatusDefinition", asked(3), PERSON).status_definition
    assert found.retired_at == first.retired_at
    assert [item.code for item in found.statuses] == ["PARSING", "PUBLISHED"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (definitions_pb2.RetireDefinitionRequest(version=1), "taskType"),
        (definitions_pb2.RetireDefinitionRequest(operation_code="A"), "version"),
        (definitions_pb2.RetireDefinitionRequest(operation_code="A", version=2**31), "version"),
        (definitions_pb2.RetireDefinitionRequest(operation_code="A B", version=1), "operationCode"),
    ],
)
def test_l5_a_malformed_retirement_names_the_field(line: Line, request_: Message, field: str) -> None:
    refusal = line.refused("AdminService/RetireDefinition", request_)
    assert (refusal.reason, refusal.violations[0].field) == (Reason.INVALID_ARGUMENT, field)


def test_l5_operations_of_any_type_are_retired_without_naming_one(line: Line) -> None:
    line.publish({key: value for key, value in OPERATION.items() if key != "taskType"})
    retire = definitions_pb2.RetireDefinitionRequest(operation_code="DOCUMENT.PARSE", version=2)
    assert line.call("AdminService/RetireDefinition", retire).HasField("retired_at")


@pytest.mark.parametrize("caller", [ADMIN, PERSON])
def test_l4_statuses_are_read_by_services_and_people(line: Line, caller: Identity) -> None:
    line.publish(STATUSES)
    found = line.call("QueryService/GetStatusDefinition", asked(3), caller).status_definition
    shown = found.statuses[0]
    assert (found.version, shown.code, shown.lifecycle_status) == (3, "PARSING", common_pb2.RUNNING)
    assert shown.presentation.color_token == "info"
    assert line.refused("QueryService/GetStatusDefinition", asked(4), caller).reason is Reason.DEFINITION_NOT_FOUND


def test_l4_version_0_are_the_generic_statuses(line: Line) -> None:
    found = line.call("QueryService/GetStatusDefinition", asked(0, "ANYTHING"), PERSON).status_definition
    lifecycles = {item.code: common_pb2.LifecycleStatus.Name(item.lifecycle_status) for item in found.statuses}
    assert lifecycles == {code: lifecycle.value for code, lifecycle in GENERIC_STATUSES.items()}
    assert not found.HasField("published_at")
    malformed = line.refused("QueryService/GetStatusDefinition", asked(0, "A B"), PERSON)
    assert malformed.reason is Reason.INVALID_ARGUMENT


def test_l5_a_version_that_another_replica_published_is_read_when_it_is_asked_for(line: Line) -> None:
    elsewhere = Catalogue(line.table)
    drive(elsewhere.publish(ADMIN.tenant_id, ADMIN.authority_scope, document(statuses(8)), "another", dry_run=False))
    assert line.call("QueryService/GetStatusDefinition", asked(8), PERSON).status_definition.version == 8


def test_l5_administrators_publish_and_everybody_reads_statuses() -> None:
    for method in ("PublishDefinitions", "ListDefinitions", "RetireDefinition"):
        assert METHOD_ROLES[f"{SERVICE}AdminService/{method}"] == {Role.ADMIN}
    assert METHOD_ROLES[f"{SERVICE}QueryService/GetStatusDefinition"] == set(Role)
    assert METHOD_ROLES[f"{SERVICE}RegisterService/ClassifyTask"] == {Role.COORDINATOR}


# ClassifyTask, and what shows it.


def classifying(**fields: Any) -> task_commands_pb2.ClassifyTaskRequest:
    """ClassifyTask on the task."""
    defaults = {"command_id": "cmd-1", "task_id": format_task_id(TASK_ID), "task_type": REVIEWED.task_type}
    return task_commands_pb2.ClassifyTaskRequest(**{**defaults, **fields})


def test_r8_classification_answers_with_what_was_bound_and_so_does_its_repeat(line: Line) -> None:
    line.kit.definitions.add(REVIEWED, an_operation(version=4, task_type=REVIEWED.task_type))
    line.kit.put(a_task_in(Lifecycle.RUNNING, task_type="", version=4), a_running_step())
    coordinator = a_service(COORDINATOR, Role.COORDINATOR)

    answers = [
        line.call("RegisterService/ClassifyTask", classifying(expected_task_version=4, product_id="p"), coordinator)
        for _ in range(2)
    ]

    assert [(a.change.task_version, a.change.changed, a.change.duplicate) for a in answers] == [
        (5, True, False),
        (5, True, True),
    ]
    assert {(a.status_definition_version, a.operation_definition_version) for a in answers} == {(1, 4)}
    assert line.kit.only_task().envelope.product_id == "p"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"task_type": ""}, "taskType"),
        ({"task_type": "*"}, "taskType"),
        ({"task_type": "A B"}, "taskType"),
        ({"product_id": "p q"}, "productId"),
        ({"command_id": ""}, "commandId"),
    ],
)
def test_r8_a_malformed_classification_names_the_field(line: Line, fields: dict[str, Any], field: str) -> None:
    refusal = line.refused("RegisterService/ClassifyTask", classifying(**fields), a_service(COORDINATOR))
    assert (refusal.reason, refusal.violations[0].field) == (Reason.INVALID_ARGUMENT, field)


def test_r4_context_and_snapshot_name_the_versions_bound(kit: Kit) -> None:
    kit.definitions.add(an_operation(version=3, task_type=REVIEWED.task_type))
    kit.put(a_task(status_definition_version=7, operation_definition_version=5), a_step(activated=False))
    context = execution_context(drive(kit.registration.activate(an_activation())))
    assert (context.status_definition_version, context.operation_definition_version) == (7, 3)
    view = drive(kit.reader.task_views([TASK_ID], with_trigger=False))[TASK_ID]
    snapshot = task_snapshot(view)
    assert (snapshot.status_definition_version, snapshot.operation_definition_version) == (7, 5)
