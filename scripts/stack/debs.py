"""Unpacking a Debian package with all that it needs into one private folder; nothing is installed on the system.

apt works with a configuration of its own (sources, lists, cache, and an empty list of installed packages, so that
the closure is complete), ``dpkg-deb -x`` unpacks. The programs run through the folder's own dynamic loader and
libraries, so that a newer suite's program runs on an older system.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.stack import aptsources
from scripts.stack.progress import Progress, StackError

MIRROR_VARIABLE = "TASKSTATUS_DEBIAN_MIRROR"


@dataclass(frozen=True)
class Package:
    """A package of one suite of one distribution; ``uri`` is the archive it comes from."""

    name: str
    suite: str
    uri: str
    family: str = "debian"


@dataclass(frozen=True)
class Wanted:
    """Which package gives a server: on Debian from a fixed suite, on Ubuntu from the machine's own, first found."""

    debian: tuple[str, str]
    ubuntu: tuple[str, ...]


def candidates(wanted: Wanted, archive: aptsources.Archive | None, mirror: str) -> list[Package]:
    """The packages to try, best first. ``mirror`` is the explicit Debian mirror, may be empty."""
    name, suite = wanted.debian
    if mirror:
        return [Package(name, suite, mirror.rstrip("/"))]
    if archive is None:
        return []
    if archive.family == "debian":
        return [Package(name, suite, archive.uri)]
    return [Package(other, archive.suite, archive.uri, "ubuntu") for other in wanted.ubuntu]


def unpack(wanted: Wanted, variable: str, target: Path, progress: Progress) -> None:
    """Fill ``target`` with the first candidate that can be downloaded; ``variable`` is named as the way around."""
    remedy = (
        f"apt-get update, to see whether this machine reaches its mirror; or {MIRROR_VARIABLE}=<URL of a Debian "
        f"mirror> make up; or install the server in your own way and set {variable}"
    )
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise StackError(
            "private servers are unpacked with apt-get and dpkg-deb, which are not here", f"set {variable}"
        )
    sources = aptsources.machine_sources()
    packages = candidates(wanted, aptsources.main_archive(sources), os.environ.get(MIRROR_VARIABLE, ""))
    if not packages:
        raise StackError("no Debian or Ubuntu archive in /etc/apt/sources.list or sources.list.d", remedy)
    failures = []
    for package in packages:
        try:
            return _unpack_one(package, target, progress)
        except StackError as error:
            failures.append(f"{package.name} of {package.suite} from {package.uri}: {error}")
    raise StackError("\n".join(failures), remedy)


def _unpack_one(package: Package, target: Path, progress: Progress) -> None:
    work = target.with_name(target.name + ".apt")
    try:
        config = _apt_config(package, work)
        with progress.step(f"package lists of {package.suite}"):
            _apt(config, "update", "--error-on=any")
        with progress.step(f"download {package.name} with its dependencies ({package.suite})"):
            _apt(config, "install", "--download-only", "--yes", package.name)
        debs = sorted((work / "cache" / "archives").glob("*.deb"))
        with progress.step(f"unpack {len(debs)} packages"):
            for deb in debs:
                _run(["dpkg-deb", "-x", str(deb), str(target)])
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _apt_config(package: Package, work: Path) -> Path:
    """Write an apt configuration that knows this one archive and nothing of the system's state."""
    for folder in ("lists/partial", "cache/archives/partial", "empty"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "status").touch()
    options = f"[signed-by={_keyring(package)}] "
    (work / "sources.list").write_text(f"deb {options}{package.uri} {package.suite} main{_universe(package)}\n")
    settings = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": work / "empty",
        "Dir::Etc::preferences": work / "preferences",
        "Dir::Etc::preferencesparts": work / "empty",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::State::extended_states": work / "extended_states",
        "Dir::Cache": work / "cache",
        "APT::Install-Recommends": "false",
        "APT::Keep-Downloaded-Packages": "true",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
        "Acquire::http::Timeout": "20",
        "Acquire::https::Timeout": "20",
    }
    config = work / "apt.conf"
    # Hooks of the system's configuration (docker images clean caches with them) are not for us.
    hooks = "#clear DPkg::Pre-Install-Pkgs;\n#clear DPkg::Post-Invoke;\n#clear APT::Update::Post-Invoke;\n"
    config.write_text(hooks + "".join(f'{key} "{value}";\n' for key, value in settings.items()))
    return config


def _universe(package: Package) -> str:
    return " universe" if package.family == "ubuntu" else ""


def _keyring(package: Package) -> str:
    ring = Path(f"/usr/share/keyrings/{package.family}-archive-keyring.gpg")
    if not ring.exists():
        name = f"{package.family}-archive-keyring" if package.family == "debian" else "ubuntu-keyring"
        raise StackError(f"{ring} is missing, without it the packages cannot be verified", f"apt-get install {name}")
    return str(ring)


def _apt(config: Path, *arguments: str) -> None:
    """Run apt-get with ``config`` read last (-c), after and above the system's own configuration."""
    _run(["apt-get", "--quiet=2", "-c", str(config), *arguments])


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
    )
    if done.returncode != 0:
        last = "\n".join(done.stdout.strip().splitlines()[-8:])
        raise StackError(f"{command[0]} ended with {done.returncode}:\n{last}")


def launcher(root: Path, program: str) -> list[str]:
    """The command that runs ``program`` (a path below ``root``) with the folder's own loader and libraries."""
    loaders = sorted(root.glob("usr/lib/*/ld-linux-*.so.*")) + sorted(root.glob("lib*/**/ld-linux-*.so.*"))
    if not loaders:
        raise StackError(f"no dynamic loader below {root}, the cached copy is broken", f"rm -r {root}")
    folders = [f for pattern in ("usr/lib/*-linux-*", "lib/*-linux-*") for f in sorted(root.glob(pattern))]
    inner = [sub for folder in folders for sub in (folder, folder / "private") if sub.is_dir()]
    return [str(loaders[0]), "--library-path", ":".join(map(str, inner)), str(root / program)]


def supported() -> bool:
    """Whether this kind of system can run unpacked Debian packages at all."""
    return sys.platform == "linux"
