"""Session-wide real servers; every folder of tests that needs a database or Centrifugo takes it from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.stack import devkeys, servers
from tests.support.databases import create_schema, drop_schema, schema_url

StartDatabase = Callable[[Path], servers.RunningServer | servers.GivenServer]
DATABASES = ("mysql", "mariadb")


@pytest.fixture(scope="session")
def mysql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MySQL server that nobody kills."""
    yield from _serving(servers.start_mysql, tmp_path_factory.mktemp("mysql"))


@pytest.fixture(scope="session")
def mariadb_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MariaDB server that nobody kills."""
    yield from _serving(servers.start_mariadb, tmp_path_factory.mktemp("mariadb"))


@pytest.fixture(scope="session")
def dev_keys(tmp_path_factory: pytest.TempPathFactory) -> devkeys.DevKeys:
    """Development keys and the identity file that names them."""
    return devkeys.ensure(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="session")
def centrifugo(
    tmp_path_factory: pytest.TempPathFactory, dev_keys: devkeys.DevKeys
) -> Iterator[servers.RunningCentrifugo]:
    """A Centrifugo that nobody kills, with the project's configuration."""
    server = servers.start_centrifugo(
        tmp_path_factory.mktemp("centrifugo"),
        api_key=dev_keys.centrifugo_api_key_file.read_text().strip(),
        public_key_pem=dev_keys.realtime_public_key_file.read_text(),
    )
    yield server
    server.stop()


@pytest.fixture(scope="module", params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated schema of this module, on each database product in turn."""
    url = schema_url(request.getfixturevalue(f"{request.param}_url"), request.module.__name__)
    create_schema(url)
    yield url
    drop_schema(url)


def _serving(start: StartDatabase, workdir: Path) -> Iterator[str]:
    server = start(workdir)
    yield server.url
    server.stop()
