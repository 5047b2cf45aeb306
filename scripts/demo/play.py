"""One run of the demo from the first token to the verdict."""

from __future__ import annotations

import asyncio
import json
import secrets
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.demo import document
from scripts.demo.cast import COORDINATOR, PRODUCERS, SCOPE, TENANT, Part
from scripts.demo.narration import SAY, Stage
from scripts.demo.owner import Owner
from scripts.demo.players import Players, PlayersError
from scripts.demo.record import Record, differences
from scripts.demo.watcher import Watcher
from taskstatus.adapters.clock import SystemClock
from taskstatus.adapters.tokens.dev_tokens import DevPerson, DevService, mint_person_token, mint_service_token
from taskstatus.application.identity import Role
from taskstatus.sdk import StepError

RESULT: Final = "result.json"


@dataclass(frozen=True, slots=True)
class Options:
    """What the reader chose."""

    file: Path
    pace_seconds: float
    deadline_seconds: float
    results: Path


@dataclass
class Told:
    """What the coordinator has told so far."""

    listening: asyncio.Event = field(default_factory=asyncio.Event)
    created: asyncio.Event = field(default_factory=asyncio.Event)
    task_id: str = ""
    late_reason: str = ""
    ended: dict[str, Any] = field(default_factory=dict)

    def take(self, told: dict[str, Any]) -> None:
        """One line that is not for the reader."""
        match told["kind"]:
            case "listening":
                self.listening.set()
            case "task":
                self.task_id = told["taskId"]
                self.created.set()
            case "late":
                self.late_reason = told["reason"]
            case "ended":
                self.ended = told


class Play:
    """The run; ``settings`` are those of the running stack."""

    def __init__(self, settings: Mapping[str, str], options: Options, stage: Stage) -> None:
        self._settings = settings
        self._options = options
        self._stage = stage
        self._key = f"demo-{secrets.token_hex(4)}"
        self._identity_file = Path(settings["TASKSTATUS_IDENTITY_FILE"])
        self._told = Told()
        self._players = Players(self._hear)
        self._workdir = options.results / self._key

    async def run(self) -> list[str]:
        """Play; what went wrong, which is nothing in a good run. Raises OwnerError and PlayersError."""
        self._workdir.mkdir(parents=True)
        person = mint_person_token(self._identity_file, SystemClock(), DevPerson(TENANT, self._key))
        owner = Owner.at(self._settings["TASKSTATUS_REST_LISTEN"], person)
        watcher = Watcher(owner, self._stage.line)
        try:
            async with asyncio.timeout(self._options.deadline_seconds):
                await self._perform(watcher)
                return await self._judge(watcher, owner)
        except TimeoutError:
            return [self._out_of_time(watcher)]
        finally:
            await self._players.end()
            await watcher.close()
            await owner.close()

    async def _perform(self, watcher: Watcher) -> None:
        self._stage.headline(f"The owner {self._key} opens the page; four services start, each with its own identity.")
        await watcher.connect()
        with tempfile.TemporaryDirectory(prefix="taskstatus-demo-") as folder:
            await self._start_players(Path(folder) / "work.sock")
            await self._players.all_while(self._told.created.wait())
            await watcher.watch(self._told.task_id)
            self._stage.headline("Status goes to the service and comes back (◂) to the owner; work goes by hand-over.")
            await self._players.go("coordinator")
            code = await self._players.wait("coordinator")
            if code != 0:
                raise PlayersError(f"the coordinator ended with {code}")
            await watcher.finished()

    async def _start_players(self, socket: Path) -> None:
        file = str(self._options.file.resolve())
        coordinator = self._part(COORDINATOR, Role.COORDINATOR, socket)
        arguments = [self._key, self._key, file]
        await self._players.start("coordinator", "scripts.demo.coordinator", arguments, coordinator.environment())
        await self._players.all_while(self._told.listening.wait())
        for operation, producer in PRODUCERS.items():
            part = self._part(producer, Role.WORKER, socket)
            await self._players.start(operation, "scripts.demo.worker", [operation], part.environment())

    def _part(self, producer: str, role: Role, socket: Path) -> Part:
        service = DevService(TENANT, SCOPE, producer, frozenset({role}))
        token = mint_service_token(self._identity_file, SystemClock(), service)
        target = self._settings["TASKSTATUS_GRPC_LISTEN"]
        return Part(target, token, socket, self._workdir, self._options.pace_seconds)

    def _hear(self, who: str, told: dict[str, Any]) -> None:
        if told["kind"] == SAY:
            self._stage.line(who, told["text"])
        else:
            self._told.take(told)

    async def _judge(self, watcher: Watcher, owner: Owner) -> list[str]:
        """Compare what was seen with what is: the list of what does not fit."""
        record = watcher.record
        self._stage.headline("What the owner has seen, against what the service and the disk hold:")
        snapshot = await owner.snapshot(self._told.task_id)
        differing = differences(record.state, snapshot)
        newest = record.final_version or 0
        status = snapshot["lifecycleStatus"]
        checks = [
            (f"the task has ended as {status}", status == "SUCCEEDED"),
            (f"versions 1…{newest} were all seen ({_ways(record)})", not record.missing),
            (f"the last detail equals the snapshot at version {snapshot['taskVersion']}", not differing),
            (
                f"attempt 1's late completion was answered {self._told.late_reason or 'nothing'}",
                self._told.late_reason == "STALE_ATTEMPT",
            ),
            (f"the stored result is that of the file: {self._workdir / RESULT}", self._result_fits()),
        ]
        for text, holds in checks:
            self._stage.line("yes" if holds else "NO", text)
        for difference in differing:
            self._stage.line("", difference)
        self._stage.line("commit→receive", _delays(record.delays_ms))
        return [text for text, holds in checks if not holds]

    def _result_fits(self) -> bool:
        """Whether the workers together arrived at what one process makes of the file."""
        try:
            stored = json.loads((self._workdir / RESULT).read_text())
            return bool(stored == document.process(self._options.file.read_bytes()))
        except (FileNotFoundError, StepError):
            return False

    def _out_of_time(self, watcher: Watcher) -> str:
        missing = watcher.record.missing
        known = watcher.record.state.get("taskVersion", "none")
        return f"not finished after {self._options.deadline_seconds:.0f} s; newest version {known}, missing {missing}"


def _ways(record: Record) -> str:
    if not record.only_in_timeline:
        return "each as a summary"
    return f"{len(record.summaries)} as summaries, {record.only_in_timeline} in the timeline after the outage"


def _delays(delays_ms: list[float]) -> str:
    if not delays_ms:
        return "no messages"
    return f"median {statistics.median(delays_ms):.1f} ms, most {max(delays_ms):.1f} ms, {len(delays_ms)} messages"
