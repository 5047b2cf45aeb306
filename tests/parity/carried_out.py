"""The table of commands that are carried out: what every way must answer, and each way the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.parity.calls import Done
from tests.parity.cases import DONE as STEP_DONE
from tests.parity.cases import FAILURE, RUNNING, TASK_DONE
from tests.parity.orders import (
    AGENT,
    ATTACH,
    ATTACHED,
    CANCEL,
    CANCELLING,
    CLASSIFY,
    CORRECT,
    FAILED,
    METADATA,
    PUBLISH,
    PUBLISHED,
    REGISTER,
    REGISTERED,
    RERUN,
    RETIRE,
    REVOKE,
    RULED,
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
    parsing,
    publish,
    register,
    rerun,
    retire,
    revoke,
    skipping,
    statuses,
    update,
)
from tests.parity.stage import STEP_ID, Spec


def change(**fields: Any) -> dict[str, Any]:
    """A part of what a command on a task is answered with."""
    return {"change": fields}


CARRIED_OUT: Mapping[str, Done] = {
    "cancel": Done(CANCEL, cancel(), change(lifecycleStatus="CANCELLING", cancelRequested=True), before=RUNNING),
    "cancel by the owner": Done(CANCEL, cancel(), change(lifecycleStatus="CANCELLING"), "owner", RUNNING),
    "cancel again": Done(CANCEL, cancel(), change(changed=False), before=(*RUNNING, CANCELLING)),
    "rerun": Done(RERUN, rerun(task_attempt=1), change(taskAttempt=2), before=(*RUNNING, TASK_FAILED)),
    "rerun by the owner": Done(RERUN, rerun(), change(lifecycleStatus="PENDING"), "owner", (*RUNNING, TASK_FAILED)),
    "rerun that skips": Done(
        RERUN, skipping(), change(taskAttempt=2, taskVersion="6"), before=(*RUNNING, STEP_DONE, TASK_DONE)
    ),
    "classify": Done(
        CLASSIFY,
        classify(expected_task_version=1, product_id="p-9"),
        {"statusDefinitionVersion": 1, "operationDefinitionVersion": 1},
        before=(UNCLASSIFIED, PUBLISHED),
    ),
    "relabel": Done(METADATA, metadata(expected_task_version=1, title="Other", priority=-3), change(taskVersion="2")),
    "take a label away": Done(
        METADATA, metadata(product_id=""), change(changed=True), before=(Spec({"product_id": "p-1"}),)
    ),
    "the label that it has": Done(
        METADATA, metadata(product_id="p-1"), change(changed=False), before=(Spec({"product_id": "p-1"}),)
    ),
    "attach": Done(ATTACH, attach(), change(taskVersion="2")),
    "attach its own": Done(ATTACH, attach(), change(changed=False), before=(ATTACHED,)),
    "revoke": Done(REVOKE, revoke(), {"credentialGeneration": 2}, "admin", RUNNING),
    "correct": Done(
        CORRECT,
        correct(FAILED, error=FAILURE, failed_step_id=STEP_ID),
        change(lifecycleStatus="FAILED"),
        "admin",
        (*RUNNING, TASK_DONE),
    ),
    "new title of the workflow": Done(UPDATE, update(title="Other", expected_workflow_version=1), {"changed": True}),
    "ruling": Done(UPDATE, update(lifecycle_status=SUCCEEDED, reason="enough"), {"changed": True}),
    "ruling withdrawn": Done(UPDATE, update(withdraw_ruling=True), {"changed": True}, before=(RULED,)),
    "no ruling to withdraw": Done(UPDATE, update(withdraw_ruling=True), {"changed": False}),
    "register": Done(REGISTER, register(), {"context": {"created": True}}),
    "register the next attempt": Done(
        REGISTER, register("first", step_attempt=2), {"context": {"created": True}}, before=(REGISTERED,)
    ),
    "register by a parent's handle": Done(
        REGISTER, by_parent(), {"context": {"created": True}}, "worker", (AGENT, *RUNNING)
    ),
    "register by a parent's token": Done(
        REGISTER,
        by_parent(credential="execution_token"),
        {"context": {"created": True}},
        "worker",
        (AGENT, *RUNNING),
    ),
    "publish": Done(PUBLISH, publish(statuses(1), operations=[parsing(1)]), {"published": 2}, "admin"),
    "publish for trial": Done(PUBLISH, publish(statuses(1), dry_run=True), {"published": 1}, "admin"),
    "retire": Done(RETIRE, retire(), {}, "admin", (PUBLISHED,)),
}
