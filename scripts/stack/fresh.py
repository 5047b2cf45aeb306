"""``make fresh``: the README's commands in a clean Debian root, with make and git alone and empty caches.

Everything runs in mount and process namespaces of its own, so that nothing stays mounted or running however this
ends; the root is deleted afterwards.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts.stack import aptsources
from scripts.stack.paths import ROOT
from scripts.stack.progress import Progress, StackError

SUITE = "bookworm"
PACKAGES = "make,git"
CHECKOUT = "srv/taskstatus"
COMMANDS = ("make up", "make demo", "make down", "make test")

PASSED_ON = ("PIP_", "GO", "NPM_", "npm_", "SSL_CERT", "REQUESTS_CA", "CURL_CA", "NODE_EXTRA_CA")
"""Beginnings of the variables that say how this machine reaches its registries."""

PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "TASKSTATUS_DEBIAN_MIRROR")

MACHINE_FILES = (
    "etc/apt/apt.conf.d",
    "etc/pip.conf",
    "root/.config/pip/pip.conf",
    "root/.config/go/env",
    "etc/npmrc",
    "root/.npmrc",
    "etc/resolv.conf",
    "etc/hosts",
    "etc/ssl/certs/ca-certificates.crt",
    "usr/local/share/ca-certificates",
)
"""Registry settings, resolver and certificates of this machine: without them nothing can be downloaded in the root."""

ENTER = 'mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" && exec chroot "$@"'
"""Run in the new namespaces: what it mounts is seen by nobody else and ends with it."""

SCRIPT = """\
cd /{checkout} || exit 1
step() {{
  start=$(date +%s)
  echo "== $1"
  sh -c "$1" || {{ echo "== $1: FAILED after $(($(date +%s) - start)) s"; exit 1; }}
  echo "== $1: $(($(date +%s) - start)) s"
}}
update-ca-certificates >/dev/null 2>&1
{steps}
for process in /proc/[0-9]*; do
  read -r stat <"$process/stat" || continue
  case "$process $stat" in "/proc/1 "* | *") Z "*) continue ;; esac
  echo "== FAILED, still running: $stat"
  exit 1
done
echo "== nothing left running"
"""


def fresh(progress: Progress, arguments: list[str]) -> int:
    """Run the README's commands, or ``arguments``, in a new root; 0 when all succeeded and nothing is left running."""
    _require_root_and_tools(progress)
    _warn_of_uncommitted(progress)
    root = Path(tempfile.mkdtemp(prefix="taskstatus-fresh-"))
    try:
        with progress.step(f"clean {SUITE} root with {PACKAGES.replace(',', ' and ')} alone"):
            _debootstrap(root)
        pass_on(Path("/"), root)
        _quiet(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(root / CHECKOUT)])
        return _enter(root, arguments or list(COMMANDS))
    finally:
        with progress.step("delete the root"):
            shutil.rmtree(root, ignore_errors=True)


def _require_root_and_tools(progress: Progress) -> None:
    if os.geteuid() != 0:
        raise StackError("a clean root can be made by root only", "sudo make fresh")
    for tool, package in (("debootstrap", "debootstrap"), ("unshare", "util-linux")):
        if not shutil.which(tool):
            with progress.step(f"install {package}"):
                _quiet(["apt-get", "update"])
                _quiet(["apt-get", "install", "--yes", package])


def _warn_of_uncommitted(progress: Progress) -> None:
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "rev-parse", "--verify", "--quiet", "HEAD"], check=False, capture_output=True).returncode:
        raise StackError("this checkout has no commit yet", "git commit")
    if subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True).stdout.strip():
        progress.say("  note: only what is committed (HEAD) is tried; this checkout has changes that are not")


def _debootstrap(root: Path) -> None:
    sources = aptsources.machine_sources()
    archive = aptsources.main_archive(sources)
    mirror = os.environ.get("TASKSTATUS_DEBIAN_MIRROR") or (
        archive.uri if archive and archive.family == "debian" else ""
    )
    if not mirror:
        raise StackError("no Debian mirror in this machine's apt sources", "TASKSTATUS_DEBIAN_MIRROR=<URL> make fresh")
    _quiet(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root), mirror])
    lines = [f"deb {mirror} {SUITE} main\n", *security_lines(sources)]
    (root / "etc/apt/sources.list").write_text("".join(lines))


def security_lines(sources: list[aptsources.Source]) -> list[str]:
    """The machine's further Debian archives of the same suite (updates, security), in the one-line format."""
    return [
        f"deb {source.uri} {suite} main\n"
        for source in sources
        if "/debian" in source.uri
        for suite in source.suites
        if suite.startswith(f"{SUITE}-")
    ]


def pass_on(machine: Path, root: Path) -> None:
    """Copy the machine's registry settings, resolver and certificates into the root."""
    for name in MACHINE_FILES:
        source, target = machine / name, root / name
        if not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            target.unlink(missing_ok=True)
            shutil.copyfile(source, target)


def environment(environ: Mapping[str, str], root: Path) -> dict[str, str]:
    """A new user's environment with the registry settings; one that names a file counts only if the root has it."""
    kept = {name: value for name, value in environ.items() if name in PROXIES or name.startswith(PASSED_ON)}
    usable = {name: value for name, value in kept.items() if not value.startswith("/") or (root / value[1:]).exists()}
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**usable, "HOME": "/root", "PATH": path, "LANG": "C.UTF-8", "TERM": environ.get("TERM", "dumb")}


def _enter(root: Path, commands: list[str]) -> int:
    steps = "\n".join(f"step {shlex.quote(command)}" for command in commands)
    (root / "fresh.sh").write_text(SCRIPT.format(checkout=CHECKOUT, steps=steps))
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", str(root)]
    done = subprocess.run([*unshare, "/bin/sh", "/fresh.sh"], check=False, env=environment(os.environ, root))
    return done.returncode


def _quiet(command: list[str]) -> None:
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        last = "\n".join(done.stdout.strip().splitlines()[-8:])
        raise StackError(f"{' '.join(command[:2])} ended with {done.returncode}:\n{last}")
