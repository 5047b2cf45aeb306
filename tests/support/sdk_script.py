"""One story of a coordinator and its workers by the SDK, told to any service that speaks ``taskstatus.v1``."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from taskstatus_pb.v1 import query_service_pb2, task_commands_pb2, task_list_pb2

from taskstatus.sdk import (
    AggregationPolicy,
    Connection,
    Coordinator,
    DynamicPolicy,
    DynamicStep,
    ExecutionContext,
    ExternalRef,
    FailurePolicy,
    RegistrationMode,
    Reporter,
    SkippedStep,
    StepError,
    StepSpec,
    StreamReporter,
    TaskSpec,
    TokenProvider,
    Worker,
    WorkflowRuling,
    connect,
)
from tests.support.sdk_journal import Journal

COORDINATOR, PARSER, SEARCHER = "task-coordinator", "document-parser", "search-service"
READ, PARSE = "01_read", "02_parse"
OWNER = "u-88"


@dataclass
class Cast:
    """The SDK's ends of the story, and the key that makes it this one."""

    run: str
    connection: Connection
    parsing: Connection
    coordinator: Coordinator
    parser: Worker
    searcher: Worker
    journal: Journal = field(default_factory=Journal)

    async def started(self, context: ExecutionContext, worker: Worker | None = None) -> Reporter:
        """A reporter that has told the start."""
        reporter = await (worker or self.parser).bind(context)
        await self.journal.note(f"start {context.step_id}", reporter.started())
        return reporter

    async def task(self, key: str, **fields: Any) -> str:
        """A task of its own workflow."""
        spec = TaskSpec(**{"client_task_key": key, "title": key.title(), "steps": STEPS, **fields})
        created = self.coordinator.create_workflow(f"{self.run}-{key}", owner_id=OWNER, title="Story", tasks=[spec])
        return str((await self.journal.note(f"create {key}", created)).tasks[0].task_id)

    async def look(self, task_id: str) -> None:
        """Note the snapshot and the timeline."""
        query = self.connection.query
        snapshot = self.connection.call(query.GetTask, query_service_pb2.GetTaskRequest(task_id=task_id))
        await self.journal.note("snapshot", snapshot)
        asked = query_service_pb2.ListTaskEventsRequest(task_id=task_id, limit=500)
        await self.journal.note("timeline", self.connection.call(query.ListTaskEvents, asked))


STEPS = [
    StepSpec(step_id=READ, operation_code="DOCUMENT.READ", expected_producer=PARSER, weight=3),
    StepSpec(
        step_id=PARSE,
        operation_code="DOCUMENT.PARSE",
        expected_producer=PARSER,
        depends_on=[READ],
        failure_policy=FailurePolicy.RETRY_THEN_FAIL_TASK,
    ),
]


@asynccontextmanager
async def cast(target: str, run: str, tokens: dict[str, TokenProvider]) -> AsyncIterator[Cast]:
    """Connections of every producer; ``tokens`` by producer."""
    async with AsyncExitStack() as stack:
        opened = {
            producer: await stack.enter_async_context(connect(target, token)) for producer, token in tokens.items()
        }
        coordinator = Coordinator(opened[COORDINATOR], COORDINATOR)
        yield Cast(
            run, opened[COORDINATOR], opened[PARSER], coordinator, Worker(opened[PARSER]), Worker(opened[SEARCHER])
        )


async def play(scene: Cast) -> Journal:
    """Every chapter."""
    for chapter in (
        _creation,
        _children,
        _modes,
        _policies,
        _retry,
        _cancel,
        _stream,
        _rerun,
        _labels,
        _revocation,
        _workflow,
    ):
        await chapter(scene)
    return scene.journal


