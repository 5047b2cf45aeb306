"""The ETag of an answer that shows one task or workflow, as ``If-Match`` takes it back (R-8, RFC 9110, 8.8.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

ETAG: Final = "ETag"
TAGGED: Final[Mapping[str, tuple[str, str]]] = {
    "taskstatus.v1.TaskSnapshot": ("task", "task_version"),
    "taskstatus.v1.TaskChange": ("task", "task_version"),
    "taskstatus.v1.WorkflowSnapshot": ("workflow", "workflow_version"),
}
"""Messages that are one version of one thing: the word of its tag, and the field of the version."""


def entity_tag(answer: Message) -> str | None:
    """``"task-version-4"`` or ``"workflow-version-4"`` of the one thing that an answer holds; None for others."""
    tagged = tagged_part(cast(Descriptor, answer.DESCRIPTOR))
    if tagged is None or not answer.HasField(tagged.field):
        return None
    return f'"{tagged.word}-version-{getattr(getattr(answer, tagged.field), tagged.version)}"'


@dataclass(frozen=True, slots=True)
class TaggedPart:
    """The one thing that an answer shows: its field, the word of its tag, and the field of its version."""

    field: str
    word: str
    version: str


def tagged_part(answer: Descriptor) -> TaggedPart | None:
    """What of an answer is tagged; None for answers that show several things, or none."""
    for field in answer.fields:
        kind = field.message_type
        if kind is not None and kind.full_name in TAGGED and not field.is_repeated:
            return TaggedPart(field.name, *TAGGED[kind.full_name])
    return None
