"""``python -m scripts.demo [--pace SECONDS] [--file PATH]``: see the package; ``make demo`` starts it."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.demo.narration import Stage
from scripts.demo.owner import OwnerError
from scripts.demo.play import Options, Play
from scripts.demo.players import PlayersError
from scripts.stack import paths
from scripts.stack.state import State

NEEDED: Final = ("TASKSTATUS_GRPC_LISTEN", "TASKSTATUS_REST_LISTEN", "TASKSTATUS_IDENTITY_FILE")
INTERRUPTED: Final = 130
SAMPLE: Final = Path(__file__).with_name("sample.txt")


def main(arguments: list[str] | None = None) -> int:
    """0 when everything was seen as it should be, 1 when not, 2 for a call that cannot work."""
    options = _options(arguments)
    settings = _settings(os.environ)
    if settings is None:
        print("demo: the stack does not run. Start it with: make up", file=sys.stderr)
        return 2
    if not options.file.is_file():
        print(f"demo: {options.file} is not a file", file=sys.stderr)
        return 2
    try:
        problems = asyncio.run(_play(settings, options))
    except (OwnerError, PlayersError) as error:
        problems = [str(error)]
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    for problem in problems:
        print(f"demo: NOT so: {problem}", file=sys.stderr)
    if not problems:
        print("\nAs it should be. Watch the details of a retry again slowly with: make demo ARGS='--pace 2'")
    return 1 if problems else 0


async def _play(settings: Mapping[str, str], options: Options) -> list[str]:
    """Play; SIGTERM ends it as Ctrl-C does, players included."""
    playing = asyncio.current_task()
    assert playing is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    return await Play(settings, options, Stage()).run()


def _options(arguments: list[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m scripts.demo", description="The design's document task, live.")
    parser.add_argument("--file", type=Path, default=SAMPLE, help="the text file to work on (default: a sample)")
    parser.add_argument("--pace", type=float, default=0.2, metavar="SECONDS", help="pause within and between steps")
    parser.add_argument("--deadline", type=float, default=300.0, metavar="SECONDS", help="give up after so long")
    parser.add_argument("--results", type=Path, default=paths.RUN / "demo", help="folder of the stored results")
    parsed = parser.parse_args(arguments)
    return Options(parsed.file, max(parsed.pace, 0.0), parsed.deadline, parsed.results.resolve())


def _settings(environ: Mapping[str, str]) -> Mapping[str, str] | None:
    """The environment's, as ``make demo`` gives them, or else those of the stack of ``make up``."""
    if all(name in environ for name in NEEDED):
        return environ
    settings = State.load(paths.RUN / "stack.json").settings
    return settings if all(name in settings for name in NEEDED) else None


if __name__ == "__main__":
    sys.exit(main())
