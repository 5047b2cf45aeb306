"""Data folders and command lines of MySQL and MariaDB.

A fresh data folder costs seconds, so it is made once per version, kept in the cache, and copied. Every server is
ours alone: own folder, own socket, loopback only, root without a password.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.stack import ports, probes, processes, versions
from scripts.stack.binaries import Binary
from scripts.stack.locks import exclusive
from scripts.stack.programs import Program
from scripts.stack.progress import Progress, StackError

SCHEMA = "taskstatus"
DURABLE = ("--innodb-flush-log-at-trx-commit=1",)
"""Every commit is on disk before it is answered, as in production: the tests kill these servers."""

LEAN = ("--skip-log-bin", "--innodb-fast-shutdown=2")
"""For servers of tests, whose data is thrown away."""

TEMPLATE_FORMAT = "2"
"""Part of the template's name; raised when the way it is made changes."""

MARIADB_SQL = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mysql_sys_schema.sql",
)
"""What mariadb-install-db feeds to ``mariadbd --bootstrap``, without the help texts."""

INIT_SQL = (
    f"CREATE DATABASE IF NOT EXISTS {SCHEMA} CHARACTER SET utf8mb4;",
    "CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';",
    "GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;",
)
"""Run at each start. Names are not resolved, so root needs an account for the loopback address itself."""


def database_url(port: int, schema: str = SCHEMA) -> str:
    """The address in the form of ``TASKSTATUS_DATABASE_URL``."""
    return f"mysql://root@{ports.HOST}:{port}/{schema}"


def prepare(binary: Binary, folder: Path, cache: Path, progress: Progress) -> Path:
    """The data folder below ``folder``, copied from the cached template when it does not exist yet."""
    data = folder / "data"
    if not data.exists():
        source = template(binary, cache, progress)
        partial = folder / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        _copy(source, partial)
        partial.rename(data)
    (folder / "init.sql").write_text("\n".join(INIT_SQL) + "\n")
    return data


def program(binary: Binary, folder: Path, port: int, log: Path, options: Sequence[str] = ()) -> Program:
    """How to start the server on a data folder made by :func:`prepare`; later ``options`` override earlier ones."""

    def ready() -> bool:
        greeting = probes.mysql_greeting(ports.HOST, port)
        version = versions.of_greeting(greeting) if greeting else None
        return version is not None and version.product == binary.product

    place = [f"--datadir={folder / 'data'}", f"--port={port}", f"--bind-address={ports.HOST}"]
    own = ["--socket=server.sock", f"--pid-file={folder / 'server.pid'}", f"--init-file={folder / 'init.sql'}"]
    plain = ["--skip-name-resolve", "--secure-file-priv=", *_dialect_options(binary)]
    return Program(
        name=f"{binary.version}",
        command=[*_base_command(binary), *place, *own, *plain, *DURABLE, *options],
        log=log,
        ready=ready,
        listens=database_url(port),
        ready_seconds=120.0,
        grace_seconds=60.0,
    )


def _base_command(binary: Binary) -> list[str]:
    """Program, no configuration files of the machine, own messages; as root only when we are root."""
    share = binary.basedir / "share" / "mysql"
    user = ["--user=root"] if os.geteuid() == 0 else []
    messages = [f"--lc-messages-dir={share}"] if share.is_dir() else []
    return [*binary.command, "--no-defaults", *user, f"--basedir={binary.basedir}", *messages]


def _dialect_options(binary: Binary) -> list[str]:
    if binary.product == "mysql":
        return ["--mysqlx=OFF", "--auto-generate-certs=OFF", "--caching-sha2-password-auto-generate-rsa-keys=OFF"]
    return [f"--plugin-dir={_plugin_dir(binary)}"]


def _plugin_dir(binary: Binary) -> Path:
    folders = sorted(binary.basedir.glob("lib*/**/mariadb*/plugin")) + sorted(binary.basedir.glob("lib/mysql/plugin"))
    return folders[0] if folders else binary.basedir / "lib" / "mysql" / "plugin"


def template(binary: Binary, cache: Path, progress: Progress) -> Path:
    """The initialised data folder of this version in the cache, made when it is not there."""
    number = ".".join(map(str, binary.version.number))
    final = cache / "templates" / f"{binary.product}-{number}-{TEMPLATE_FORMAT}"
    initialise: Callable[[Binary, Path], None] = _init_mysql if binary.product == "mysql" else _init_mariadb
    with exclusive(cache / "locks" / f"template-{binary.product}.lock", progress):
        if not final.exists():
            partial = final.with_name(final.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.parent.mkdir(parents=True, exist_ok=True)
            with progress.step(f"first data folder of {binary.version}"):
                initialise(binary, partial)
            (partial / "auto.cnf").unlink(missing_ok=True)
            partial.rename(final)
    return final


def _init_mysql(binary: Binary, data: Path) -> None:
    quick = ["--innodb-redo-log-capacity=16M", "--skip-log-bin", *_dialect_options(binary)]
    log = data.with_name(data.name + ".log")
    _run([*_base_command(binary), "--initialize-insecure", f"--datadir={data}", *quick], b"", log)


def _init_mariadb(binary: Binary, data: Path) -> None:
    """The steps of mariadb-install-db, which cannot find its parts in an unpacked package."""
    share = _sql_folder(binary)
    head = b"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
    lines = (line for name in MARIADB_SQL for line in (share / name).read_bytes().splitlines(keepends=True))
    sql = head + b"".join(line for line in lines if b"@current_hostname" not in line)
    data.mkdir(parents=True)
    bootstrap = ["--bootstrap", f"--datadir={data}", "--log-warnings=0", "--max-allowed-packet=8M"]
    log = data.with_name(data.name + ".log")
    _run([*_base_command(binary), *bootstrap, *_dialect_options(binary)], sql, log)


def _sql_folder(binary: Binary) -> Path:
    for name in ("mysql", "mariadb"):
        if (binary.basedir / "share" / name / MARIADB_SQL[0]).exists():
            return binary.basedir / "share" / name
    raise StackError(
        f"{binary.command[0]} comes without its SQL files below {binary.basedir}/share",
        "unset TASKSTATUS_MARIADBD, or name a server of a full installation",
    )


def _run(command: list[str], stdin: bytes, log: Path) -> None:
    with log.open("wb") as out:
        done = subprocess.run(command, check=False, input=stdin, stdout=out, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise StackError(f"{' '.join(command[-3:])} ended with {done.returncode}:\n{processes.tail(log)}")
    log.unlink()


def _copy(source: Path, target: Path) -> None:
    """Copy with holes kept and, where the file system can, without copying blocks."""
    if shutil.which("cp") and os.uname().sysname == "Linux":
        subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", str(source), str(target)], check=True)
    else:
        shutil.copytree(source, target)
