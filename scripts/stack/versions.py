"""Reading what a server says about itself: only its own answer tells MySQL from MariaDB."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

Number = tuple[int, ...]

TITLES = {"mariadb": "MariaDB", "mysql": "MySQL", "redis": "Redis", "centrifugo": "Centrifugo", "go": "Go"}


@dataclass(frozen=True)
class Version:
    """A product, the number it answered, and the whole answer."""

    product: str
    number: Number
    text: str

    def __str__(self) -> str:
        return f"{TITLES[self.product]} {'.'.join(map(str, self.number))}"


PATTERNS = {
    "mariadb": re.compile(r"(\d+\.\d+\.\d+)-MariaDB", re.IGNORECASE),
    "mysql": re.compile(r"Ver (\d+\.\d+\.\d+)"),
    "redis": re.compile(r"Redis server v=(\d+\.\d+\.\d+)"),
    "centrifugo": re.compile(r"Centrifugo v?(\d+\.\d+\.\d+)"),
    "go": re.compile(r"go version go(\d+\.\d+(?:\.\d+)?)"),
}
"""In this order: a MariaDB server also matches the pattern of MySQL."""

QUESTIONS = {
    "mariadb": "--version",
    "mysql": "--version",
    "redis": "--version",
    "centrifugo": "version",
    "go": "version",
}


def parse(answer: str) -> Version | None:
    """The product and version named in an answer, None when it is none of ours."""
    for product, pattern in PATTERNS.items():
        if found := pattern.search(answer):
            return Version(product, tuple(int(part) for part in found[1].split(".")), answer.strip())
    return None


def of_greeting(greeting: str) -> Version | None:
    """The version in a database server's greeting, which names the product only when it is MariaDB."""
    return parse(greeting) or parse(f"Ver {greeting}")


def ask(command: list[str], product: str, seconds: float = 20.0) -> Version | None:
    """What ``command`` answers to the version question of ``product``; it may turn out to be another product.

    None when it cannot run, or when its answer names none of ours.
    """
    if not Path(command[0]).exists():
        return None
    try:
        done = subprocess.run(
            [*command, QUESTIONS[product]],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse(done.stdout)
