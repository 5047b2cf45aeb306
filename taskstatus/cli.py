"""The ``taskstatus`` command: serve, migrate, check-config, token (development), outbox, stuck, explain."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
import uvloop

from taskstatus import bootstrap
from taskstatus.adapters.clock import SystemClock, SystemRandomness
from taskstatus.adapters.definitions.catalogue import Catalogue
from taskstatus.adapters.definitions.documents import DefinitionsError, read_definitions
from taskstatus.adapters.mysql.definition_table import DefinitionTable
from taskstatus.adapters.mysql.engine import Database, open_database
from taskstatus.adapters.mysql.errors import DatabaseError
from taskstatus.adapters.mysql.migrate import migrate as run_migrations
from taskstatus.adapters.mysql.outbox_admin import OutboxAdmin
from taskstatus.adapters.mysql.reader import MySqlTaskReader
from taskstatus.adapters.mysql.stuck_table import StuckTable
from taskstatus.adapters.mysql.transactions import MySqlTaskStore
from taskstatus.adapters.tokens import dev_tokens
from taskstatus.adapters.tokens.errors import CredentialConfigError
from taskstatus.application.identity import Role
from taskstatus.application.ports_definitions import DefinitionKey
from taskstatus.application.ports_health import StuckExecution, StuckPosition
from taskstatus.application.ports_store import StoreRefusedError, StoreUnavailableError
from taskstatus.application.reason_guide import explain as explain_reason
from taskstatus.domain.definitions import ANY_TASK_TYPE
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.ids import format_execution_id, format_task_id
from taskstatus.domain.reasons import Reason
from taskstatus.entrypoints.wire.statuses import GRPC_STATUS
from taskstatus.settings import Settings, SettingsError, load_settings

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Truthful status of asynchronous work.")
token_app = typer.Typer(no_args_is_help=True, help="Development tokens; never for production.")
outbox_app = typer.Typer(no_args_is_help=True, help="Notifications that were given up.")
app.add_typer(token_app, name="token")
definitions_app = typer.Typer(no_args_is_help=True, help="What operations may report, and business statuses of types.")
app.add_typer(outbox_app, name="outbox")
app.add_typer(definitions_app, name="definitions")


def main() -> None:
    """The console script."""
    app()


@app.command()
def serve() -> None:
    """Serve gRPC until SIGTERM or SIGINT, then drain."""
    settings = _settings()
    bootstrap.configure_process(settings, "serve")
    _run(lambda: bootstrap.serve_grpc(settings))


@app.command()
def migrate() -> None:
    """Create or upgrade the database's tables; safe to run twice and beside another one."""
    settings = _settings()
    _run(lambda: run_migrations(settings.database_url.get_secret_value()))
    typer.echo("The database is up to date.")


@app.command("check-config")
def check_config() -> None:
    """Print every setting, secrets masked, and try the files and the database that they name."""
    settings = _settings()
    for name, value in settings.printable().items():
        typer.echo(f"{name}={value}")
    problems = asyncio.run(bootstrap.check_configuration(settings))
    for problem in problems:
        typer.echo(f"problem: {problem}", err=True)
    if problems:
        raise typer.Exit(1)
    typer.echo("The configuration works.")


@app.command()
def explain(reason: Annotated[str, typer.Argument(help="A reason such as STALE_ATTEMPT")]) -> None:
    """Say what a reason means, which guard gives it, and what to do."""
    try:
        known = Reason(reason.upper())
    except ValueError:
        _fail(f"{reason} is not a reason of taskstatus; these are: {', '.join(Reason)}")
    typer.echo(explain_reason(known))
    typer.echo(f"  gRPC status of a refused call: {GRPC_STATUS[known].name}")


