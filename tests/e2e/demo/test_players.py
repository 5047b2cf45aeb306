"""The demo's child processes: what they tell, and what happens when one goes too early."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scripts.demo.narration import heard
from scripts.demo.players import Players, PlayersError


async def test_a_player_that_goes_too_early_is_named() -> None:
    told: list[dict[str, Any]] = []
    players = Players(lambda who, line: told.append(line))
    await players.start("nobody", "scripts.demo.coordinator", [], {})

    with pytest.raises(PlayersError, match="nobody ended before its time"):
        await players.all_while(asyncio.Event().wait())

    await players.end()


def test_what_a_child_prints_otherwise_is_said() -> None:
    assert heard(b'{"kind": "task", "taskId": "task_1"}\n') == {"kind": "task", "taskId": "task_1"}
    assert heard(b"a plain line\n") == {"kind": "say", "text": "a plain line"}
    assert heard(b"[1]\n") == {"kind": "say", "text": "[1]"}
