"""Who a server is, by its own answer."""

from pathlib import Path

import pytest

from scripts.stack import versions
from scripts.stack.binaries import CENTRIFUGO, MARIADB, MYSQL, REDIS, Server

ANSWERS = [
    ("mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)", "mariadb", (10, 11, 19)),
    ("/x/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))", "mysql", (9, 7, 4)),
    ("mysqld  Ver 8.0.36-0ubuntu0.22.04.1 for Linux on x86_64 ((Ubuntu))", "mysql", (8, 0, 36)),
    ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "redis", (7, 0, 15)),
    ("Centrifugo v6.9.1 (Go version: go1.26.8)", "centrifugo", (6, 9, 1)),
    ("go version go1.26.8 linux/amd64", "go", (1, 26, 8)),
    ("go version go1.27 linux/amd64", "go", (1, 27)),
]


@pytest.mark.parametrize(("answer", "product", "number"), ANSWERS)
def test_answer_names_product_and_number(answer: str, product: str, number: versions.Number) -> None:
    version = versions.parse(answer)
    assert version is not None
    assert (version.product, version.number) == (product, number)


def test_answer_of_something_else_is_nobody() -> None:
    assert versions.parse("bash: mysqld: command not found") is None


@pytest.mark.parametrize(
    ("greeting", "shown"), [("9.7.4-2", "MySQL 9.7.4"), ("10.11.19-MariaDB-0+deb12u1", "MariaDB 10.11.19")]
)
def test_greeting_tells_mysql_from_mariadb(greeting: str, shown: str) -> None:
    assert str(versions.of_greeting(greeting)) == shown


@pytest.mark.parametrize(
    ("server", "answer", "accepted"),
    [
        (MYSQL, "Ver 8.0.36 for Linux", True),
        (MYSQL, "Ver 5.7.44 for Linux", False),
        (MYSQL, "Ver 10.11.19-MariaDB", False),
        (MARIADB, "Ver 10.11.2-MariaDB", True),
        (MARIADB, "Ver 10.6.18-MariaDB", False),
        (REDIS, "Redis server v=6.0.16 ", False),
        (CENTRIFUGO, "Centrifugo v6.9.0", False),
        (CENTRIFUGO, "Centrifugo v6.9.1", True),
    ],
)
def test_server_accepts_only_its_own_product_in_its_range(server: Server, answer: str, accepted: bool) -> None:
    version = versions.parse(answer)
    assert version is not None
    assert server.accepts(version) is accepted


def test_ask_of_a_missing_program_is_nobody(tmp_path: Path) -> None:
    assert versions.ask([str(tmp_path / "mysqld")], "mysql") is None


def test_ask_of_a_broken_program_is_nobody(tmp_path: Path) -> None:
    program = tmp_path / "mysqld"
    program.write_bytes(b"\x7fELF cut off")
    program.chmod(0o755)
    assert versions.ask([str(program)], "mysql") is None