@app.command()
def stuck(
    tenant: Annotated[str, typer.Option()] = "demo",
    scope: Annotated[str, typer.Option()] = "demo",
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable")] = False,
) -> None:
    """List executions and tasks that somebody should look at; nothing fails them by itself."""
    found = _with_database(lambda database: _stuck(database, tenant, scope, limit))
    if as_json:
        typer.echo(json.dumps([asdict(execution) for execution in found], default=_text_of))
        return
    for entry in found:
        at, named = f"run {entry.task_attempt}", format_task_id(entry.task_id)
        if entry.execution_id is not None:
            at = f"{entry.step_id} attempt {entry.step_attempt}"
            named = f"{named} {format_execution_id(entry.execution_id)}"
        causes = ", ".join(entry.causes)
        typer.echo(f"{entry.since:%Y-%m-%d %H:%M:%S}  {causes}  {entry.title}: {at} of {entry.producer_id}  {named}")
    typer.echo(f"{len(found)} entries", err=True)


async def _stuck(database: Database, tenant: str, scope: str, limit: int) -> list[StuckExecution]:
    table, found = StuckTable(MySqlTaskReader(database.reader)), list[StuckExecution]()
    position: StuckPosition | None = None
    while len(found) < limit:
        page = await table.page(tenant, scope, position, limit - len(found))
        found += page.executions
        position = page.next_position
        if position is None:
            break
    return found


@token_app.command("service")
def service_token(
    producer: Annotated[str, typer.Argument(help="producer_id of the service")],
    role: Annotated[list[Role], typer.Option(help="May be repeated")],
    tenant: Annotated[str, typer.Option()] = "demo",
    scope: Annotated[str, typer.Option()] = "demo",
    seconds: Annotated[int, typer.Option(min=1, max=86_400, help="Lifetime")] = dev_tokens.DEV_TTL_SECONDS,
) -> None:
    """A service's JWT, signed with the development key of the identity file."""
    service = dev_tokens.DevService(tenant, scope, producer, frozenset(role))
    typer.echo(_mint(lambda path: dev_tokens.mint_service_token(path, SystemClock(), service, ttl_seconds=seconds)))


@token_app.command("person")
def person_token(
    user: Annotated[str, typer.Argument(help="The person's id")],
    tenant: Annotated[str, typer.Option()] = "demo",
    seconds: Annotated[int, typer.Option(min=1, max=86_400, help="Lifetime")] = dev_tokens.DEV_TTL_SECONDS,
) -> None:
    """A person's JWT, signed with the development key of the identity file."""
    person = dev_tokens.DevPerson(tenant, user)
    typer.echo(_mint(lambda path: dev_tokens.mint_person_token(path, SystemClock(), person, ttl_seconds=seconds)))


@outbox_app.command("list")
def outbox_list(
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable")] = False,
) -> None:
    """List the notifications that were given up (DEAD), with their causes."""
    rows = _with_outbox(lambda admin: admin.dead_rows(limit))
    if as_json:
        typer.echo(json.dumps([asdict(row) | {"outbox_id": row.outbox_id.hex()} for row in rows], default=_text_of))
        return
    for row in rows:
        typer.echo(
            f"{row.outbox_id.hex()}  {row.dead_at:%Y-%m-%d %H:%M:%S}  {row.projection} of {row.aggregate_type}"
            f" {row.aggregate_id.hex()} version {row.aggregate_version}: {row.last_error}"
        )
    typer.echo(f"{len(rows)} dead notifications", err=True)


@outbox_app.command("requeue")
def outbox_requeue(
    outbox_ids: Annotated[list[str], typer.Argument(help="Ids from `outbox list`")],
) -> None:
    """Make dead notifications due again, with a fresh budget of failures."""
    try:
        ids = [bytes.fromhex(text) for text in outbox_ids]
    except ValueError as error:
        _fail(f"an outbox id is 32 hex digits: {error}")
    requeued = _with_outbox(lambda admin: admin.requeue(ids))
    typer.echo(f"{requeued} of {len(ids)} requeued")
    if requeued < len(ids):
        raise typer.Exit(1)


