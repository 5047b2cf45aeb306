"""What a clean root is given of this machine."""

from pathlib import Path

from scripts.stack import fresh
from scripts.stack.aptsources import Source


def test_environment_has_the_registry_settings_and_nothing_of_the_user(tmp_path: Path) -> None:
    environ = {
        "PIP_INDEX_URL": "https://pip.example/simple",
        "GOPROXY": "https://go.example",
        "EDITOR": "vi",
        "PATH": "/x",
    }
    inside = fresh.environment(environ, tmp_path)
    assert inside["PIP_INDEX_URL"] == "https://pip.example/simple"
    assert inside["GOPROXY"] == "https://go.example"
    assert inside["HOME"] == "/root"
    assert "EDITOR" not in inside
    assert "/x" not in inside["PATH"]


def test_setting_that_names_a_file_is_kept_only_if_the_root_has_it(tmp_path: Path) -> None:
    (tmp_path / "bundle.crt").touch()
    environ = {"PIP_CERT": "/bundle.crt", "PIP_FIND_LINKS": "/opt/wheels"}
    inside = fresh.environment(environ, tmp_path)
    assert inside["PIP_CERT"] == "/bundle.crt"
    assert "PIP_FIND_LINKS" not in inside


def test_files_and_folders_of_settings_are_copied(tmp_path: Path) -> None:
    machine, root = tmp_path / "machine", tmp_path / "root"
    (machine / "etc/apt/apt.conf.d").mkdir(parents=True)
    (machine / "etc/apt/apt.conf.d/proxy").write_text("a")
    (machine / "etc/pip.conf").write_text("b")
    fresh.pass_on(machine, root)
    assert (root / "etc/apt/apt.conf.d/proxy").read_text() == "a"
    assert (root / "etc/pip.conf").read_text() == "b"


def test_only_the_suites_further_archives_are_passed_on() -> None:
    sources = [
        Source("http://m.example/debian", ("bookworm", "bookworm-updates")),
        Source("http://m.example/debian-security", ("bookworm-security",)),
        Source("https://vendor.example/apt", ("bookworm-x",)),
    ]
    assert fresh.security_lines(sources) == [
        "deb http://m.example/debian bookworm-updates main\n",
        "deb http://m.example/debian-security bookworm-security main\n",
    ]
