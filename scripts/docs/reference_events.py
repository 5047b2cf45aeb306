"""The lifecycle table and the event types."""

from collections.abc import Mapping

from scripts.docs.markdown import code, page, prose, table
from taskstatus.domain.events import (
    COORDINATOR_STEP_EVENTS,
    EXECUTION_EVENTS,
    REPORTABLE_EVENTS,
    TASK_EVENTS,
    EventType,
)
from taskstatus.domain.lifecycle import TARGET_OF_EVENT, Lifecycle, may_move
from taskstatus.domain.notifications import PASSING_FACTS

WRITTEN_BY: Mapping[EventType, str] = {
    EventType.WORKFLOW_CREATED: "CreateWorkflow (in `workflow_event_log`)",
    EventType.TASK_CREATED: "CreateWorkflow, CreateTask",
    EventType.EXECUTION_REGISTERED: "RegisterExecution, attempt 1",
    EventType.STEP_ATTEMPT_ACTIVATED: "ActivateStep and RegisterExecution, from attempt 2 on",
    EventType.STEP_HEALTH_CHANGED: "the health reconciler: STALE, and back on the next beat",
    EventType.WORKER_LOST: "the health reconciler: STALE for long; the step goes on",
}
"""The service's own facts that this version writes, with the commands and loops that make them."""


def lifecycle() -> str:
    """Every cell of the table."""
    rows = [(code(current), *(_cell(current, target) for target in Lifecycle)) for current in Lifecycle]
    heads = ("from \\ to", *map(code, Lifecycle))
    intro = """The one table of tasks and of steps (L-1). ● allowed; · refused (TRANSITION_NOT_ALLOWED, or from a
        terminal state the answer TERMINAL); = no-op: `accepted=true, changed=false`, nothing written (L-2). A
        STEP_PROGRESS of a RUNNING step is no transition. Data: `TRANSITIONS` in `taskstatus/domain/lifecycle.py`."""
    return page("Lifecycle", prose(intro), table(heads, rows))


def _cell(current: Lifecycle, target: Lifecycle) -> str:
    if current is target:
        return "="
    return "●" if may_move(current, target) else "·"


def event_types() -> str:
    """Who reports each type, and what it asks for."""
    reported = [
        (code(each), _reporter(each), code(TARGET_OF_EVENT[each]), _overtaken(each))
        for each in EventType
        if each in REPORTABLE_EVENTS
    ]
    own = [
        (code(each), WRITTEN_BY.get(each, "nothing in this version"))
        for each in EventType
        if each not in REPORTABLE_EVENTS
    ]
    who = """*The execution* means: the step's expected producer with the execution's token or handle. *The
        coordinator* is the task's recorded one or a policy executor listed with it, on its service identity alone, in
        its own task sequence. Data: `taskstatus/domain/events.py`."""
    heads = ("event type", "reported by", "moves its step or task to", "a newer summary may stand for it")
    return page(
        "Event types",
        "## Reported by ReportEvent and BatchReportEvents (E-1)",
        prose(who),
        table(heads, reported),
        "## The service's own, refused by ReportEvent (EVENT_TYPE_NOT_ALLOWED)",
        table(("event type", "written by"), own),
    )


def _reporter(event_type: EventType) -> str:
    parts = []
    if event_type in EXECUTION_EVENTS:
        parts.append("the execution")
    if event_type in TASK_EVENTS | COORDINATOR_STEP_EVENTS:
        parts.append("the coordinator")
    return ", ".join(parts)


def _overtaken(event_type: EventType) -> str:
    return "yes" if event_type in PASSING_FACTS else "no (O-3)"
