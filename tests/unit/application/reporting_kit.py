"""Reporting over the in-memory store, with a writer that keeps what it was given."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.definitions.schemas import CompiledSchemas
from taskstatus.adapters.memory.audit import MemoryAudit
from taskstatus.adapters.memory.renewal import MemoryRenewal
from taskstatus.application.call_group import CallGroup
from taskstatus.application.data_rules import DataRules
from taskstatus.application.executions import BoundExecution
from taskstatus.application.identity import Role, ServiceIdentity
from taskstatus.application.rate_limit import RateLimit, RateLimiter
from taskstatus.application.report import EventDraft, Rejections, Reporting, UndecodedEvent
from taskstatus.domain.commands import StatedFields, TaskEventCommand
from taskstatus.domain.events import EventType
from taskstatus.domain.reasons import Reason
from taskstatus.domain.verdicts import Verdict, refused
from tests.unit.factories import (
    COORDINATOR,
    MONOTONIC_NOW,
    PARSER,
    UNIX_NOW,
    a_task_spec,
    a_workflow_command,
    an_activation,
    content,
)
from tests.unit.service_kit import Kit, a_service, drive

WORKER = a_service(PARSER, Role.WORKER)
COORDINATOR_SERVICE = a_service(COORDINATOR, Role.COORDINATOR)


@dataclass(frozen=True)
class Ready:
    """Gives its verdict at once."""

    verdict: Verdict

    def __await__(self) -> Generator[Any, None, Verdict]:
        return self.verdict
        yield


@dataclass
class DirectWriter:
    """The port EventWriter without lanes: commits each command on its own, at once."""

    kit: Kit
    submitted: list[TaskEventCommand] = field(default_factory=list)
    groups: list[CallGroup] = field(default_factory=list)

    def submit(self, command: TaskEventCommand, group: CallGroup) -> Ready:
        """Commit it."""
        if command.execution_id is not None and group.is_broken(command.execution_id):
            return Ready(refused(Reason.UNAVAILABLE, "an earlier item of this execution must be sent again first"))
        self.submitted.append(command)
        self.groups.append(group)
        return Ready(self.kit.report(command)[0])


class ReportingKit:
    """A document task with one activated step, and the means to report about it."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.writer = DirectWriter(kit)
        self.audit = MemoryAudit()
        self.leases = MemoryRenewal()
        self.reporting = Reporting(
            kit.executions,
            DataRules(kit.definitions, CompiledSchemas()),
            canonicalize,
            self.writer,
            RateLimiter(kit.clock, RateLimit()),
            Rejections(kit.observer, self.audit),
            self.leases,
        )
        drive(kit.registration.create_workflow(a_workflow_command(a_task_spec("02_parse"))))
        self.bound = self.activate()

    def activate(self, attempt: int = 1) -> BoundExecution:
        """An attempt of the step."""
        return drive(
            self.kit.registration.activate(an_activation(self.kit.only_task().envelope.task_id, attempt=attempt))
        )

    @property
    def token(self) -> str:
        """The execution's token."""
        return self.bound.credentials.token

    @property
    def handle(self) -> str:
        """The execution's handle."""
        return self.bound.credentials.handle

    def draft(
        self,
        event_type: EventType = EventType.STEP_STARTED,
        source_seq: int = 1,
        *,
        caller: ServiceIdentity = WORKER,
        token: str = "",
        handle: str = "",
        stated: StatedFields | None = None,
        **changes: Any,
    ) -> EventDraft:
        """One decoded event."""
        return EventDraft(
            caller=caller,
            execution_token=token,
            execution_handle=handle,
            stated=stated or StatedFields(),
            content=content(event_type, source_seq, **changes),
            transport="grpc",
            received_monotonic=MONOTONIC_NOW,
            received_unix=UNIX_NOW,
            trace_id=bytes(range(16)),
            traceparent="00-trace",
        )

    def by_token(
        self, event_type: EventType = EventType.STEP_STARTED, source_seq: int = 1, **changes: Any
    ) -> EventDraft:
        """An event of the execution in its full form's credential."""
        return self.draft(event_type, source_seq, token=self.token, **changes)

    def by_handle(
        self, event_type: EventType = EventType.STEP_STARTED, source_seq: int = 1, **changes: Any
    ) -> EventDraft:
        """An event of the execution in its compact form."""
        return self.draft(event_type, source_seq, handle=self.handle, **changes)

    def report(self, *drafts: EventDraft | UndecodedEvent) -> list[Verdict]:
        """One call with these items."""
        return drive(self.reporting.report_all(drafts))
