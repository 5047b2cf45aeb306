"""Realtime access for people: short tokens whose channels are made here (A-1, A-2, A-4)."""

from __future__ import annotations

from dataclasses import dataclass

from taskstatus.application.identity import UserIdentity
from taskstatus.application.ports_credentials import RealtimeTokens
from taskstatus.application.query import Queries
from taskstatus.application.workflows import Workflows
from taskstatus.domain.channels import (
    realtime_user,
    task_detail_channel,
    task_user_channel,
    workflow_summary_channel,
)
from taskstatus.domain.errors import invalid


@dataclass(frozen=True, slots=True)
class RealtimeSession:
    """Where to connect and with what; ``expires_at`` in Unix seconds."""

    url: str
    token: str
    expires_at: float
    user_channel: str


@dataclass(frozen=True, slots=True)
class ChannelToken:
    """A token for one channel; ``expires_at`` in Unix seconds."""

    token: str
    channel: str
    expires_at: float


class Realtime:
    """The methods of RealtimeService."""

    def __init__(self, tokens: RealtimeTokens, queries: Queries, workflows: Workflows, public_url: str) -> None:
        self._tokens = tokens
        self._queries = queries
        self._workflows = workflows
        self._public_url = public_url

    def session(self, user: UserIdentity) -> RealtimeSession:
        """A connection token that subscribes the caller's own summary channel."""
        channel = task_user_channel(user.tenant_id, user.user_id)
        token, expires_at = self._tokens.connection_token(realtime_user(user.tenant_id, user.user_id), [channel])
        return RealtimeSession(self._public_url, token, expires_at, channel)

    async def subscription(self, user: UserIdentity, task_id_text: str, workflow_id_text: str = "") -> ChannelToken:
        """A token for the one channel that is named: a task's details, or a workflow's shared summaries.

        The caller's access is checked now. Raises RefusedError TASK_NOT_FOUND, WORKFLOW_NOT_FOUND, INVALID_ARGUMENT.
        """
        if bool(task_id_text) == bool(workflow_id_text):
            raise invalid("taskId", "exactly one of taskId and workflowId is required")
        if workflow_id_text:
            workflow_id = await self._workflows.followed(user, workflow_id_text)
            channel = workflow_summary_channel(user.tenant_id, workflow_id)
        else:
            view = await self._queries.task(user, task_id_text)
            channel = task_detail_channel(user.tenant_id, view.task.envelope.task_id)
        token, expires_at = self._tokens.subscription_token(realtime_user(user.tenant_id, user.user_id), channel)
        return ChannelToken(token, channel, expires_at)
