"""The table of commands that are refused: the reason that every way must name, with nothing written."""

from __future__ import annotations

from collections.abc import Mapping

from taskstatus_pb.v1 import common_pb2, register_service_pb2, report_service_pb2, task_commands_pb2

from taskstatus.domain.reasons import Reason
from tests.parity.calls import Command
from tests.parity.cases import DONE as STEP_DONE
from tests.parity.cases import RETRIED, RUNNING, TASK_DONE
from tests.parity.orders import (
    AGENT,
    ATTACH,
    ATTACHED,
    CANCEL,
    CANCELLING,
    CLASSIFY,
    CORRECT,
    CREATE_TASK,
    FAILED,
    METADATA,
    PUBLISH,
    PUBLISHED,
    REGISTER,
    REGISTERED,
    RERUN,
    RETIRE,
    RETIRED,
    REVOKE,
    SUCCEEDED,
    TASK_FAILED,
    UNCLASSIFIED,
    UPDATE,
    attach,
    by_parent,
    cancel,
    classify,
    correct,
    metadata,
    of_task,
    other_task,
    parsing,
    policy,
    publish,
    register,
    rerun,
    retire,
    revoke,
    skipping,
    statuses,
    update,
)
from tests.parity.stage import Order, Spec, other_id

NO_STEPS = {"known_steps": ()}
TAKEN = (Order(CREATE_TASK, other_task(is_numbered=True)),)
ONE_STEP = (policy(max_dynamic_steps=1), REGISTERED)
ONE_A_MINUTE = (policy(max_registrations_per_minute=1), REGISTERED)
ONE_AT_ONCE = (policy(max_parallel_executions=1), REGISTERED)
FIXED = (Spec({"registration_mode": common_pb2.FIXED}),)
VIEWER = Spec(
    {
        "grants": [
            register_service_pb2.AccessGrant(
                principal_type=register_service_pb2.AccessGrant.USER,
                principal_id="viewer",
                permission=register_service_pb2.AccessGrant.VIEW,
            )
        ]
    }
)

