"""``make test``, ``unit``, ``demo`` and ``bench``: commands of the project's environment, with nothing left behind."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from scripts.stack import curl, database, paths, processes, venvs
from scripts.stack.binaries import CENTRIFUGO, MARIADB, MYSQL, REDIS
from scripts.stack.processes import Identity
from scripts.stack.progress import Progress, StackError
from scripts.stack.provide import Provider
from scripts.stack.signals import handling
from scripts.stack.state import State

WORKDIR_VARIABLE = "TASKSTATUS_TEST_WORKDIR"
"""Where the fixtures put the servers' folders; deleted after the run."""

WORKDIR_LINE = "workdir "
"""Begins the line of a registry that names the run's folder; the other lines name processes."""

PATIENCE_SECONDS = 60.0
"""How long an interrupted run may take to end its servers itself."""


def unit(progress: Progress, arguments: list[str]) -> int:
    """The tests that need no service."""
    python = venvs.ensure_dev(progress)
    # Compiling every test with its rewritten assertions takes as long as running them: keep what was compiled.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [str(python), "-m", "pytest", *(arguments or ["tests/unit"])]
    return subprocess.run(command, check=False, env=env).returncode


def test(progress: Progress, arguments: list[str]) -> int:
    """Every test, on MySQL, MariaDB, Redis and Centrifugo of its own; whatever happens, nothing goes on running."""
    python = venvs.ensure_dev(progress)
    curl.ensure(progress)
    _fetch_servers(progress)
    with nothing_left(progress) as (env, leaked):
        pytest = [str(python), "-m", "pytest", f"--basetemp={env[WORKDIR_VARIABLE]}/pytest", *(arguments or ["tests"])]
        code = _run_interruptible(pytest, env)
    if leaked and code == 0:
        raise StackError(
            f"the tests passed, but processes they started still ran: {len(leaked)} (ended now)",
            "end them in a fixture",
        )
    return code


def demo(progress: Progress, arguments: list[str]) -> int:
    """The demo against the running stack."""
    return _with_stack(progress, ["-m", "scripts.demo", *arguments])


def bench(progress: Progress, arguments: list[str]) -> int:
    """The benchmarks; they start servers of their own."""
    return _with_servers(progress, ["-m", "bench", *arguments])


def soak(progress: Progress, arguments: list[str]) -> int:
    """Stream load with reconnect storms for a while, with servers of its own."""
    return _with_servers(progress, ["-m", "bench.soak", *arguments])


def chaos(progress: Progress, arguments: list[str]) -> int:
    """Load and faults on real processes, judged by the history checker."""
    return _with_servers(progress, ["-m", "tests.chaos", *arguments])


def sim(progress: Progress, arguments: list[str]) -> int:
    """The seeded simulation; needs no server."""
    return subprocess.run([venvs.ensure_dev(progress), "-m", "tests.simulation", *arguments], check=False).returncode


def mutants(progress: Progress, arguments: list[str]) -> int:
    """One rule switched off at a time; needs no server."""
    return subprocess.run([venvs.ensure_dev(progress), "-m", "tests.mutants", *arguments], check=False).returncode


def _with_servers(progress: Progress, command: list[str]) -> int:
    python = venvs.ensure_dev(progress)
    _fetch_servers(progress)
    with nothing_left(progress) as (env, _):
        return _run_interruptible([str(python), *command], env)


def _with_stack(progress: Progress, command: list[str]) -> int:
    state = State.load(paths.RUN / "stack.json")
    if "serve" not in state.processes or not all(state.living(name) for name in state.processes):
        raise StackError("the stack does not run, or a part of it is dead (make status)", "make up")
    python = venvs.ensure_dev(progress)
    return subprocess.run([str(python), *command], check=False, env={**os.environ, **state.settings}).returncode


def _fetch_servers(progress: Progress) -> None:
    """Download, build and initialise before pytest, which would hide how far that is."""
    provider = Provider.from_environment(progress)
    for server in (MYSQL, MARIADB, REDIS, CENTRIFUGO):
        if server.url_variable and os.environ.get(server.url_variable):
            continue
        binary = provider.binary(server)
        progress.say(f"  {binary.version}: {binary.origin}")
        if server in (MYSQL, MARIADB):
            database.template(binary, provider.cache, progress)


@contextmanager
def nothing_left(progress: Progress) -> Iterator[tuple[dict[str, str], list[Identity]]]:
    """The environment of a run whose processes are known; they are ended, and its folder deleted, at the end.

    The second value is filled at the end with what the run itself had not ended.
    """
    registries = paths.RUN / "tests"
    registries.mkdir(parents=True, exist_ok=True)
    _sweep_dead_runs(registries, progress)
    me = processes.identify(os.getpid())
    registry = registries / f"{os.getpid()}-{me.started.replace(' ', '_') if me else ''}.processes"
    workdir = Path(tempfile.mkdtemp(prefix="taskstatus-test-"))
    registry.write_text(f"{WORKDIR_LINE}{workdir}\n")
    leaked: list[Identity] = []
    try:
        yield {**os.environ, processes.REGISTRY_VARIABLE: str(registry), WORKDIR_VARIABLE: str(workdir)}, leaked
    finally:
        leaked += _sweep(registry, progress)


def _sweep_dead_runs(registries: Path, progress: Progress) -> None:
    """End what a run left that was killed before it could clean up."""
    for registry in registries.glob("*.processes"):
        pid, _, started = registry.stem.partition("-")
        owner = processes.identify(int(pid))
        if owner is None or owner.started.replace(" ", "_") != started:
            _sweep(registry, progress)


def _sweep(registry: Path, progress: Progress) -> list[Identity]:
    left = [identity for identity in _started_under(registry) if processes.alive(identity)]
    for identity in left:
        progress.say(f"  ending process {identity.pid}, which a test run left behind")
        processes.kill(identity)
    for line in registry.read_text().splitlines():
        if line.startswith(WORKDIR_LINE):
            shutil.rmtree(line.removeprefix(WORKDIR_LINE), ignore_errors=True)
    registry.unlink()
    return left


def _started_under(registry: Path) -> list[Identity]:
    """Processes noted in the registry and, on Linux, every other one that inherited its name in the environment."""
    found = dict.fromkeys(processes.registered(registry))
    mark = f"{processes.REGISTRY_VARIABLE}={registry}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            marked = mark in environ.read_bytes().split(b"\0")
        except OSError:
            continue
        identity = processes.identify(int(environ.parent.name)) if marked else None
        if identity and identity.pid != os.getpid():
            found[identity] = None
    return list(found)


def _run_interruptible(command: list[str], env: Mapping[str, str]) -> int:
    """Run a command that cleans up on SIGINT. Ctrl-C reaches it from the terminal, SIGTERM is passed on as SIGINT."""
    interrupted = False
    with subprocess.Popen(command, env=env) as process:

        def on_signal(number: int, _frame: FrameType | None) -> None:
            nonlocal interrupted
            interrupted = True
            if number == signal.SIGTERM:
                process.send_signal(signal.SIGINT)

        with handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), on_signal):
            while True:
                try:
                    return process.wait(PATIENCE_SECONDS)
                except subprocess.TimeoutExpired:
                    if interrupted:
                        process.kill()
