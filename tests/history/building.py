"""A small true history, made by the pure domain: one task that fails once, is retried and ends well."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import orjson

from taskstatus.adapters.canonical import canonicalize
from taskstatus.adapters.memory.members import tally_of
from taskstatus.adapters.memory.tables import Tables
from taskstatus.domain.activation import ActivationRows, activate
from taskstatus.domain.batch import Arrival, WorkingSet, evaluate
from taskstatus.domain.commands import (
    ActivateAttempt,
    Caller,
    CreateWorkflow,
    Credential,
    EventContent,
    ReportedError,
    StatedFields,
    StepSpec,
    TaskEventCommand,
    TaskSpec,
)
from taskstatus.domain.creation import create_workflow
from taskstatus.domain.definitions import generic_profile
from taskstatus.domain.dynamic import DynamicLimits
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.health_changes import (
    EVENT_OF_SIGN,
    SERVICE_PRODUCER,
    HealthObservation,
    HealthSign,
    HealthTerms,
)
from taskstatus.domain.ids import ExecutionId, TaskId, WorkflowId, make_id
from taskstatus.domain.lease import patience_seconds
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.progress import Progress
from taskstatus.domain.projections import render_detail
from taskstatus.domain.records import ChangeSet, OutboxKind, Projection, TaskView
from taskstatus.domain.state import FailurePolicy
from taskstatus.domain.verdicts import Coalesced, Verdict, result_or_raise
from taskstatus.domain.workflow_projection import project
from tests.history.model import (
    Beat,
    Creation,
    FinalTables,
    HealthWatch,
    History,
    Invocation,
    OutboxRow,
    Outcome,
    Publication,
)
from tests.history.rules_channels import channels_of

START = datetime(2026, 11, 30, 8, 0, 0)
BUCKET = 7
WORKFLOW, TASK = WorkflowId(make_id(1, BUCKET, 1)), TaskId(make_id(1, BUCKET, 2))
FIRST, SECOND = ExecutionId(make_id(1, BUCKET, 3)), ExecutionId(make_id(1, BUCKET, 4))
SERVICE = Caller("t-01", "documents", SERVICE_PRODUCER)
COORDINATOR, WORKER = Caller("t-01", "documents", "coordinator"), Caller("t-01", "documents", "parser")
STEP = "parse"
TERMS = HealthTerms()


@dataclass
class Story:
    """Tables, acknowledgements and publications that grow event by event."""

    tables: Tables = field(default_factory=Tables)
    invocations: list[Invocation] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)
    seconds: int = 0
    ids: int = 100

    @property
    def run(self) -> int:
        """The task's current run."""
        return self.tables.tasks[TASK].attempt

    def create(self) -> None:
        """A workflow with one task of one step."""
        step = StepSpec(STEP, "DOCUMENT.PARSE", WORKER.producer_id, (), FailurePolicy.RETRY_THEN_FAIL_TASK, "", 1, 0)
        task = TaskSpec("task-1", "Report", "", "", 0, "", (step,), "", (), (), False, b"task", _digest("task"))
        command = CreateWorkflow(
            COORDINATOR, "create-1", "order-1", "ada", "Import", "", "", (), (task,), _digest("order-1")
        )
        _, _, changes = create_workflow(command, WORKFLOW, BUCKET, [TASK], self.now(), self.tools())
        self.commit(changes)

    def activate(self, attempt: int, execution_id: ExecutionId) -> None:
        """One attempt of the step."""
        run = self.run
        what = f"{STEP}/{attempt}" if run == 1 else f"{run}/{STEP}/{attempt}"
        name = f"activate-{what.removeprefix(f'{STEP}/')}"
        command = ActivateAttempt(
            COORDINATOR, name, TASK, 0, STEP, attempt, "", 15, 60, None, what.encode(), _digest(what)
        )
        attempts = sorted(self.tables.steps_in(TASK, run), key=lambda step: step.attempt)
        rows = ActivationRows(self.tables.tasks[TASK], attempts, None, None, self.now())
        done = activate(
            command, rows, execution_id, self.tools(), lambda _, code: generic_profile(code), DynamicLimits()
        )
        self.commit(done.changes)
        call = self.invocation(command.command_id, TASK, what)
        version = done.task.version if attempt > 1 else None
        self.invocations.append(
            replace(
                call,
                outcome=Outcome.OK,
                version=version,
                coordinates=(TASK, run, STEP, attempt),
                execution_id=execution_id,
            )
        )

    def beat(self, execution_id: ExecutionId) -> None:
        """One heartbeat, acknowledged and persisted at once."""
        row, at = self.tables.leases[execution_id], self.now()
        seq, patience = row.state.heartbeat_seq + 1, patience_seconds(row.state.timeout_seconds, row.state.recoveries)
        deadline = row.state.deadline_at if row.state.stale_since else at + timedelta(seconds=patience)
        state = replace(row.state, heartbeat_seq=seq, last_heartbeat_at=at, deadline_at=deadline)
        self.tables.leases[execution_id] = replace(row, state=state)
        self.beats.append(Beat(execution_id, seq, self.seconds - 0.1, self.seconds + 0.1, Outcome.OK))

    def refused_beat(self, execution_id: ExecutionId, reason: str, seq: int) -> None:
        """One heartbeat that is not taken."""
        self.now()
        self.beats.append(Beat(execution_id, seq, self.seconds - 0.1, self.seconds + 0.1, Outcome.REFUSED, reason))

    def observe(self, sign: HealthSign, execution_id: ExecutionId, attempt: int) -> None:
        """The service records a silence when it has lasted, its end, or a lost worker."""
        lease = self.tables.leases[execution_id].state
        if sign is not HealthSign.BEATING:
            assert lease.deadline_at is not None
            self.seconds = int((lease.deadline_at - START).total_seconds())
        now = self.now()
        content = EventContent(f"{sign}.{self.seconds}", EVENT_OF_SIGN[sign], 0, reason=sign)
        command = _finished(content, SERVICE, STEP, attempt, execution_id, None)
        observed = replace(command, observed=HealthObservation(sign, lease.heartbeat_seq, TERMS))
        rows = WorkingSet(dict(self.tables.tasks), dict(self.tables.steps), {}, {TASK: now}, {execution_id: lease})
        _, changes = evaluate([Arrival(observed, 0.0)], rows, self.tools(), timedelta(days=7))
        assert not changes.is_empty
        self.commit(changes)

    def report(self, *commands: TaskEventCommand) -> None:
        """One commit of events."""
        tables = self.tables
        seen = WorkingSet(dict(tables.tasks), dict(tables.steps), {}, {TASK: self.now()})
        arrivals = [Arrival(command, 0.0) for command in commands]
        verdicts, changes = evaluate(arrivals, seen, self.tools(), timedelta(days=7))
        self.commit(changes)
        for command, verdict in zip(commands, verdicts, strict=True):
            stream = command.execution_id or command.task_id
            call = self.invocation(command.content.event_id, stream, repr(command.content))
            self.invocations.append(_acknowledged(call, verdict))

    def follow(self) -> None:
        """The workflow follows its task."""
        triggers = [(row.bucket, row.outbox_id) for row in self.tables.triggers.values()]
        changes = ChangeSet(settled_triggers=triggers)
        members = tally_of(self.tables.members_of(WORKFLOW))
        project(changes, self.tables.workflows[WORKFLOW], members, self.now(), self.tools())
        self.commit(changes)

    def history(self) -> History:
        """All of it."""
        tables = self.tables
        return History(
            invocations=tuple(self.invocations),
            creations=(Creation(WORKFLOW, "task-1", TASK),),
            publications=tuple(self.publications),
            tables=FinalTables(
                workflows=dict(tables.workflows),
                tasks=dict(tables.tasks),
                steps=dict(tables.steps),
                events=dict(tables.events),
                dedups=dict(tables.dedups),
                leases={key: row.state for key, row in tables.leases.items()},
                grants={},
                outbox=tuple(OutboxRow(record, "PUBLISHED") for record in tables.outbox.values()),
                workflow_events=dict(tables.workflow_events),
                unfollowed={row.workflow_id for row in tables.triggers.values()},
                runs={key: row.view() for key, row in tables.runs.items()},
                audits=tuple(tables.audits.values()),
            ),
            faultless=True,
            health=self._watch(),
        )

    def _watch(self) -> HealthWatch:
        return HealthWatch(
            origin=START,
            ended_at=float(self.seconds),
            beats=tuple(self.beats),
            disturbed=(),
            persist_seconds=15.0,
            detect_seconds=2.0,
            recover_seconds=5.0,
            disbelief_seconds=60.0,
            lost_after_seconds=TERMS.lost_after_seconds,
        )

    def commit(self, changes: ChangeSet) -> None:
        """Write, and publish what it leaves."""
        self.tables.check(changes)
        self.tables.apply(changes, self.now())
        for record in changes.outbox:
            is_detail = record.projection is Projection.TASK_DETAIL
            if record.kind is OutboxKind.AGGREGATE or (is_detail and record.aggregate_version < self._version()):
                continue  # of several versions of one commit the last is rendered (O-6)
            version = record.aggregate_version if is_detail else None
            data = self._detail() if version else record.payload or b""
            for channel in channels_of(record, self.history().tables):
                self.publications.append(Publication(channel, data, self.now(), version))

    def _version(self) -> int:
        return self.tables.tasks[TASK].version

    def _detail(self) -> bytes:
        task = self.tables.tasks[TASK]
        trigger = self.tables.events[TASK, task.version]
        return orjson.dumps(
            render_detail(TaskView(task, tuple(self.tables.steps_in(TASK, task.attempt)), START, trigger))
        )

    def invocation(self, event_id: str, stream: bytes, content: str) -> Invocation:
        """A call of one item that is sent now."""
        number = len(self.invocations) + 1
        at = float(self.seconds)
        return Invocation(number, number, "client", stream, TASK, event_id, content, at - 0.9, at, Outcome.UNKNOWN)

    def now(self) -> datetime:
        """The database's clock, which goes on."""
        self.seconds += 1
        return START + timedelta(seconds=self.seconds)

    def tools(self) -> OutboxTools:
        """Ids of its own."""

        def new_id(bucket: int) -> bytes:
            self.ids += 1
            return make_id(1, bucket, self.ids)

        return OutboxTools(new_id=new_id, to_json=orjson.dumps)


