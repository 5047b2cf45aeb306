"""Virtual environments made from a lock file with hashes, renewed when the lock changes."""

import hashlib
import subprocess
import sys
from pathlib import Path

from scripts.stack.locks import exclusive
from scripts.stack.paths import CODEGEN_VENV, ROOT, VENV
from scripts.stack.progress import Progress, StackError

STAMP = ".taskstatus-lock"


def ensure_dev(progress: Progress) -> Path:
    """The project's environment ``.venv`` with the project itself installed in place; returns its python."""
    lock = ROOT / "requirements" / "dev.lock"
    project = ["--no-deps", "-e", str(ROOT)]
    return _ensure(VENV, lock, [ROOT / "pyproject.toml"], project, progress)


def ensure_codegen(progress: Progress) -> Path:
    """The environment of the protobuf compiler, apart because it pins an older one; returns its python."""
    return _ensure(CODEGEN_VENV, ROOT / "requirements" / "codegen.lock", [], [], progress)


def _ensure(venv: Path, lock: Path, also: list[Path], project: list[str], progress: Progress) -> Path:
    python, stamp = venv / "bin" / "python", venv / STAMP
    wanted = fingerprint([lock, *also])
    with exclusive(ROOT / ".run" / "locks" / f"{venv.name}.lock", progress):
        if python.exists() and stamp.exists() and stamp.read_text() == wanted:
            return python
        with progress.step(f"Python environment {venv.name} from {lock.relative_to(ROOT)}"):
            stamp.unlink(missing_ok=True)
            _install(venv, python, lock, project)
            stamp.write_text(wanted)
    return python


def fingerprint(files: list[Path]) -> str:
    """A digest of the files and of the interpreter: a change of either makes an environment stale."""
    digest = hashlib.sha256(sys.version.encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _install(venv: Path, python: Path, lock: Path, project: list[str]) -> None:
    if not _answers(python):
        _run([sys.executable, "-m", "venv", "--clear", str(venv)], "apt-get install python3-venv")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    remedy = "check the network and pip's index (pip config list), then run the same command again"
    _run([*pip, "--require-hashes", "-r", str(lock)], remedy)
    if project:
        # The build backend is in the lock too, so that nothing comes without its hash.
        _run([*pip, "--no-build-isolation", *project], remedy)


def _answers(python: Path) -> bool:
    """Whether the environment still runs and has pip; an upgrade of the system's Python can break it."""
    try:
        found = subprocess.run(
            [python, "-c", "import pip, sys; print(sys.version)"], check=False, capture_output=True, text=True
        )
    except OSError:
        return False
    return found.returncode == 0 and found.stdout.strip() == sys.version


def _run(command: list[str], remedy: str) -> None:
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise StackError(f"{' '.join(command[:4])} … ended with {done.returncode}:\n{tail}", remedy)
