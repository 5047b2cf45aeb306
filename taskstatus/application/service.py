"""The one application service that every entrypoint holds: gRPC and REST call the same objects (T-3)."""

from __future__ import annotations

from dataclasses import dataclass

from taskstatus.application.admin import Administration
from taskstatus.application.classification import Classification
from taskstatus.application.definitions import Definitions
from taskstatus.application.executions import ExecutionCommands
from taskstatus.application.heartbeats import Heartbeats
from taskstatus.application.lookups import Lookups
from taskstatus.application.query import Queries
from taskstatus.application.realtime import Realtime
from taskstatus.application.register import Registration
from taskstatus.application.report import Reporting
from taskstatus.application.task_commands import TaskCommands
from taskstatus.application.task_lists import TaskLists
from taskstatus.application.workflows import Workflows


@dataclass(frozen=True, slots=True)
class TaskStatusService:
    """One object per group of methods; stateless but for bounded caches."""

    registration: Registration
    executions: ExecutionCommands
    reporting: Reporting
    queries: Queries
    realtime: Realtime
    heartbeats: Heartbeats
    administration: Administration
    definitions: Definitions
    classification: Classification
    commands: TaskCommands
    lists: TaskLists
    lookups: Lookups
    workflows: Workflows