def a_true_history() -> History:
    """Created, started, progress absorbed, failed, retried, completed, ended: versions 1 to 8."""
    story = Story()
    story.create()
    story.activate(1, FIRST)
    story.report(of_step(FIRST, 1, EventType.STEP_STARTED, 1))
    story.follow()
    story.report(*(of_step(FIRST, 1, EventType.STEP_PROGRESS, seq) for seq in (2, 3)))
    story.report(of_step(FIRST, 1, EventType.STEP_FAILED, 4))
    story.activate(2, SECOND)
    story.report(of_step(SECOND, 2, EventType.STEP_STARTED, 1))
    story.report(of_step(SECOND, 2, EventType.STEP_COMPLETED, 2))
    story.report(of_task(EventType.TASK_COMPLETED, 1))
    story.follow()
    return story.history()


def a_silent_history() -> History:
    """Started, beaten, silent, heard, silent again, lost, heard, silent, completed, ended: versions 1 to 10."""
    story = Story()
    story.create()
    story.activate(1, FIRST)
    story.refused_beat(FIRST, "TRANSITION_NOT_ALLOWED", 1)
    story.report(of_step(FIRST, 1, EventType.STEP_STARTED, 1))
    story.beat(FIRST)
    story.observe(HealthSign.SILENT, FIRST, 1)
    story.beat(FIRST)
    story.observe(HealthSign.BEATING, FIRST, 1)
    story.refused_beat(FIRST, "STALE_SEQUENCE", 1)
    story.observe(HealthSign.SILENT, FIRST, 1)
    story.observe(HealthSign.LOST, FIRST, 1)
    story.beat(FIRST)
    story.observe(HealthSign.BEATING, FIRST, 1)
    story.observe(HealthSign.SILENT, FIRST, 1)
    story.report(of_step(FIRST, 1, EventType.STEP_COMPLETED, 2))
    story.refused_beat(FIRST, "TERMINAL", 9)
    story.report(of_task(EventType.TASK_COMPLETED, 1))
    return story.history()


