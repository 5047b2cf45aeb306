"""Paths that are odd once decoded still reach their route."""

from __future__ import annotations

import pytest

from .support import FakeDispatch, rest_client


@pytest.mark.parametrize(("encoded", "value"), [("a%0Ab", "a\nb"), ("%0A", "\n"), ("a%0D%0A", "a\r\n"), ("%00", "\0")])
def test_t3_a_control_character_in_the_path_is_part_of_the_value(encoded: str, value: str) -> None:
    dispatch = FakeDispatch()
    response = rest_client(dispatch).get(f"/api/v1/tasks/{encoded}")
    assert response.status_code == 200
    assert dispatch.request.task_id == value  # type: ignore[attr-defined]


def test_t3_an_unknown_path_with_a_line_feed_is_a_problem_document() -> None:
    response = rest_client(FakeDispatch()).get("/nowhere/%0A")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
