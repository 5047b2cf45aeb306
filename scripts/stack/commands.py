"""The commands behind ``make up``, ``down``, ``status``, ``logs`` and ``clean``. Each returns its exit code."""

import shutil
import subprocess
import sys

from scripts.stack import paths, services, up, venvs
from scripts.stack.binaries import CENTRIFUGO, MARIADB, MYSQL, REDIS
from scripts.stack.keeper import Keeper
from scripts.stack.locks import exclusive
from scripts.stack.progress import Progress
from scripts.stack.provide import Provider
from scripts.stack.state import State

TITLES = {
    **{server.product: server.title for server in (MYSQL, MARIADB, REDIS, CENTRIFUGO)},
    **{service.name: service.title for service in services.SERVICES},
}
"""Every process of the stack in the order of its start."""


def bring_up(progress: Progress, servers_only: bool) -> int:
    """Start what does not run, and tell where everything is. ``servers_only`` leaves the project's processes out."""
    with exclusive(paths.RUN / "locks" / "stack.lock", progress):
        venvs.ensure_dev(progress)
        keeper = Keeper.of(paths.RUN, progress)
        run = up.Up(keeper, Provider.from_environment(progress), up.environment())
        run.start_servers()
        if not servers_only:
            run.migrate()
            run.start_services()
    _summary(keeper.state, progress)
    return 0


def bring_down(progress: Progress) -> int:
    """End the processes, last started first. Data, keys and logs stay."""
    with exclusive(paths.RUN / "locks" / "stack.lock", progress):
        keeper = Keeper.of(paths.RUN, progress)
        for name in reversed(TITLES):
            keeper.stop(name)
    progress.say("The stack is down; its data is kept in .run/data (make clean deletes it).")
    return 0


def clean(progress: Progress) -> int:
    """End the processes and delete the run folder with data, keys and logs."""
    bring_down(progress)
    shutil.rmtree(paths.RUN, ignore_errors=True)
    progress.say("Deleted .run with its data, keys and logs.")
    return 0


def status(progress: Progress) -> int:
    """Tell what runs; 0 when everything that was started still runs, 1 otherwise."""
    state = State.load(paths.RUN / "stack.json")
    if not state.processes:
        progress.say("Nothing runs. Start the stack with: make up")
        return 1
    dead = [name for name in state.processes if not state.living(name)]
    _table(state, progress)
    if dead:
        progress.say(f"\nDead: {', '.join(dead)}. See make logs; start again with: make up")
    return 1 if dead else 0


def logs(progress: Progress, lines: int = 30) -> int:
    """Follow the logs in a terminal; print the end of each otherwise."""
    files = sorted((paths.RUN / "logs").glob("*.log"))
    if not files:
        progress.say("There are no logs yet. Start the stack with: make up")
        return 1
    follow = ["-F"] if sys.stdout.isatty() else []
    return subprocess.run(["tail", "-n", str(lines), *follow, *map(str, files)], check=False).returncode


def _summary(state: State, progress: Progress) -> None:
    progress.say("\nThe stack is up:")
    _table(state, progress)
    progress.say("\nHow long it took:" if progress.timings else "\nNothing had to be started.")
    for name, seconds in progress.timings:
        progress.say(f"  {seconds:6.1f} s  {name}")
    whole = services.SERVICES[0].name in state.processes
    progress.say(
        f"\nSee it work:   {'make demo' if whole else 'make up, then make demo (only the servers run now)'}\n"
        "Use it:        . .run/env    (the settings of every process)\n"
        "Look at it:    make status, make logs\n"
        "End it:        make down"
    )


def _table(state: State, progress: Progress) -> None:
    for name, entry in sorted(state.processes.items(), key=lambda item: list(TITLES).index(item[0])):
        life = f"pid {entry.pid}" if state.living(name) else "DEAD"
        progress.say(f"  {TITLES[name]:22} {life:11} {entry.listens}")
        if entry.origin not in ("", ".venv"):
            progress.say(f"  {'':22} {'':11} from {entry.origin}")
