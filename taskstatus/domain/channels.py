"""The one place where channel names are made (P-1, A-4)."""

from __future__ import annotations

from urllib.parse import quote

from taskstatus.domain.errors import invalid
from taskstatus.domain.ids import TaskId, WorkflowId, format_task_id, format_workflow_id

CHANNEL_MAX = 255
"""Centrifugo refuses clients a longer one."""


def channel_of(namespace: str, *parts: str) -> str:
    """``namespace:part/part``; each part percent-encoded, since user ids such as ``auth0|x`` or ``a#b`` are legal."""
    return f"{namespace}:{'/'.join(quote(part, safe='') for part in parts)}"


def task_user_channel(tenant_id: str, user_id: str) -> str:
    """Every summary that one person may see."""
    return channel_of("task_user", tenant_id, user_id)


def task_detail_channel(tenant_id: str, task_id: TaskId) -> str:
    """Full states of one task."""
    return channel_of("task_detail", tenant_id, format_task_id(task_id))


def workflow_summary_channel(tenant_id: str, workflow_id: WorkflowId) -> str:
    """Summaries of one workflow."""
    return channel_of("workflow_summary", tenant_id, format_workflow_id(workflow_id))


def realtime_user(tenant_id: str, user_id: str) -> str:
    """The ``sub`` of a realtime token: ``{tenant}/{user}``, encoded as in the channel names."""
    return f"{quote(tenant_id, safe='')}/{quote(user_id, safe='')}"


def check_user_channel(path: str, tenant_id: str, user_id: str) -> None:
    """Refuse a person whose summary channel no client could subscribe to."""
    if len(task_user_channel(tenant_id, user_id)) > CHANNEL_MAX:
        raise invalid(path, f"makes a channel name of more than {CHANNEL_MAX} characters when percent-encoded")
