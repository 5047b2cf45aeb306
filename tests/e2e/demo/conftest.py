"""One private stack per database for the tests of this folder; what a test killed is started again before the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .stack import Stack, running_stack


@pytest.fixture(scope="session")
def mysql_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A whole stack on MySQL."""
    with running_stack("mysql", tmp_path_factory.mktemp("demo-mysql")) as stack:
        yield stack


@pytest.fixture(scope="session")
def mariadb_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A whole stack on MariaDB."""
    with running_stack("mariadb", tmp_path_factory.mktemp("demo-mariadb")) as stack:
        yield stack


@pytest.fixture
def whole_mysql_stack(mysql_stack: Stack) -> Stack:
    """The stack on MySQL with every part alive."""
    mysql_stack.mend()
    return mysql_stack
