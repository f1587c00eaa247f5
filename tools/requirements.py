"""Prints the requirements of the extras named on the command line, for pip.

The package itself is built by maturin; installing `.[dev]` with pip would build it a second time.
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def main(extras: list[str]) -> None:
    """Prints one requirement per line."""
    pinned = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    sys.stdout.write("\n".join(name for extra in extras for name in pinned[extra]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