@definitions_app.command("apply")
def definitions_apply(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="YAML or JSON")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference only")] = False,
) -> None:
    """Publish the definitions of a file, all or none: new versions are added, published ones never change."""
    try:
        wanted = read_definitions(file)
    except (DefinitionsError, OSError) as error:
        _fail(str(error))
    if not wanted.definitions:
        typer.echo("The file defines nothing.")
        return
    scope = (wanted.tenant_id, wanted.authority_scope)
    try:
        done = _with_definitions(
            lambda table: Catalogue(table).publish_all(*scope, wanted.definitions, _publisher(), dry_run=dry_run)
        )
    except RefusedError as refusal:
        typer.echo(f"problem: {refusal.message}\nNothing was published.", err=True)
        raise typer.Exit(1) from None
    for difference in done.differences:
        typer.echo(difference)
    verb = "would be published" if dry_run else "published"
    typer.echo(f"{done.published} versions {verb}, {done.unchanged} unchanged")


def _publisher() -> str:
    return f"cli:{getpass.getuser()}"[:200]


@definitions_app.command("list")
def definitions_list(
    tenant: Annotated[str, typer.Option()] = "demo", scope: Annotated[str, typer.Option()] = "demo"
) -> None:
    """List the published versions of a tenant and scope, retired ones too."""
    rows = _with_definitions(lambda table: table.of_scope(tenant, scope))
    for row in sorted(rows, key=lambda row: (row.key.operation_code, row.key.task_type, row.key.version)):
        subject = row.key.operation_code or "statuses"
        retired = f"  retired {row.retired_at:%Y-%m-%d %H:%M:%S}" if row.retired_at else ""
        typer.echo(
            f"{subject}  {row.key.task_type}  version {row.key.version}  {row.published_at:%Y-%m-%d %H:%M:%S}{retired}"
        )
    typer.echo(f"{len(rows)} versions", err=True)


@definitions_app.command("retire")
def definitions_retire(
    version: Annotated[int, typer.Argument(min=1)],
    operation: Annotated[str, typer.Option(help="Of this operation; without it of the type's statuses")] = "",
    task_type: Annotated[str, typer.Option("--type", help="The task type; operations: * unless given")] = "",
    tenant: Annotated[str, typer.Option()] = "demo",
    scope: Annotated[str, typer.Option()] = "demo",
) -> None:
    """Let nothing new bind a version; what is bound to it goes on."""
    if not operation and not task_type:
        _fail("name an operation (--operation) or a task type (--type)")
    key = DefinitionKey(operation, task_type or ANY_TASK_TYPE, version)
    retired_at = _with_definitions(lambda table: table.retire(tenant, scope, key))
    if retired_at is None:
        _fail("no such version is published")
    typer.echo(f"retired since {retired_at:%Y-%m-%d %H:%M:%S}")


T = TypeVar("T")


def _with_outbox(use: Callable[[OutboxAdmin], Coroutine[Any, Any, T]]) -> T:
    return _with_database(lambda database: use(OutboxAdmin(database.writer)))


def _with_definitions(use: Callable[[DefinitionTable], Coroutine[Any, Any, T]]) -> T:
    def table_of(database: Database) -> DefinitionTable:
        store = MySqlTaskStore(database.writer, SystemClock(), SystemRandomness())
        return DefinitionTable(store, MySqlTaskReader(database.reader))

    return _with_database(lambda database: use(table_of(database)))


def _with_database(use: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    url = _settings().database_url.get_secret_value()

    async def work() -> T:
        database = open_database(url)
        try:
            return await use(database)
        finally:
            await database.dispose()

    try:
        return asyncio.run(work())
    except (DatabaseError, StoreUnavailableError, StoreRefusedError) as error:
        _fail(f"the database: {error}")


def _text_of(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _mint(mint: Callable[[Path], str]) -> str:
    settings = _settings()
    if settings.identity_file is None:
        _fail("TASKSTATUS_IDENTITY_FILE is not set; after `make up`: source .run/env")
    try:
        return mint(settings.identity_file)
    except (CredentialConfigError, ValueError) as error:
        _fail(str(error))


def _settings() -> Settings:
    try:
        return load_settings()
    except SettingsError as error:
        _fail(f"{error}\nAfter `make up` the settings of the running stack are in .run/env: source it first.")


def _run(start: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(start())
    except (SettingsError, CredentialConfigError, DatabaseError, StoreUnavailableError, OSError) as error:
        _fail(str(error) or type(error).__name__)


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(2)
