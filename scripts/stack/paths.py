"""Where things lie: the checkout, its run folder, and the cache shared by all checkouts of this user."""

import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""

RUN = ROOT / ".run"
"""State, logs, keys and data of the stack of ``make up``; deleted with the checkout."""

VENV = ROOT / ".venv"
CODEGEN_VENV = ROOT / ".venv-codegen"


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of what is downloaded or built once per user: ``$TASKSTATUS_CACHE`` or the XDG cache folder."""
    if explicit := environ.get("TASKSTATUS_CACHE"):
        return Path(explicit).expanduser().resolve()
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "taskstatus"
