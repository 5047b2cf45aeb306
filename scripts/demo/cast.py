"""Who takes part: producers, operations and steps, and the few settings that a child process is given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from taskstatus.sdk import Connection, FailurePolicy, RetryPolicy, StepSpec, TaskSpec, connect

TENANT: Final = "demo"
SCOPE: Final = "demo"
COORDINATOR: Final = "demo-coordinator"
PREPARE: Final = "FILE.PREPARE"
PARSE: Final = "DOCUMENT.PARSE"
PERSIST: Final = "RESULT.PERSIST"

PRODUCERS: Final = {PREPARE: "demo-files", PARSE: "demo-documents", PERSIST: "demo-results"}
"""The service identity of each worker."""
STEPS: Final = {"01_prepare": PREPARE, "02_parse": PARSE, "03_store": PERSIST}
"""In the order in which the coordinator runs them."""
MAX_ATTEMPTS: Final = 3
PATIENCE: Final = RetryPolicy(patience_seconds=300.0, progress_patience_seconds=60.0)
"""Longer than a restart of anything takes, and than a person who tries one by hand."""

_PREFIX: Final = "TASKSTATUS_DEMO_"


def document_task(key: str, title: str, input_ref: str) -> TaskSpec:
    """The fixed manifest of design 3.4."""
    steps: list[StepSpec] = []
    for step_id, operation in STEPS.items():
        policy = FailurePolicy.RETRY_THEN_FAIL_TASK if operation == PARSE else FailurePolicy.FAIL_TASK
        after = [steps[-1].step_id] if steps else []
        steps.append(
            StepSpec(
                step_id=step_id,
                operation_code=operation,
                expected_producer=PRODUCERS[operation],
                depends_on=after,
                failure_policy=policy,
                display_name=operation.replace(".", " ").capitalize(),
                weight=3 if operation == PARSE else 1,
            )
        )
    return TaskSpec(client_task_key=key, title=title, task_type="DOCUMENT_DEMO", input_ref=input_ref, steps=steps)


@dataclass(frozen=True, slots=True)
class Part:
    """What one child process is told: where the service is, its own token, and how slowly to play."""

    target: str
    token: str
    socket: Path
    workdir: Path
    pace_seconds: float

    def environment(self) -> dict[str, str]:
        """To hand over; the token stays out of the command line, which every user of the machine can read."""
        return {
            f"{_PREFIX}TARGET": self.target,
            f"{_PREFIX}TOKEN": self.token,
            f"{_PREFIX}SOCKET": str(self.socket),
            f"{_PREFIX}WORKDIR": str(self.workdir),
            f"{_PREFIX}PACE": str(self.pace_seconds),
        }

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """The part of this process. Raises KeyError outside the demo."""
        return cls(
            target=environ[f"{_PREFIX}TARGET"],
            token=environ[f"{_PREFIX}TOKEN"],
            socket=Path(environ[f"{_PREFIX}SOCKET"]),
            workdir=Path(environ[f"{_PREFIX}WORKDIR"]),
            pace_seconds=float(environ[f"{_PREFIX}PACE"]),
        )

    def connect(self) -> Connection:
        """A connection with this process's identity."""
        return connect(self.target, lambda: self.token, retry=PATIENCE)
