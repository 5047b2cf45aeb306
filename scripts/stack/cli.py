"""The command line of the developer stack."""

import argparse
import signal
import sys
from collections.abc import Callable

from scripts.stack import checks, commands, fresh, testing
from scripts.stack.progress import Progress, StackError
from scripts.stack.signals import handling, interrupt

Command = Callable[[Progress, list[str]], int]

COMMANDS: dict[str, tuple[str, Command]] = {
    "up": ("start servers, migrations and the project's processes", lambda p, _: commands.bring_up(p, False)),
    "servers": ("start the servers only", lambda p, _: commands.bring_up(p, True)),
    "down": ("end the stack, keep its data", lambda p, _: commands.bring_down(p)),
    "clean": ("end the stack and delete its data, keys and logs", lambda p, _: commands.clean(p)),
    "status": ("what runs, and where", lambda p, _: commands.status(p)),
    "logs": ("the logs of the stack", lambda p, _: commands.logs(p)),
    "demo": ("the design's document task, live", testing.demo),
    "unit": ("unit tests, no services", testing.unit),
    "test": ("every test, on real servers of its own", testing.test),
    "check": ("formatting, lint, types, layers, contract, generated code", checks.check),
    "image": ("renew the image that buf compares the contract with", checks.image),
    "bench": ("the benchmarks", testing.bench),
    "soak": ("stream load with a reconnect storm each minute", testing.soak),
    "sim": ("the seeded simulation", testing.sim),
    "chaos": ("load and faults on real processes", testing.chaos),
    "mutants": ("one rule switched off at a time", testing.mutants),
    "fresh": ("the README's commands in a clean Debian root", fresh.fresh),
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; a failure that can be mended is told in plain words, with exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m scripts.stack")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="passed on to pytest and the like")
    arguments = parser.parse_args(argv)
    try:
        with handling((signal.SIGTERM, signal.SIGHUP), interrupt):
            return COMMANDS[arguments.command][1](Progress(), arguments.rest)
    except StackError as error:
        print(f"\n{arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{arguments.command}: interrupted", file=sys.stderr)
        return 130
