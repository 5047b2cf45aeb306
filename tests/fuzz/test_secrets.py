"""The check of the logs would see a secret."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from scripts.stack.devkeys import DevKeys
from tests.fuzz.secrets import key_texts, secrets_in


@pytest.mark.parametrize("text", ["exh_" + "A" * 56, "eyJhbGciOiJI.eyJzdWIiOiJhIn0.c2lnbmF0dXJl", "known-secret"])
def test_n4_a_secret_in_a_message_or_field_is_found(text: str) -> None:
    in_message = logging.makeLogRecord({"msg": f"refused {text}"})
    in_field = logging.makeLogRecord({"msg": "refused", "cause": text})
    harmless = logging.makeLogRecord({"msg": "refused", "taskId": "task_01890000000070008000000000000001"})
    assert len(secrets_in([in_message, harmless, in_field], ["known-secret", ""])) == 2


def test_n4_the_development_keys_are_known(dev_keys: DevKeys) -> None:
    texts = key_texts(dev_keys.folder)
    named = [dev_keys.execution_keys_file, dev_keys.centrifugo_api_key_file, Path(dev_keys.folder / "services.key")]
    assert all(any(text in file.read_text() for text in texts) for file in named)
