"""Version of the package and build of the engine."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lasthop import _lasthop

__all__ = ["Engine", "distinct", "engine"]


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine that computed a row.

    Attributes:
        version: Version of the package.
        build: Hash of the compiled engine.
    """

    version: str
    build: str

    def __str__(self) -> str:
        return f"{self.version} (build {self.build})"


@functools.cache
def engine() -> Engine:
    """Returns the engine of this process."""
    binary = Path(_lasthop.__file__).read_bytes()
    return Engine(_lasthop.__version__, hashlib.sha256(binary).hexdigest()[:12])


def distinct(engines: Sequence[Engine]) -> list[str]:
    """Returns the versions of engines, with their builds if the versions are ambiguous."""
    versions = [one.version for one in engines]
    return versions if len(set(versions)) == len(set(engines)) else [str(one) for one in engines]
