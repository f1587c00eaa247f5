"""Prints what the extras named on the command line pin, for pip: the package itself is built by
maturin, and asking pip for `.[dev]` would build it a second time.
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def main(extras: list[str]) -> None:
    pinned = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    sys.stdout.write("\n".join(name for extra in extras for name in pinned[extra]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
