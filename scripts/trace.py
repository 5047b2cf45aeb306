"""``make trace``: which module speaks of a spec id, and which tests hold it."""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("taskstatus", "relay", "gateway_rest", "proto")
IN_TEXT = re.compile(r"\b(B|ID|R|E|L|H|T|O|P|A|Q|W|C|X|S|N)-(\d{1,2})\b")
IN_TEST = re.compile(r"def test_((?:b|id|r|e|l|h|t|o|p|a|q|w|c|x|s|n)\d{1,2})_")
ORDER = ("B", "ID", "R", "E", "L", "H", "T", "O", "P", "A", "Q", "W", "C", "X", "S", "N")


def main() -> int:
    """Print the table; 0 always, since an id that nothing holds is for people to judge."""
    modules, tests = spoken_of(), held_by()
    for spec_id in sorted(modules.keys() | tests.keys(), key=_rank):
        places = sorted(modules.get(spec_id, ()))
        held = tests.get(spec_id, {})
        print(f"{spec_id}  {sum(held.values())} tests")
        for place in places:
            print(f"      {place}")
        for place, count in sorted(held.items()):
            print(f"    ✓ {place} ({count})")
    return 0


def spoken_of() -> dict[str, set[str]]:
    """Files of the product by the spec ids that their texts name."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".proto"):
                for kind, number in IN_TEXT.findall(path.read_text()):
                    found[f"{kind}-{number}"].add(path.relative_to(ROOT).as_posix())
    return found


def held_by() -> dict[str, dict[str, int]]:
    """Test files by the spec ids in the names of their functions, with how many there are."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in IN_TEST.findall(path.read_text()):
            kind, number = re.match(r"([a-z]+)(\d+)", name).groups()  # type: ignore[union-attr]
            found[f"{kind.upper()}-{number}"][path.relative_to(ROOT).as_posix()] += 1
    return found


def _rank(spec_id: str) -> tuple[int, int]:
    kind, _, number = spec_id.partition("-")
    return ORDER.index(kind), int(number)


if __name__ == "__main__":
    sys.exit(main())
