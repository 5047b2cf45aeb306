"""``make check``: everything that can be judged without running a server. All checks run, then the failed are named."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.stack import venvs
from scripts.stack.paths import ROOT, VENV
from scripts.stack.progress import Progress, StackError

IMAGE = ROOT / "proto" / "image.binpb"
"""The contract as last released: what `buf breaking` compares with."""


@dataclass(frozen=True)
class Check:
    """One command of the environment (first word: a program of ``.venv/bin``) and the command that mends a failure."""

    name: str
    command: tuple[str, ...]
    remedy: str
    in_buf_workspace: bool = False


CHECKS = (
    Check("formatting", ("ruff", "format", "--check", "."), ".venv/bin/ruff format ."),
    Check("lint", ("ruff", "check", "."), ".venv/bin/ruff check --fix ."),
    Check("types", ("mypy",), "correct the lines named above"),
    Check("types of the tools", ("mypy", "scripts", "bench", "tests/stack"), "correct the lines named above"),
    Check("layers", ("lint-imports",), "correct the imports named above; the rules are in pyproject.toml"),
    Check("contract style", ("buf", "lint", "proto"), "correct the protos named above", in_buf_workspace=True),
    Check(
        "contract compatibility",
        ("buf", "breaking", "proto", "--against", str(IMAGE)),
        "keep the contract compatible; after a release, or when there is no image yet: make image",
        in_buf_workspace=True,
    ),
    Check("generated code", ("python", "-m", "scripts.gen", "--check"), "make gen"),
    Check(
        "REST document", ("python", "-m", "gateway_rest.openapi", "--check"), "python -m gateway_rest.openapi --write"
    ),
    Check(
        "rendered documents",
        ("python", "-m", "pytest", "-q", "tests/docs", "-k", "not walkthrough"),
        "python -m scripts.docs --write, or see the test's message",
    ),
)


def check(progress: Progress, arguments: list[str]) -> int:
    """Run every check, or those named in ``arguments``."""
    venvs.ensure_dev(progress)
    chosen = [check for check in CHECKS if not arguments or check.name in arguments]
    with buf_workspace() as workspace:
        failed = [check for check in chosen if not _passes(check, workspace, progress)]
    for bad in failed:
        progress.say(f"failed: {bad.name}\n  to mend it: {bad.remedy}")
    return 1 if failed else 0


def image(progress: Progress, _arguments: list[str]) -> int:
    """Renew the committed image from ``proto/``."""
    venvs.ensure_dev(progress)
    with buf_workspace() as workspace:
        build = [str(VENV / "bin" / "buf"), "build", "proto", "--output", str(IMAGE)]
        done = subprocess.run(build, check=False, cwd=workspace)
    if done.returncode != 0:
        raise StackError("buf could not read proto/", "correct the protos named above")
    progress.say(f"wrote {IMAGE.relative_to(ROOT)}")
    return 0


def _passes(check: Check, workspace: Path, progress: Progress) -> bool:
    program, *arguments = check.command
    cwd = workspace if check.in_buf_workspace else ROOT
    try:
        with progress.step(check.name):
            subprocess.run([str(VENV / "bin" / program), *arguments], check=True, cwd=cwd)
    except subprocess.CalledProcessError:
        return False
    return True


@contextmanager
def buf_workspace() -> Iterator[Path]:
    """A folder in which buf finds our protos and, offline, Google's: those of the installed Python package."""
    google = _site_packages() / "google"
    with tempfile.TemporaryDirectory(prefix="taskstatus-buf-") as temp:
        workspace = Path(temp)
        shutil.copy(ROOT / "buf.yaml", workspace)
        shutil.copytree(ROOT / "proto", workspace / "proto")
        for folder in ("api", "rpc"):
            target = workspace / "third_party" / "google" / folder
            shutil.copytree(google / folder, target, ignore=_all_but_protos)
        yield workspace


def _all_but_protos(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not (name.endswith(".proto") or (Path(folder) / name).is_dir())]


def _site_packages() -> Path:
    found = sorted((VENV / "lib").glob("python3*/site-packages"))
    if not found:
        raise StackError(f"{VENV} has no site-packages folder", f"rm -r {VENV} and run the same command again")
    return found[0]
