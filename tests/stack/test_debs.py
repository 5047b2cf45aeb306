"""Which packages are tried for a server, and how an unpacked program is run."""

from pathlib import Path

import pytest

from scripts.stack.aptsources import Archive
from scripts.stack.debs import Package, Wanted, candidates, launcher
from scripts.stack.progress import StackError

WANTED = Wanted(("mysql-server-core", "sid"), ("mysql-server-core", "mysql-server-core-8.0"))
DEBIAN = Archive("debian", "http://m.example/debian", "bookworm")
UBUNTU = Archive("ubuntu", "http://m.example/ubuntu", "noble")


def test_debian_takes_the_fixed_suite_from_the_machines_own_mirror() -> None:
    assert candidates(WANTED, DEBIAN, "") == [Package("mysql-server-core", "sid", "http://m.example/debian")]


def test_ubuntu_takes_its_own_packages_in_order() -> None:
    found = candidates(WANTED, UBUNTU, "")
    assert [package.name for package in found] == ["mysql-server-core", "mysql-server-core-8.0"]
    assert {(package.suite, package.family) for package in found} == {("noble", "ubuntu")}


@pytest.mark.parametrize("archive", [DEBIAN, UBUNTU, None])
def test_explicit_mirror_wins(archive: Archive | None) -> None:
    assert candidates(WANTED, archive, "http://x.example/debian/") == [
        Package("mysql-server-core", "sid", "http://x.example/debian")
    ]


def test_machine_without_an_archive_has_no_candidate() -> None:
    assert candidates(WANTED, None, "") == []


def test_launcher_uses_the_folders_own_loader_and_libraries(tmp_path: Path) -> None:
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    (libraries / "private").mkdir(parents=True)
    loader = libraries / "ld-linux-x86-64.so.2"
    loader.touch()
    command = launcher(tmp_path, "usr/sbin/mysqld")
    assert command == [
        str(loader),
        "--library-path",
        f"{libraries}:{libraries / 'private'}",
        str(tmp_path / "usr/sbin/mysqld"),
    ]


def test_launcher_of_a_broken_folder_says_how_to_mend_it(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="rm -r"):
        launcher(tmp_path, "usr/sbin/mysqld")
