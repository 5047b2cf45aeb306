"""The four servers: which versions do, under which names they are found, and which package gives them."""

from dataclasses import dataclass
from pathlib import Path

from scripts.stack.debs import Wanted
from scripts.stack.versions import Number, Version


@dataclass(frozen=True)
class Server:
    """What is known about one server before it is found.

    ``at_least`` and ``below`` bound the versions that are taken when found on the machine.
    """

    product: str
    title: str
    url_variable: str
    binary_variable: str
    names: tuple[str, ...]
    at_least: Number
    below: Number
    wanted: Wanted | None
    path_in_package: str

    @property
    def wish(self) -> str:
        """What is taken, for people to read."""
        return f"{self.title} {'.'.join(map(str, self.at_least))} or newer"

    def accepts(self, version: Version) -> bool:
        """Whether a version that was found will do."""
        return version.product == self.product and self.at_least <= version.number < self.below


@dataclass(frozen=True)
class Binary:
    """A server program that has answered its version.

    ``command`` starts it (several words when it runs through a private loader), ``basedir`` holds its messages and
    SQL files, ``origin`` says for people where it comes from.
    """

    product: str
    command: list[str]
    version: Version
    basedir: Path
    origin: str


MYSQL = Server(
    product="mysql",
    title="MySQL",
    url_variable="TASKSTATUS_MYSQL_URL",
    binary_variable="TASKSTATUS_MYSQLD",
    names=("mysqld",),
    at_least=(8, 0),
    below=(99,),
    wanted=Wanted(
        ("mysql-server-core", "sid"), ("mysql-server-core", "mysql-server-core-8.4", "mysql-server-core-8.0")
    ),
    path_in_package="usr/sbin/mysqld",
)

MARIADB = Server(
    product="mariadb",
    title="MariaDB",
    url_variable="TASKSTATUS_MARIADB_URL",
    binary_variable="TASKSTATUS_MARIADBD",
    names=("mariadbd", "mysqld"),
    at_least=(10, 11),
    below=(99,),
    wanted=Wanted(("mariadb-server-core", "bookworm"), ("mariadb-server-core",)),
    path_in_package="usr/sbin/mariadbd",
)

REDIS = Server(
    product="redis",
    title="Redis",
    url_variable="TASKSTATUS_REDIS_URL",
    binary_variable="TASKSTATUS_REDIS_SERVER",
    names=("redis-server",),
    at_least=(6, 2),
    below=(99,),
    wanted=Wanted(("redis-server", "bookworm"), ("redis-server",)),
    path_in_package="usr/bin/redis-server",
)

CENTRIFUGO = Server(
    product="centrifugo",
    title="Centrifugo",
    url_variable="",
    binary_variable="TASKSTATUS_CENTRIFUGO",
    names=("centrifugo",),
    at_least=(6, 9, 1),
    below=(7,),
    wanted=None,
    path_in_package="",
)
