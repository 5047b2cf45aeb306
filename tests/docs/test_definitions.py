"""The file that ``docs/definitions.md`` shows can be published as it stands (L-4, L-5)."""

from __future__ import annotations

import re

import yaml

from taskstatus.adapters.definitions.documents import operation_of, parse_file, statuses_of
from taskstatus.domain.business_status import may_follow
from tests.docs.support import ROOT


def test_l5_the_file_of_the_page_is_a_definition() -> None:
    page = (ROOT / "docs" / "definitions.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)

    operation, statuses = parse_file(yaml.safe_load(text), "docs/definitions.md").definitions

    assert operation_of(operation.body).operation_code == "DOCUMENT.PARSE"
    definition = statuses_of(statuses.body)
    assert [status.code for status in definition.statuses] == ["PARSING", "WAITING_REVIEW", "PUBLISHED"]
    assert may_follow("PARSING", "RUNNING", definition)
    assert not may_follow("PUBLISHED", "PARSING", definition)
