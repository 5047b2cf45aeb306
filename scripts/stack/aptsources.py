"""Reading the machine's own apt sources, to find the Debian mirror that it already uses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FAMILY = re.compile(r"/(debian|ubuntu)/?$")


@dataclass(frozen=True)
class Source:
    """One archive: its address, its suites, and the key file that signs it (empty when the default keys do)."""

    uri: str
    suites: tuple[str, ...]
    signed_by: str = ""


@dataclass(frozen=True)
class Archive:
    """The main archive of a distribution as this machine reaches it."""

    family: str
    uri: str
    suite: str


def machine_sources(etc_apt: Path = Path("/etc/apt")) -> list[Source]:
    """Every enabled binary source of the machine, in both file formats, in apt's order."""
    sources: list[Source] = []
    single = etc_apt / "sources.list"
    folder = sorted((etc_apt / "sources.list.d").glob("*")) if (etc_apt / "sources.list.d").is_dir() else []
    for file in [single, *folder]:
        if file.suffix == ".sources" and file.is_file():
            sources += parse_deb822(file.read_text(errors="replace"))
        elif file.suffix == ".list" and file.is_file():
            sources += parse_one_line(file.read_text(errors="replace"))
    return sources


def parse_one_line(text: str) -> list[Source]:
    """Sources of the format ``deb [options] URI suite component…``."""
    sources = []
    for line in text.splitlines():
        found = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)", line)
        if found:
            key = re.search(r"signed-by=(\S+)", found[1] or "")
            sources.append(Source(found[2], (found[3],), key[1] if key else ""))
    return sources


def parse_deb822(text: str) -> list[Source]:
    """Sources of the format with one ``Key: value`` per line and stanzas parted by an empty line."""
    return [source for stanza in re.split(r"\n[ \t]*\n", text) for source in _stanza(stanza)]


def _stanza(stanza: str) -> Iterator[Source]:
    fields: dict[str, str] = {}
    last = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[last] = f"{fields.get(last, '')}\n{line.strip()}"
        elif ":" in line:
            last, value = (part.strip() for part in line.split(":", 1))
            last = last.lower()
            fields[last] = value
    if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
        return
    key = fields.get("signed-by", "")
    key = key if key.startswith("/") else ""
    for uri in fields.get("uris", "").split():
        yield Source(uri, tuple(fields.get("suites", "").split()), key)


def main_archive(sources: list[Source]) -> Archive | None:
    """The first source that is a whole Debian or Ubuntu archive, with its base suite (``bookworm``, ``noble``)."""
    for source in sources:
        found = FAMILY.search(source.uri)
        plain = [suite for suite in source.suites if "-" not in suite and "/" not in suite]
        if found and plain:
            return Archive(found[1], source.uri.rstrip("/"), plain[0])
    return None
