"""What the three workers really do to a text file. Pure functions of bytes, so that every byte counts."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from taskstatus.sdk import StepError

LINES_PER_PAGE: Final = 15
FREQUENT_WORDS: Final = 5
_WORD: Final = re.compile(r"\w+(?:['’]\w+)*")
_MARKERS: Final = {
    "de": frozenset({"der", "die", "das", "und", "ist", "nicht", "ein", "zu"}),
    "en": frozenset({"the", "and", "is", "of", "to", "a", "in", "it"}),
    "fr": frozenset({"le", "la", "les", "et", "est", "un", "une", "de"}),
}
"""Words that give a language away; good enough for a demo."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A normalised text, and the digest of the bytes that it came from."""

    text: str
    source_sha256: str
    source_bytes: int


@dataclass(frozen=True, slots=True)
class Page:
    """Counts of one page."""

    lines: int
    words: Counter[str]
    characters: int


def prepare(source: bytes) -> Prepared:
    """Decode and normalise: line ends, trailing spaces, Unicode form. Raises StepError for what is no text."""
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"The file is not UTF-8 text (byte {error.start})."
        raise StepError("NOT_TEXT", message, category="INPUT", retryable=False) from None
    if "\0" in text:
        raise StepError("NOT_TEXT", "The file is binary.", category="INPUT", retryable=False)
    lines = [line.rstrip() for line in unicodedata.normalize("NFC", text).splitlines()]
    return Prepared("\n".join(lines).strip("\n") + "\n", hashlib.sha256(source).hexdigest(), len(source))


def pages_of(text: str) -> list[str]:
    """The text in pages of a fixed number of lines; at least one."""
    lines = text.splitlines()
    return ["\n".join(lines[at : at + LINES_PER_PAGE]) for at in range(0, max(len(lines), 1), LINES_PER_PAGE)]


def parse_page(text: str) -> Page:
    """Count one page."""
    words = Counter(word.lower() for word in _WORD.findall(text))
    return Page(sum(1 for line in text.splitlines() if line), words, len(text))


def statistics(prepared: Prepared, pages: Sequence[Page]) -> dict[str, Any]:
    """What is stored in the end."""
    words = sum((page.words for page in pages), Counter[str]())
    frequent = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:FREQUENT_WORDS]
    return {
        "sourceSha256": prepared.source_sha256,
        "sourceBytes": prepared.source_bytes,
        "textSha256": hashlib.sha256(prepared.text.encode()).hexdigest(),
        "pages": len(pages),
        "lines": sum(page.lines for page in pages),
        "words": words.total(),
        "distinctWords": len(words),
        "characters": sum(page.characters for page in pages),
        "frequentWords": dict(frequent),
        "language": guess_language(words),
    }


def guess_language(words: Counter[str]) -> str:
    """The language whose marker words are most frequent; ``unknown`` when none occurs."""
    scores = {language: sum(words[word] for word in markers) for language, markers in _MARKERS.items()}
    best = max(scores, key=lambda language: scores[language])
    return best if scores[best] else "unknown"


def process(source: bytes) -> dict[str, Any]:
    """All three steps in one place: what the workers together must arrive at."""
    prepared = prepare(source)
    return statistics(prepared, [parse_page(page) for page in pages_of(prepared.text)])
