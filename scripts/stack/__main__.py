"""``python -m scripts.stack COMMAND``: see ``make help``."""

import sys

from scripts.stack.cli import main

if __name__ == "__main__":
    sys.exit(main())