def _acknowledged(call: Invocation, verdict: Verdict) -> Invocation:
    result = result_or_raise(verdict)
    outcome = Outcome.ABSORBED if isinstance(verdict, Coalesced) else Outcome.OK
    return replace(call, outcome=outcome, version=result.task_version)


def of_step(execution_id: ExecutionId, attempt: int, event_type: EventType, seq: int, run: int = 1) -> TaskEventCommand:
    """An event of the step's worker."""
    content = EventContent(
        event_id=f"{STEP}.{attempt}.{seq}" if run == 1 else f"{run}.{STEP}.{attempt}.{seq}",
        event_type=event_type,
        source_seq=seq,
        progress=Progress(seq, 10, "page") if event_type is EventType.STEP_PROGRESS else None,
        error=ReportedError("SYSTEM", "BROKEN", "It broke.", None, "") if event_type is EventType.STEP_FAILED else None,
    )
    credential = Credential(1, None, EXECUTION_EVENTS)
    return _finished(content, WORKER, STEP, attempt, execution_id, credential, run)


def of_task(event_type: EventType, seq: int, run: int = 1) -> TaskEventCommand:
    """An event of the task's coordinator, in its sequence of the run."""
    event_id = f"task.{seq}" if run == 1 else f"{run}.task.{seq}"
    return _finished(EventContent(event_id, event_type, seq), COORDINATOR, "", 0, None, None)


def _finished(
    content: EventContent,
    caller: Caller,
    step_id: str,
    attempt: int,
    execution_id: ExecutionId | None,
    credential: Credential | None,
    run: int = 1,
) -> TaskEventCommand:
    command = TaskEventCommand(
        caller=caller,
        content=content,
        workflow_id=WORKFLOW if execution_id else None,
        task_id=TASK,
        task_attempt=run if execution_id else 0,
        step_id=step_id,
        step_attempt=attempt,
        execution_id=execution_id,
        operation_code="",
        bound=caller,
        credential=credential,
        stated=StatedFields(),
        canonical=b"",
        digest=b"",
        received_monotonic=0.0,
        received_unix=0.0,
        trace_id=None,
        traceparent="",
    )
    canonical, digest = canonicalize(command)
    return replace(command, canonical=canonical, digest=digest)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
