"""Prints what the extras named on the command line pin, for pip.

The package itself is built by maturin; asking pip for `.[dev]` would build it a second time.
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def main(extras: list[str]) -> None:
    """Prints one requirement a line."""
    pinned = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    sys.stdout.write("\n".join(name for extra in extras for name in pinned[extra]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
