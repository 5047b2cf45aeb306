"""Where a server comes from: named by the environment, found on the machine, or installed in the cache.

The cache is never trusted blindly: a program counts only when it answers its version.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.stack import debs, golang, versions
from scripts.stack.binaries import CENTRIFUGO, Binary, Server
from scripts.stack.locks import exclusive
from scripts.stack.paths import cache_dir
from scripts.stack.progress import Progress, StackError

PRIVATE_VARIABLE = "TASKSTATUS_STACK_PRIVATE"
SEARCH_ALSO = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin")


@dataclass(frozen=True)
class Provider:
    """Finds or installs servers. ``private`` leaves what is on the machine aside (``TASKSTATUS_STACK_PRIVATE=1``)."""

    progress: Progress
    cache: Path
    private: bool = False

    @classmethod
    def from_environment(cls, progress: Progress) -> "Provider":
        """The provider that the environment asks for."""
        return cls(progress, cache_dir(), os.environ.get(PRIVATE_VARIABLE, "") not in ("", "0"))

    def binary(self, server: Server) -> Binary:
        """A program for ``server`` that has answered its version; installs it when there is none."""
        return self._explicit(server) or self._on_machine(server) or self._installed(server)

    def _explicit(self, server: Server) -> Binary | None:
        path = os.environ.get(server.binary_variable, "")
        if not path:
            return None
        version = versions.ask([path], server.product)
        if version is None or not server.accepts(version):
            said = f"answers that it is {version}" if version else f"does not run, or does not answer as {server.title}"
            raise StackError(
                f"{server.binary_variable}={path} {said}; wanted is {server.wish}",
                f"unset {server.binary_variable}, or correct it",
            )
        return Binary(server.product, [path], version, _basedir(path), f"{server.binary_variable}={path}")

    def _on_machine(self, server: Server) -> Binary | None:
        if self.private:
            return None
        for path in _found(server.names):
            version = versions.ask([path], server.product)
            if version and server.accepts(version):
                return Binary(server.product, [path], version, _basedir(path), f"{path}, found on this machine")
        return None

    def _installed(self, server: Server) -> Binary:
        root = self.cache / "servers" / server.product
        with exclusive(self.cache / "locks" / f"{server.product}.lock", self.progress):
            binary = self._in_cache(server, root)
            if binary is None:
                self._install(server, root)
                binary = self._in_cache(server, root)
        if binary is None:
            raise StackError(f"{server.title} was installed in {root} but does not answer its version", f"rm -r {root}")
        return binary

    def _in_cache(self, server: Server, root: Path) -> Binary | None:
        if not root.is_dir():
            return None
        try:
            command = _command(server, root)
        except StackError:
            return None
        version = versions.ask(command, server.product)
        if version is None or not server.accepts(version):
            return None
        return Binary(server.product, command, version, root / "usr", f"{root}, installed for this project")

    def _install(self, server: Server, root: Path) -> None:
        """Build in a folder beside, then rename: an interrupted run leaves nothing that looks finished."""
        partial = root.with_name(root.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        self.progress.say(f"  no {server.title} on this machine, installing one in {root}")
        try:
            self._builder(server)(partial)
            shutil.rmtree(root, ignore_errors=True)
            partial.rename(root)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _builder(self, server: Server) -> Callable[[Path], None]:
        wanted = server.wanted
        if wanted is None:
            return lambda target: golang.build_centrifugo(target, self.cache, self.progress, self.private)
        variable = server.binary_variable
        if not debs.supported():
            raise StackError(
                f"no {server.title} here, and it can be installed by itself on Linux only", f"set {variable}"
            )
        return lambda target: debs.unpack(wanted, variable, target, self.progress)


def _command(server: Server, root: Path) -> list[str]:
    if server is CENTRIFUGO:
        return [str(root / "centrifugo")]
    return debs.launcher(root, server.path_in_package)


def _found(names: tuple[str, ...]) -> list[str]:
    """Absolute paths of these programs, on PATH first, then in folders that PATH often leaves out."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *SEARCH_ALSO]
    paths = (Path(folder) / name for name in names for folder in folders if folder)
    return list(dict.fromkeys(str(path) for path in paths if os.access(path, os.X_OK)))


def _basedir(path: str) -> Path:
    """The installation folder of a program in ``…/sbin`` or ``…/bin``."""
    return Path(path).resolve().parent.parent
