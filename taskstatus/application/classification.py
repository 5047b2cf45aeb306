"""ClassifyTask: a task's type and definitions, bound once (R-8)."""

from __future__ import annotations

from taskstatus.application.definition_binding import DefinitionBinding, WantedVersions
from taskstatus.application.ports_store import WriteTransaction
from taskstatus.application.task_commands import TaskCommands
from taskstatus.domain.classification import ClassifyTask, classify
from taskstatus.domain.notifications import OutboxTools
from taskstatus.domain.task_commands import CommandOutcome, CommandRows


class Classification:
    """The method ClassifyTask."""

    def __init__(self, commands: TaskCommands, binding: DefinitionBinding, tools: OutboxTools) -> None:
        self._commands = commands
        self._binding = binding
        self._tools = tools

    async def classify(self, command: ClassifyTask) -> CommandOutcome:
        """See ``domain.classification``."""
        actor = command.head.actor
        wanted = WantedVersions(
            command.task_type, command.status_definition_version, command.operation_definition_version
        )
        await self._binding.prepare(actor.tenant_id, actor.authority_scope, [wanted])

        async def decide(_: WriteTransaction, rows: CommandRows) -> CommandOutcome:
            return classify(command, rows, self._binding.bind_classified, self._tools)

        return await self._commands.run(command.head, decide)
