"""The execution token's claims (R-4, R-11): an HS256 JWT with ``kid``, aud ``task-execution``.

=======  ==============================  =======  ==============================
claim    content                         claim    content
=======  ==============================  =======  ==============================
``sub``  execution id, ``exec_…``        ``stp``  step id
``ten``  tenant                          ``att``  step attempt
``scp``  authority scope                 ``op``   operation code
``wf``   workflow id, ``wf_…``           ``prd``  producer
``tsk``  task id, ``task_…``             ``evt``  allowed event types, a list
``run``  task attempt                    ``gen``  credential generation
``dfv``  definition version, 0: generic  ``dft``  task type it was published for
``chd``  true: may register children
=======  ==============================  =======  ==============================

and ``iat``, ``exp``. An event type that this version does not know is passed over, so that replicas of two versions can
work side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from taskstatus.adapters.tokens.errors import RejectedTokenError
from taskstatus.application.identity import ExecutionBinding, ExecutionGrant
from taskstatus.domain.events import EXECUTION_EVENTS, EventType
from taskstatus.domain.ids import (
    format_execution_id,
    format_task_id,
    format_workflow_id,
    parse_execution_id,
    parse_task_id,
    parse_workflow_id,
)

SERVICE_ISSUER: Final = "task-status-service"
EXECUTION_AUDIENCE: Final = "task-execution"
EXECUTION_CLAIMS: Final = (
    *("iss", "aud", "sub", "iat", "exp"),
    *("ten", "scp", "wf", "tsk", "run", "stp", "att", "op", "prd", "evt", "gen", "dfv", "dft", "chd"),
)


def to_claims(binding: ExecutionBinding, generation: int, issued_at: int, expires_at: int) -> dict[str, Any]:
    """The claims of a new token; times in Unix seconds."""
    return {
        "iss": SERVICE_ISSUER,
        "aud": EXECUTION_AUDIENCE,
        "sub": format_execution_id(binding.execution_id),
        "iat": issued_at,
        "exp": expires_at,
        "ten": binding.tenant_id,
        "scp": binding.authority_scope,
        "wf": format_workflow_id(binding.workflow_id),
        "tsk": format_task_id(binding.task_id),
        "run": binding.task_attempt,
        "stp": binding.step_id,
        "att": binding.step_attempt,
        "op": binding.operation_code,
        "prd": binding.producer_id,
        "evt": sorted(EXECUTION_EVENTS),
        "gen": generation,
        "dfv": binding.definition_version,
        "dft": binding.definition_task_type,
        "chd": binding.may_register_children,
    }


def to_grant(claims: Mapping[str, Any]) -> ExecutionGrant:
    """What verified claims bind. Raises RejectedTokenError for claims of another shape."""
    return ExecutionGrant(
        binding=_binding(claims),
        allowed_events=_event_types(claims["evt"]),
        generation=_count(claims, "gen"),
        expires_at=float(_count(claims, "exp")),
    )


def _binding(claims: Mapping[str, Any]) -> ExecutionBinding:
    workflow_id = parse_workflow_id(_text(claims, "wf"))
    task_id = parse_task_id(_text(claims, "tsk"))
    execution_id = parse_execution_id(_text(claims, "sub"))
    if workflow_id is None or task_id is None or execution_id is None:
        raise RejectedTokenError("execution claim is not an id")
    return ExecutionBinding(
        tenant_id=_text(claims, "ten"),
        authority_scope=_text(claims, "scp"),
        workflow_id=workflow_id,
        task_id=task_id,
        task_attempt=_count(claims, "run"),
        step_id=_text(claims, "stp"),
        step_attempt=_count(claims, "att"),
        operation_code=_text(claims, "op"),
        execution_id=execution_id,
        producer_id=_text(claims, "prd"),
        definition_version=_count(claims, "dfv"),
        definition_task_type=_text(claims, "dft"),
        may_register_children=_flag(claims, "chd"),
    )


def _event_types(names: object) -> frozenset[EventType]:
    if not isinstance(names, list):
        raise RejectedTokenError("execution claim evt is not a list")
    known = {event_type.value: event_type for event_type in EventType}
    return frozenset(known[name] for name in names if name in known)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims[name]
    if not isinstance(value, str):
        raise RejectedTokenError(f"execution claim {name} is not a text")
    return value


def _flag(claims: Mapping[str, Any], name: str) -> bool:
    value = claims[name]
    if not isinstance(value, bool):
        raise RejectedTokenError(f"execution claim {name} is not a flag")
    return value


def _count(claims: Mapping[str, Any], name: str) -> int:
    value = claims[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise RejectedTokenError(f"execution claim {name} is not an integer")
    return value