REFUSED: Mapping[str, Command] = {
    "cancel an ended task": Command(CANCEL, cancel(), Reason.NOT_CANCELLABLE, before=(*RUNNING, TASK_DONE)),
    "cancel by its worker": Command(CANCEL, cancel(), Reason.PERMISSION_DENIED, "worker"),
    "cancel by another coordinator": Command(CANCEL, cancel(), Reason.PERMISSION_DENIED, "other coordinator"),
    "cancel by who may only look": Command(CANCEL, cancel(), Reason.PERMISSION_DENIED, "viewer", (VIEWER,)),
    "cancel by a stranger": Command(CANCEL, cancel(), Reason.TASK_NOT_FOUND, "viewer"),
    "cancel under a used id": Command(
        CANCEL, cancel(command_id="cmd-c", reason="another"), Reason.IDEMPOTENCY_CONFLICT, before=(CANCELLING,)
    ),
    "the id of another command": Command(
        METADATA, metadata(command_id="cmd-c"), Reason.IDEMPOTENCY_CONFLICT, before=(CANCELLING,)
    ),
    "completed while cancelling": Command(
        "ReportService/ReportEvent",
        lambda stage: report_service_pb2.ReportEventRequest(
            event_id="cmd-e", event_type=common_pb2.TASK_COMPLETED, source_seq=9, task_id=stage.task_id
        ),
        Reason.TRANSITION_NOT_ALLOWED,
        before=(*RUNNING, CANCELLING),
    ),
    "rerun a live run": Command(RERUN, rerun(), Reason.TRANSITION_NOT_ALLOWED, before=RUNNING),
    "rerun another run": Command(RERUN, rerun(task_attempt=2), Reason.STALE_ATTEMPT, before=(*RUNNING, TASK_FAILED)),
    "skip without a result": Command(RERUN, skipping(), Reason.INVALID_ARGUMENT, before=(*RUNNING, TASK_FAILED)),
    "skip an unknown step": Command(
        RERUN, skipping("99_none"), Reason.INVALID_ARGUMENT, before=(*RUNNING, STEP_DONE, TASK_DONE)
    ),
    "skip by a person": Command(RERUN, skipping(), Reason.PERMISSION_DENIED, "owner", (*RUNNING, STEP_DONE, TASK_DONE)),
    "classify twice": Command(CLASSIFY, classify(), Reason.ALREADY_CLASSIFIED),
    "classify an ended task": Command(
        CLASSIFY, classify(), Reason.TERMINAL, before=(UNCLASSIFIED, PUBLISHED, *RUNNING, TASK_DONE)
    ),
    "classify as an unknown version": Command(
        CLASSIFY,
        classify(status_definition_version=9),
        Reason.DEFINITION_NOT_FOUND,
        before=(UNCLASSIFIED, PUBLISHED),
    ),
    "classify as a retired version": Command(
        CLASSIFY, classify(status_definition_version=1), Reason.DEFINITION_INCOMPATIBLE, before=(UNCLASSIFIED, *RETIRED)
    ),
    "classify from a stale version": Command(
        CLASSIFY,
        classify(expected_task_version=4),
        Reason.VERSION_MISMATCH,
        before=(UNCLASSIFIED, PUBLISHED),
    ),
    "create by an unknown version": Command(
        CREATE_TASK,
        other_task(task_type="contract", status_definition_version=9),
        Reason.DEFINITION_NOT_FOUND,
    ),
    "create under an unknown parent": Command(
        CREATE_TASK, other_task(parent_task_id=other_id("task")), Reason.TASK_NOT_FOUND
    ),
    "create with a number that is taken": Command(
        CREATE_TASK, other_task(is_numbered=True), Reason.IDEMPOTENCY_CONFLICT, before=(ATTACHED,)
    ),
    "create a fixed manifest without steps": Command(
        CREATE_TASK, other_task(registration_mode=common_pb2.FIXED, **NO_STEPS), Reason.INVALID_ARGUMENT
    ),
    "relabel from a stale version": Command(
        METADATA, metadata(expected_task_version=1), Reason.VERSION_MISMATCH, before=RUNNING
    ),
    "relabel nothing": Command(METADATA, of_task(task_commands_pb2.UpdateTaskMetadataRequest), Reason.INVALID_ARGUMENT),
    "attach a number that is taken": Command(ATTACH, attach(), Reason.IDEMPOTENCY_CONFLICT, before=TAKEN),
    "attach nothing": Command(ATTACH, of_task(task_commands_pb2.AttachExternalRefRequest), Reason.INVALID_ARGUMENT),
    "revoke an unknown execution": Command(
        REVOKE, revoke(execution_id=other_id("exec")), Reason.EXECUTION_NOT_FOUND, before=RUNNING
    ),
    "revoke a superseded execution": Command(REVOKE, revoke(of=0), Reason.STALE_ATTEMPT, before=RETRIED),
    "revoke an ended execution": Command(REVOKE, revoke(), Reason.TERMINAL, before=(*RUNNING, STEP_DONE)),
    "correct a live task": Command(CORRECT, correct(FAILED), Reason.TRANSITION_NOT_ALLOWED, "admin", RUNNING),
    "correct as a coordinator": Command(CORRECT, correct(FAILED), Reason.PERMISSION_DENIED, before=(TASK_DONE,)),
    "correct to a live state": Command(CORRECT, correct(common_pb2.RUNNING), Reason.INVALID_ARGUMENT, "admin"),
    "correct to a status of another lifecycle": Command(
        CORRECT,
        correct(FAILED, business_status="RETRY_WAIT"),
        Reason.BUSINESS_STATUS_NOT_REGISTERED,
        "admin",
        (TASK_DONE,),
    ),
    "correct from a stale version": Command(
        CORRECT, correct(FAILED, expected_task_version=9), Reason.VERSION_MISMATCH, "admin", (TASK_DONE,)
    ),
    "update from a stale version": Command(
        UPDATE, update(title="Other", expected_workflow_version=7), Reason.VERSION_MISMATCH
    ),
    "update by another coordinator": Command(
        UPDATE, update(title="Other"), Reason.PERMISSION_DENIED, "other coordinator"
    ),
    "update an unknown workflow": Command(
        UPDATE, update(workflow_id=other_id("wf"), title="Other"), Reason.WORKFLOW_NOT_FOUND
    ),
    "rule without a reason": Command(UPDATE, update(lifecycle_status=SUCCEEDED), Reason.INVALID_ARGUMENT),
    "register on a fixed manifest": Command(REGISTER, register(), Reason.TRANSITION_NOT_ALLOWED, before=FIXED),
    "register another namespace": Command(
        REGISTER, register(operation_code="TOOL.RUN"), Reason.PERMISSION_DENIED, before=(AGENT,)
    ),
    "register one step too many": Command(REGISTER, register(), Reason.DYNAMIC_LIMIT_REACHED, before=ONE_STEP),
    "register too often": Command(REGISTER, register(), Reason.DYNAMIC_LIMIT_REACHED, before=ONE_A_MINUTE),
    "register too many at once": Command(REGISTER, register(), Reason.DYNAMIC_LIMIT_REACHED, before=ONE_AT_ONCE),
    "register by a parent that may not": Command(REGISTER, by_parent(), Reason.PERMISSION_DENIED, "worker", RUNNING),
    "register by another's parent": Command(
        REGISTER, by_parent(), Reason.PRODUCER_MISMATCH, "other producer", (AGENT, *RUNNING)
    ),
    "register by a forged parent": Command(
        REGISTER,
        register(parent_execution_handle="exh_AAAA"),
        Reason.UNAUTHENTICATED,
        "worker",
        (AGENT, *RUNNING),
    ),
    "register by an ended parent": Command(
        REGISTER, by_parent(), Reason.TERMINAL, "worker", (AGENT, *RUNNING, STEP_DONE)
    ),
    "publish what breaks": Command(
        PUBLISH,
        publish(operations=[parsing(2, "string")]),
        Reason.DEFINITION_INCOMPATIBLE,
        "admin",
        (PUBLISHED,),
    ),
    "publish a version again": Command(
        PUBLISH, publish(statuses(1, "OTHER")), Reason.DEFINITION_INCOMPATIBLE, "admin", (PUBLISHED,)
    ),
    "publish no version": Command(PUBLISH, publish(statuses(0)), Reason.INVALID_ARGUMENT, "admin"),
    "publish as a coordinator": Command(PUBLISH, publish(statuses(1)), Reason.PERMISSION_DENIED),
    "retire what is not there": Command(RETIRE, retire(7), Reason.DEFINITION_NOT_FOUND, "admin"),
}
