"""Definitions by REST and by the command line, on real databases (T-3, L-5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from gateway_rest.app import RestSettings, create_app
from taskstatus.cli import app
from tests.integration.service.conftest import Site
from tests.integration.service.test_definition_commands import admin, parsing, publishing, review
from tests.integration.service.test_definitions import definition
from tests.support.clients import SCOPE, TENANT, Caller, new_task, unique


@pytest.fixture
async def rest(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    """The gateway over the same service."""
    gateway = create_app(site.service.dispatch, site.service.clock, site.service.is_ready, RestSettings())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway), base_url="http://rest.test") as client:
        yield client


def bearer(caller: Caller, **more: str) -> dict[str, str]:
    """Headers of a caller."""
    return {"authorization": f"Bearer {caller.token}", **more}


async def test_t3_definitions_and_classification_by_rest_alone(site: Site, rest: httpx.AsyncClient) -> None:
    task_type, tool = unique("DOCUMENT"), bearer(admin(site))
    body = publishing(review(task_type), parsing("DOCUMENT.PARSE", task_type))
    done = await rest.post("/internal/v1/admin/definitions", json=body, headers=tool)
    assert (done.status_code, done.json()["published"], done.json()["unchanged"]) == (200, 2, 0)
    again = await rest.post("/internal/v1/admin/definitions", json=body, headers=tool)
    assert (again.json()["published"], again.json()["unchanged"]) == (0, 2)
    listed = await rest.get("/internal/v1/admin/definitions", params={"taskType": task_type}, headers=tool)
    assert [item["version"] for item in listed.json()["statuses"]] == [1]

    task_id = await new_task(site.coordinator)
    path, coordinator = f"/internal/v1/tasks/{task_id}/classification", site.coordinator
    stale = await rest.patch(
        path,
        json={"taskType": task_type},
        headers=bearer(coordinator, **{"if-match": '"task-version-4"', "idempotency-key": unique("cmd")}),
    )
    assert (stale.status_code, stale.json()["reason"]) == (412, "VERSION_MISMATCH")
    bound = await rest.patch(
        path,
        json={"taskType": task_type, "statusDefinitionVersion": 1},
        headers=bearer(coordinator, **{"if-match": '"task-version-1"', "idempotency-key": unique("cmd")}),
    )
    assert (bound.status_code, bound.json()["statusDefinitionVersion"]) == (200, 1)
    assert bound.json()["change"]["taskVersion"] == "2"

    for prefix, caller in (("api", site.owner), ("internal", site.worker)):
        shown = await rest.get(f"/{prefix}/v1/status-definitions/{task_type}/1", headers=bearer(caller))
        assert [item["code"] for item in shown.json()["statuses"]] == ["PARSING", "WAITING_REVIEW", "PUBLISHED"]
    missing = await rest.get(f"/api/v1/status-definitions/{task_type}/2", headers=bearer(site.owner))
    assert (missing.status_code, missing.json()["reason"]) == (404, "DEFINITION_NOT_FOUND")

    gone = await rest.post(
        "/internal/v1/admin/definitions:retire", json={"taskType": task_type, "version": 1}, headers=tool
    )
    assert gone.status_code == 200
    assert gone.json()["retiredAt"]


@pytest.mark.parametrize(
    ("items", "status", "fields"),
    [
        ([{**review("T"), "version": 0}], 400, ["statuses[0].version"]),
        (
            [{"operationCode": "A", "version": 1, "producers": ["x"], "schemas": [{"name": "s", "jsonSchema": {}}]}],
            400,
            ["operations[0].schemas[0].events", "operations[0].schemas[0].jsonSchema"],
        ),
    ],
)
async def test_t3_a_malformed_publication_names_its_fields_by_rest(
    site: Site, rest: httpx.AsyncClient, items: list[Any], status: int, fields: list[str]
) -> None:
    answer = await rest.post("/internal/v1/admin/definitions", json=publishing(*items), headers=bearer(admin(site)))
    assert answer.status_code == status
    assert [item["field"] for item in answer.json()["violations"]] == fields


@pytest.mark.parametrize("method", ["publish", "list", "retire"])
async def test_l5_only_administrators_manage_definitions(site: Site, rest: httpx.AsyncClient, method: str) -> None:
    for caller in (site.coordinator, site.worker, site.owner):
        match method:
            case "publish":
                answer = await rest.post("/internal/v1/admin/definitions", json={}, headers=bearer(caller))
            case "list":
                answer = await rest.get("/internal/v1/admin/definitions", headers=bearer(caller))
            case _:
                answer = await rest.post("/internal/v1/admin/definitions:retire", json={}, headers=bearer(caller))
        assert (answer.status_code, answer.json()["reason"]) == (403, "PERMISSION_DENIED")


async def test_l5_the_command_line_publishes_lists_and_retires(
    site: Site, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKSTATUS_DATABASE_URL", database_url)
    scope, task_type = ["--tenant", TENANT, "--scope", SCOPE], unique("DOCUMENT")
    file = tmp_path / "definitions.yaml"

    async def run(*arguments: str, code: int = 0) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, app, ["definitions", *arguments])
        assert result.exit_code == code, result.output
        return str(result.output)

    def write(*statuses: dict[str, Any]) -> None:
        operation = {**definition(unique("DOCUMENT.PARSE")), "taskType": task_type}
        document = {"tenant": TENANT, "scope": SCOPE, "operations": [operation], "statuses": list(statuses)}
        file.write_text(json.dumps(document))

    write(review(task_type))
    assert "2 versions would be published, 0 unchanged" in await run("apply", str(file), "--dry-run")
    assert "2 versions published, 0 unchanged" in await run("apply", str(file))
    assert "0 versions published, 2 unchanged" in await run("apply", str(file))
    assert f"statuses  {task_type}  version 1" in await run("list", *scope)
    assert "retired since" in await run("retire", "1", "--type", task_type, *scope)
    assert "retired" in next(line for line in (await run("list", *scope)).splitlines() if f"s  {task_type}" in line)
    assert "no such version" in await run("retire", "7", "--type", task_type, *scope, code=2)
    assert "--operation" in await run("retire", "1", code=2)

    write(review(task_type, statuses=review(task_type)["statuses"][:1]))
    refused = await run("apply", str(file), code=1)
    assert "cannot change; publish version 2" in refused
    assert "Nothing was published." in refused
    write(review(task_type, 2, statuses=[{"code": "A", "lifecycleStatus": "RUNNING", "allowedFrom": ["B"]}]))
    assert "statuses[0].statuses[0].allowedFrom: B is no status" in await run("apply", str(file), code=2)
