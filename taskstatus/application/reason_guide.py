"""What each reason means for the caller and what to do about it; printed by ``taskstatus explain`` and in docs/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taskstatus.domain.guards import GUARDS, Guard
from taskstatus.domain.reasons import ANSWER_REASONS, RETRYABLE_REASONS, Reason


@dataclass(frozen=True, slots=True)
class Advice:
    """One sentence on the meaning, one on the cure."""

    meaning: str
    cure: str


ADVICE: Mapping[Reason, Advice] = {
    Reason.UNAUTHENTICATED: Advice("A credential is missing or forged.", "Send a genuine one."),
    Reason.TOKEN_EXPIRED: Advice("A genuine credential has expired.", "Renew it and send the same request again."),
    Reason.TOKEN_REVOKED: Advice("The execution's credentials were revoked.", "Stop reporting for this execution."),
    Reason.PERMISSION_DENIED: Advice("The caller's role may not do this.", "Use a service that may."),
    Reason.TOKEN_MISMATCH: Advice(
        "Tenant, scope or stated fields contradict the execution's credential.", "Report with the execution's own."
    ),
    Reason.PRODUCER_MISMATCH: Advice("The caller is not the producer that is expected.", "Let that producer report."),
    Reason.OPERATION_MISMATCH: Advice("The operation named is not the step's.", "Leave it out or name the step's own."),
    Reason.EVENT_TYPE_NOT_ALLOWED: Advice(
        "This caller may not report this type of event here.", "Task events are the coordinator's."
    ),
    Reason.WORKFLOW_NOT_FOUND: Advice("No such workflow in the caller's tenant and scope.", "Check the id."),
    Reason.TASK_NOT_FOUND: Advice("No such task that the caller may see.", "Check the id and the caller."),
    Reason.STEP_NOT_FOUND: Advice("The task has no such step; events never create one.", "Register it first."),
    Reason.EXECUTION_NOT_FOUND: Advice("No such execution in the caller's tenant and scope.", "Check the id."),
    Reason.DEFINITION_NOT_FOUND: Advice("No such version is published for the type.", "Publish it first."),
    Reason.IDEMPOTENCY_CONFLICT: Advice(
        "The same key or event id was committed with other content.", "Use a new id for a new fact."
    ),
    Reason.VERSION_MISMATCH: Advice("If-Match names another version than the current one.", "Read again."),
    Reason.TRANSITION_NOT_ALLOWED: Advice(
        "Lifecycle or definition does not allow this from where the task stands.", "Read the task."
    ),
    Reason.TERMINAL: Advice(
        "The step or task has ended.", "Stop; only a rerun or a correction leaves a terminal state."
    ),
    Reason.NOT_CANCELLABLE: Advice("The task can no longer be cancelled.", "Read the task."),
    Reason.ALREADY_CLASSIFIED: Advice("The task has its type already.", "Leave it: type and definitions are frozen."),
    Reason.DEFINITION_INCOMPATIBLE: Advice(
        "The definition would break what is published, or the version is retired.", "Publish, or name, a newer one."
    ),
    Reason.INVALID_ARGUMENT: Advice("A field is missing, malformed, too long or unsafe.", "Mend the fields named."),
    Reason.SCHEMA_NOT_ALLOWED: Advice("data.schema is not registered for the operation.", "Register it first."),
    Reason.SCHEMA_VIOLATION: Advice("data.value does not fit its schema.", "Mend the value."),
    Reason.BUSINESS_STATUS_NOT_REGISTERED: Advice(
        "The task's definition does not list the business status, or gives it another lifecycle.",
        "Use a registered one, or none.",
    ),
    Reason.PAYLOAD_TOO_LARGE: Advice("The request or its data is larger than the limit.", "Send a reference instead."),
    Reason.RATE_LIMITED: Advice("Too much is waiting.", "Send the same again after the pause told."),
    Reason.DYNAMIC_LIMIT_REACHED: Advice("A limit of dynamic registration is reached.", "Wait, or raise the limit."),
    Reason.DETAIL_SUBSCRIPTION_LIMIT: Advice("The session holds too many detail subscriptions.", "Close some."),
    Reason.WINDOW_EXCEEDED: Advice("More items are in flight than the window allows.", "Wait for answers."),
    Reason.EVENT_TOO_OLD: Advice(
        "The event is older than the oldest that can be deduplicated.", "It is lost; report anew."
    ),
    Reason.BUCKET_MOVED: Advice("The data is moving.", "Send the same again."),
    Reason.UNAVAILABLE: Advice("The store cannot be reached now.", "Send the same again, with the same event id."),
    Reason.INTERNAL: Advice("A fault of the service.", "Send the same again, with the same event id, and tell us."),
    Reason.STALE_ATTEMPT: Advice(
        "A later attempt, or a later run, is current.", "Stop: the work was given to another."
    ),
    Reason.STALE_EXECUTION: Advice("Another execution holds this attempt.", "Stop: the work was given to another."),
    Reason.STALE_SEQUENCE: Advice("sourceSeq does not rise.", "Go on with the next number; bind tells which it is."),
    Reason.PROGRESS_NOT_MONOTONIC: Advice("Progress would go back within its attempt.", "Send only what is newer."),
}


def guards_giving(reason: Reason) -> tuple[Guard, ...]:
    """The guards of an event that can give this reason, in their order."""
    return tuple(guard for guard in GUARDS if reason in guard.reasons)


def explain(reason: Reason) -> str:
    """A few lines for a person."""
    advice = ADVICE[reason]
    kind = "an answer to an event (accepted=false)" if reason in ANSWER_REASONS else "an error"
    again = "yes, with the same id" if reason in RETRYABLE_REASONS else "no"
    lines = [f"{reason}: {advice.meaning}", f"  what to do: {advice.cure}", f"  it is {kind}; send again: {again}"]
    lines += [f"  given by guard «{guard.name}» ({guard.spec})" for guard in guards_giving(reason)]
    return "\n".join(lines)
