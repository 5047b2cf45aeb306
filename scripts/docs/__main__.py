"""``python -m scripts.docs --check`` or ``--write``."""

import argparse
import sys

from scripts.docs.pages import REMEDY, outdated, write


def main(argv: list[str] | None = None) -> int:
    """Compare (1 when a page is outdated) or write the pages that differ."""
    parser = argparse.ArgumentParser(prog="python -m scripts.docs")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="tell which pages differ from the code")
    mode.add_argument("--write", action="store_true", help="write the pages that differ")
    arguments = parser.parse_args(argv)
    pages = outdated()
    for page in pages:
        print(f"{'wrote' if arguments.write else 'outdated:'} {page.name}")
    if arguments.write:
        write(pages)
        return 0
    if pages:
        print(f"  to mend it: {REMEDY}")
    return 1 if pages else 0


if __name__ == "__main__":
    sys.exit(main())