async def _creation(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    ref = ExternalRef("ORDER_ID", f"{scene.run}-1")
    spec = TaskSpec(client_task_key="t", title="Report", steps=STEPS, batch_id="b-1", external_refs=[ref])
    create = coordinator.create_workflow
    workflow = await note("create", create(scene.run, owner_id=OWNER, title="Story", tasks=[spec]))
    await note("create again", create(scene.run, owner_id=OWNER, title="Story", tasks=[spec]))
    await note("create otherwise", create(scene.run, owner_id=OWNER, title="Other", tasks=[spec]))
    add = coordinator.create_task
    child = TaskSpec(client_task_key="u", title="Part", parent_task_id=workflow.tasks[0].task_id)
    task = await note("add", add(workflow.workflow_id, child))
    await note("add again", add(workflow.workflow_id, child))
    await note("add otherwise", add(workflow.workflow_id, dataclasses.replace(child, title="Other")))
    await note("take a number", add(workflow.workflow_id, dataclasses.replace(spec, client_task_key="v")))
    await note("attach taken", coordinator.attach_external_ref(task.task_id, ref))
    await note("attach own", coordinator.attach_external_ref(workflow.tasks[0].task_id, ref))
    more = ExternalRef("ORDER_ID", f"{scene.run}-2")
    await note("attach", coordinator.attach_external_ref(task.task_id, more, key="k"))
    await note("attach again", coordinator.attach_external_ref(task.task_id, more, key="k"))
    query = scene.connection.query
    lookup = task_list_pb2.LookupExternalRefRequest(ref_type="ORDER_ID", ref_value=f"{scene.run}-1")
    found = await note("look up", scene.connection.call(query.LookupExternalRef, lookup))
    assert len(found.tasks) == 1
    members = task_list_pb2.ListWorkflowTasksRequest(workflow_id=workflow.workflow_id)
    await note("members", scene.connection.call(query.ListWorkflowTasks, members))
    ids = [workflow.tasks[0].task_id, task.task_id]
    asked = task_list_pb2.BatchGetTaskStatusRequest(task_ids=ids, known_versions={task.task_id: 2})
    await note("statuses", scene.connection.call(query.BatchGetTaskStatus, asked))


async def _children(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    bounds = DynamicPolicy(parent_operations=["DOCUMENT.PARSE"], child_operations=["SEARCH.*"])
    task_id = await scene.task("children", dynamic=bounds)
    search = DynamicStep(client_step_key="a", operation_code="SEARCH.WEB", producer_id=SEARCHER, display_name="Web")
    context = await note("activate", coordinator.activate(task_id, PARSE))
    reporter = await scene.parser.bind(context)
    await note("child before the start", reporter.register_child(search))
    await note("start", reporter.started())
    child = await note("child", reporter.register_child(search))
    await note("child again", reporter.register_child(search))
    await note("child otherwise", reporter.register_child(dataclasses.replace(search, operation_code="SEARCH.SITE")))
    foreign = dataclasses.replace(search, client_step_key="t", operation_code="TOOL.RUN")
    await note("foreign operation", reporter.register_child(foreign))
    await note("foreign operation by the coordinator", coordinator.register(task_id, foreign))
    searching = await scene.started(child, scene.searcher)
    grandchild = dataclasses.replace(search, client_step_key="b")
    await note("grandchild", searching.register_child(grandchild))
    register = coordinator.register
    await note("by the coordinator", register(task_id, grandchild, parent_execution_id=context.execution_id))
    await note("without a parent", register(task_id, dataclasses.replace(search, client_step_key="c")))
    await note("third attempt", register(task_id, dataclasses.replace(search, attempt=3)))
    await note("fail the child", searching.failed(StepError("GONE", "The site is gone.", category="DEPENDENCY")))
    await note("second attempt", register(task_id, dataclasses.replace(search, attempt=2)))
    await note("complete", reporter.completed())
    await note("child of an ended one", reporter.register_child(dataclasses.replace(search, client_step_key="d")))
    await scene.look(task_id)


async def _modes(scene: Cast) -> None:
    note, search = (
        scene.journal.note,
        DynamicStep(client_step_key="a", operation_code="SEARCH.WEB", producer_id=SEARCHER),
    )
    fixed = await scene.task("fixed", mode=RegistrationMode.FIXED, task_type=f"FIXED_{scene.run}")
    await note("to a fixed manifest", scene.coordinator.register(fixed, search))
    minimal = await scene.task("minimal", mode=RegistrationMode.MINIMAL, steps=())
    only = await scene.started(await note("to none", scene.coordinator.register(minimal, search)), scene.searcher)
    await note("end", only.completed())
    await note("after a success", scene.coordinator.register(minimal, dataclasses.replace(search, attempt=2)))
    await note("give up", scene.coordinator.time_out_task(minimal, "too long"))
    await note("to an ended one", scene.coordinator.register(minimal, dataclasses.replace(search, client_step_key="b")))


async def _policies(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    steps = [
        StepSpec(step_id=f"0{n}", operation_code="DOCUMENT.PARSE", expected_producer=PARSER, failure_policy=policy)
        for n, policy in enumerate((*FailurePolicy, None), start=1)
    ]
    task_id = await scene.task("policies", steps=steps)
    for step in steps:
        reporter = await scene.started(await note("activate", coordinator.activate(task_id, step.step_id)))
        final = StepError("BAD", "Bad.", retryable=False)
        await note("fail", reporter.failed(final if step.step_id == "02" else StepError("WORSE", "Worse.")))
        await note("retry", coordinator.retry(task_id, step.step_id))
    context = await note("decided by a person", coordinator.activate(task_id, "04", attempt=2))
    await note("start", (await scene.parser.bind(context)).started())
    await note("end the step", coordinator.cancel_step(context, "no longer needed"))
    await note("end it again", coordinator.time_out_step(context, "no longer needed"))
    await note("not failed", coordinator.retry(task_id, "04"))
    await scene.look(task_id)
    ended = await note("give up", coordinator.time_out_task(task_id, "too long", event_id=f"{scene.run}-out"))
    lookup = task_list_pb2.LookupEventRequest(event_id=ended.event_id)
    await note("look up", scene.connection.call(scene.connection.query.LookupEvent, lookup))
    await note("retry", coordinator.retry(task_id, "01"))
    await scene.look(task_id)


async def _retry(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    task_id = await scene.task("retry")
    await note("no such step", coordinator.retry(task_id, "09_none"))
    await note("not begun", coordinator.retry(task_id, PARSE))
    context = await note("activate", coordinator.activate(task_id, PARSE))
    for code in ("UNREADABLE", "UNREADABLE_AGAIN"):
        reporter = await scene.started(context)
        await note("progress", reporter.progress(1, 4, "page"))
        await note("fail", reporter.failed(StepError(code, "Not readable.", category="INPUT")))
        outcome = await note("retry", coordinator.retry(task_id, PARSE))
        context = outcome.context
    late = await note("late", reporter.progress(2, 4, "page"))
    assert late.must_stop
    await note("given up", coordinator.time_out_step(context, "nothing heard"))
    await note("used up", coordinator.retry(task_id, PARSE))
    await note("one more", coordinator.retry(task_id, PARSE, most_attempts=4))
    await note("skipped a number", coordinator.activate(task_id, PARSE, attempt=9))
    await scene.look(task_id)


async def _cancel(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    task_id = await scene.task("cancel")
    reporter = await scene.started(await note("activate", coordinator.activate(task_id, PARSE)))
    await note("ask", coordinator.request_cancel(task_id, "wrong file", key="request 7"))
    await note("ask again", coordinator.request_cancel(task_id, "wrong file", key="request 7"))
    await note("ask otherwise", coordinator.request_cancel(task_id, "another reason", key="request 7"))
    await note("ask anew", coordinator.request_cancel(task_id))
    await note("retry", coordinator.retry(task_id, PARSE))
    await note("progress", reporter.progress(1, 4, "page"))
    assert reporter.cancel_requested
    await note("stopped", reporter.cancelled())
    await note("succeed", coordinator.complete_task(task_id))
    await note("confirm", coordinator.cancel_task(task_id, "stopped"))
    await note("ask too late", coordinator.request_cancel(task_id))
    await note("first answer", coordinator.request_cancel(task_id, "wrong file", key="request 7"))
    await scene.look(task_id)


async def _stream(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    task_id = await scene.task("stream", dynamic=DynamicPolicy(parent_operations=["DOCUMENT.*"]))
    context = await note("activate", coordinator.activate(task_id, PARSE))
    async with StreamReporter(scene.parsing) as stream, stream.execution(context) as execution:
        search = DynamicStep(client_step_key="a", operation_code="SEARCH.WEB", producer_id=SEARCHER)
        await note("child", execution.register_child(search))
        await note("ask", coordinator.request_cancel(task_id, "wrong file"))
        await note("progress", execution.progress(1, 4, "page"))
        assert execution.cancel_requested
        await note("stopped", execution.cancelled())
    await note("confirm", coordinator.cancel_task(task_id, "stopped"))
    await scene.look(task_id)


async def _rerun(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    task_id = await scene.task("rerun")
    await note("of a live run", coordinator.rerun(task_id))
    reading = await scene.started(await note("activate", coordinator.activate(task_id, READ)))
    completed = await note("read", reading.completed())
    parsing = await scene.started(await note("activate", coordinator.activate(task_id, PARSE)))
    await note(
        "register",
        coordinator.register(
            task_id, DynamicStep(client_step_key="x", operation_code="SEARCH.WEB", producer_id=SEARCHER)
        ),
    )
    await note("fail", coordinator.fail_task(task_id, StepError("LOST", "Lost."), failed_step_id=PARSE))
    await note("late", parsing.completed())
    skip = SkippedStep(READ, "read well", completed.event_id)
    await note("bad step", coordinator.rerun(task_id, skipped=[dataclasses.replace(skip, step_id="dyn_x")]))
    await note("bad source", coordinator.rerun(task_id, skipped=[dataclasses.replace(skip, step_id=PARSE)]))
    await note("another run", coordinator.rerun(task_id, task_attempt=2))
    await note("rerun", coordinator.rerun(task_id, "mended", task_attempt=1, skipped=[skip], key="r"))
    await note("rerun again", coordinator.rerun(task_id, "mended", task_attempt=1, skipped=[skip], key="r"))
    await note("of an earlier run", coordinator.rerun(task_id, task_attempt=1))
    await note("late again", parsing.progress(1, 2, "page"))
    await note("skipped", coordinator.activate(task_id, READ))
    await note("a late ruling", coordinator.complete_task(task_id, task_attempt=1))
    again = await scene.started(await note("activate", coordinator.activate(task_id, PARSE)))
    await note("parse", again.completed())
    await note("succeed", coordinator.complete_task(task_id, task_attempt=2))
    await scene.look(task_id)


async def _labels(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    task_id = await scene.task("labels")
    update = coordinator.update_metadata
    await note("update", update(task_id, product_id="p-1", priority=5, reason="moved", expected_version=1, key="m"))
    await note("update again", update(task_id, product_id="p-1", priority=5, reason="moved", key="m"))
    await note("no change", update(task_id, product_id="p-1"))
    await note("stale", update(task_id, title="New", expected_version=1))
    await note("nothing", update(task_id))
    task_type = f"TYPE_{scene.run}"
    await note("classify stale", coordinator.classify(task_id, task_type, expected_version=1))
    await note("classify", coordinator.classify(task_id, task_type, product_id="p-2", expected_version=2, key="c"))
    await note("classify again", coordinator.classify(task_id, task_type, product_id="p-2", key="c"))
    await note("classify twice", coordinator.classify(task_id, "OTHER"))
    await note("end", coordinator.complete_task(task_id))
    await note("retitle", update(task_id, title="An ended one"))


async def _revocation(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    task_id = await scene.task("revocation")
    context = await note("activate", coordinator.activate(task_id, PARSE))
    reporter = await scene.started(context)
    await note("revoke", coordinator.revoke(context.execution_id, "leaked", key="l"))
    await note("revoke again", coordinator.revoke(context.execution_id, "leaked", key="l"))
    await note("progress", reporter.progress(1, 2, "page"))
    await note("bind", scene.parser.bind(context))
    fresh = await note("renew", coordinator.renew(context))
    renewed = await scene.parser.bind(fresh)
    await note("complete", renewed.completed())
    await note("revoke an ended one", coordinator.revoke(context.execution_id))
    await note("revoke nothing", coordinator.revoke("exec_" + "0" * 32))
    await scene.look(task_id)


async def _workflow(scene: Cast) -> None:
    note, coordinator = scene.journal.note, scene.coordinator
    workflow = await note(
        "create",
        coordinator.create_workflow(
            f"{scene.run}-w", owner_id=OWNER, title="Rules", aggregation=AggregationPolicy.COORDINATOR_RULES
        ),
    )
    update = coordinator.update_workflow
    name = workflow.workflow_id
    await note("title", update(name, title="Ruled", expected_version=1, key="t"))
    await note("title again", update(name, title="Ruled", expected_version=1, key="t"))
    await note("same title", update(name, title="Ruled"))
    await note("stale", update(name, title="Late", expected_version=1))
    await note("without a reason", update(name, ruling=WorkflowRuling.SUCCEEDED))
    await note("rule", update(name, ruling=WorkflowRuling.SUCCEEDED, reason="all there"))
    await note("withdraw", update(name, withdraw_ruling=True))
    await note("nothing", update(name))
    await note("unknown", update("wf_" + "0" * 32, title="x"))
    request = query_service_pb2.GetWorkflowRequest(workflow_id=name)
    await note("read", scene.connection.call(scene.connection.query.GetWorkflow, request))
    request_cancel = task_commands_pb2.RequestCancelRequest(command_id="c", task_id="task_" + "0" * 32)
    await note("unknown task", scene.connection.call(scene.connection.register.RequestCancel, request_cancel))
