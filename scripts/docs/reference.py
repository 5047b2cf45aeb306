"""The pages of ``docs/reference/``: every one rendered from the data that the code itself goes by."""

from collections.abc import Mapping

from scripts.docs import reference_access, reference_events, reference_limits, reference_metrics, reference_settings
from scripts.docs.markdown import code, codes, page, prose, table
from taskstatus.application.ports_store import LOCK_ORDER
from taskstatus.application.reason_guide import ADVICE, guards_giving
from taskstatus.domain.guards import GUARDS
from taskstatus.domain.health_guards import HEALTH_GUARDS
from taskstatus.domain.heartbeat import BEAT_GUARDS
from taskstatus.domain.reasons import ANSWER_REASONS, RETRYABLE_REASONS, STALE_REASONS, Reason
from taskstatus.entrypoints.wire.statuses import GRPC_STATUS

NOTE = "<!-- Rendered by `python -m scripts.docs --write`, compared by a test: change the code, not this page. -->"

TABLES_OF_GROUP: Mapping[str, tuple[str, ...]] = {
    "workflow": ("workflow", "workflow_acl"),
    "task": ("task", "task_run", "task_external_ref"),
    "step": ("task_step",),
    "lease": ("task_execution_lease",),
    "acl": ("task_acl",),
    "dedup": ("task_event_dedup",),
    "event": ("task_event_log", "workflow_event_log", "command_audit"),
    "outbox": ("task_outbox",),
}
"""Which tables each group of LOCK_ORDER stands for."""


def pages() -> Mapping[str, str]:
    """Each page's text by its file name."""
    bodies = {
        "guards.md": guards(),
        "reasons.md": reasons(),
        "lifecycle.md": reference_events.lifecycle(),
        "events.md": reference_events.event_types(),
        "access.md": reference_access.matrix(),
        "lock-order.md": lock_order(),
        "limits.md": reference_limits.limits(),
        "settings.md": reference_settings.settings(),
        "metrics.md": reference_metrics.metrics(),
    }
    titles = {name: body.partition("\n")[0].removeprefix("# ") for name, body in bodies.items()}
    index = "# Reference\n\n" + "\n".join(f"- [{title}]({name})" for name, title in titles.items())
    return {name: f"{NOTE}\n{body}\n" for name, body in {"README.md": index, **bodies}.items()}


def guards() -> str:
    """The guards of an event in their order."""
    rows = [(number, guard.name, guard.spec, codes(guard.reasons)) for number, guard in enumerate(GUARDS, start=1)]
    intro = """The first guard that objects answers, on every transport alike (E-2). Before the first of them the
        caller's own JWT, its role and the form of every field have been checked, and a forged token or handle was
        refused. Data: `GUARDS` in `taskstatus/domain/guards.py`. Reasons: [reasons.md](reasons.md)."""
    after = """*Event id is new* may also answer with the first result (`duplicate=true`); *progress rises* and
        *lifecycle allows* may answer `accepted=true, changed=false` where the state is already reached (L-2)."""
    beats = [(number, guard.name, guard.spec, codes(guard.reasons)) for number, guard in enumerate(BEAT_GUARDS, 1)]
    of_beats = """Before them: the credential is genuine and the caller's own, what is stated does not contradict it,
        and the execution exists (EXECUTION_NOT_FOUND). An equal sequence is accepted again. Streams are judged by the
        standing that was last read. Data: `BEAT_GUARDS` in `taskstatus/domain/heartbeat.py`."""
    health = [(number, guard.name, guard.spec, codes(guard.reasons)) for number, guard in enumerate(HEALTH_GUARDS, 1)]
    of_health = """What the service observes itself, a silence, a beat after it, a lost worker, is judged by these under
        the same locks, so that a late beat, an end or another replica always wins. One without a reason answers that
        nothing changes; an objection writes nothing. Data: `HEALTH_GUARDS` in `taskstatus/domain/health_guards.py`."""
    heads = ("", "guard", "spec", "reasons that it can give")
    return page(
        "Guards of an event",
        prose(intro),
        table(heads, rows),
        prose(after),
        "## Guards of a heartbeat (H-3)",
        prose(of_beats),
        table(heads, beats),
        "## Guards of a health change (H-4)",
        prose(of_health),
        table(heads, health),
    )


def reasons() -> str:
    """The closed vocabulary with its statuses and advice."""
    intro = """`ErrorInfo.reason` on gRPC, `reason` of the problem document on REST, `ItemError.reason` in a batch. An
        *answer* comes with status OK / 200 and `accepted=false`; the statuses given for it are those of a command that
        meets it. *Again* means: the same request with the same id, after a pause. `taskstatus explain REASON` prints
        the same."""
    heads = ("reason", "it is", "gRPC", "HTTP", "again", "meaning", "what to do")
    return page(
        "Reasons",
        prose(intro),
        table(heads, map(_reason, Reason)),
        "## Guards that give them",
        table(("reason", "guards"), _givers()),
    )


def _reason(reason: Reason) -> tuple[str, ...]:
    advice = ADVICE[reason]
    again = "yes" if reason in RETRYABLE_REASONS else "no"
    http = str(reference_access.http_status(reason))
    return (code(reason), _kind(reason), GRPC_STATUS[reason].name, http, again, advice.meaning, advice.cure)


def _kind(reason: Reason) -> str:
    if reason in STALE_REASONS:
        return "an answer, `stale=true`"
    if reason is Reason.TERMINAL:
        return "an answer to an event, an error of a command"
    return "an answer" if reason in ANSWER_REASONS else "an error"


def _givers() -> list[tuple[str, str]]:
    found = {reason: [guard.name for guard in guards_giving(reason)] for reason in Reason}
    return [(code(reason), ", ".join(names)) for reason, names in found.items() if names]


def lock_order() -> str:
    """The order of locks and writes."""
    rows = [(number, group, codes(TABLES_OF_GROUP[group])) for number, group in enumerate(LOCK_ORDER, start=1)]
    intro = """Every transaction of every process takes its locks, and writes, in this order; within a group by key.
        Data: `LOCK_ORDER` in `taskstatus/application/ports_store.py`."""
    return page("Lock order", prose(intro), table(("", "group", "tables"), rows))
