"""Which mirror the machine uses, read from both formats of apt sources."""

from pathlib import Path

import pytest

from scripts.stack.aptsources import Archive, Source, machine_sources, main_archive, parse_deb822, parse_one_line

DEB822 = """\
# a comment
Types: deb deb-src
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""


def test_one_line_format_reads_options_and_skips_comments_and_sources_of_source_code() -> None:
    text = """
deb [arch=amd64 signed-by=/k.gpg] http://m.example/ubuntu noble main
#deb http://x y z
deb-src http://m.example/ubuntu noble main
"""
    assert parse_one_line(text) == [Source("http://m.example/ubuntu", ("noble",), "/k.gpg")]


def test_deb822_format_reads_every_stanza() -> None:
    first, second = parse_deb822(DEB822)
    assert first == Source(
        "http://mirror.example/debian/",
        ("bookworm", "bookworm-updates"),
        "/usr/share/keyrings/debian-archive-keyring.gpg",
    )
    assert second.suites == ("bookworm-security",)


@pytest.mark.parametrize("line", ["Enabled: no", "Enabled: No", "Types: deb-src"])
def test_deb822_stanza_that_is_switched_off_is_left_out(line: str) -> None:
    stanza = f"Types: deb\nURIs: http://m.example/debian\nSuites: sid\nComponents: main\n{line}\n"
    assert parse_deb822(stanza) == []


def test_deb822_key_written_into_the_stanza_is_not_taken_for_a_file() -> None:
    stanza = "Types: deb\nURIs: http://m.example/debian\nSuites: sid\nSigned-By:\n -----BEGIN PGP-----\n .\n abc\n"
    assert parse_deb822(stanza) == [Source("http://m.example/debian", ("sid",), "")]


def test_machine_sources_reads_the_file_and_the_folder(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://a.example/debian bookworm main\n")
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / "debian.sources").write_text(DEB822)
    (folder / "other.list.save").write_text("deb http://old.example/debian jessie main\n")
    assert [source.uri for source in machine_sources(tmp_path)] == [
        "http://a.example/debian",
        "http://mirror.example/debian/",
        "http://mirror.example/debian-security",
    ]


def test_machine_without_sources_has_no_archive(tmp_path: Path) -> None:
    assert main_archive(machine_sources(tmp_path)) is None


def test_main_archive_is_the_distribution_and_neither_security_nor_a_vendor() -> None:
    sources = [
        Source("https://vendor.example/apt", ("stable",)),
        Source("http://m.example/debian-security", ("bookworm-security",)),
        Source("http://m.example/ubuntu/", ("noble-updates", "noble")),
    ]
    assert main_archive(sources) == Archive("ubuntu", "http://m.example/ubuntu", "noble")
