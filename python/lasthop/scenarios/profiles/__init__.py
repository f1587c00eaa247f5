"""Profiles: named scenarios of common links, with their sources.

A profile is a scenario file `NAME.toml` in this folder. It has a link `radio` and a flow
`download`. The comments at its head give the source of its values (`Source:`) and the values
without a source (`Chosen:`).
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from lasthop.scenarios.arguments import ArgumentError, unknown

__all__ = ["Profile", "path", "profile", "profiles"]

FOLDER = Path(__file__).parent


class Profile:
    """A named link.

    Attributes:
        name: Name of the profile, as in `lasthop run NAME`.
        about: Description in one line.
        source: Published sources of its values.
        chosen: Values that no source gives.
        tables: The scenario.
        text: The scenario file.
    """

    __slots__ = ("about", "chosen", "name", "source", "tables", "text")

    def __init__(self, name: str, text: str) -> None:
        """Reads the text of a profile."""
        self.name = name
        self.text = text
        self.tables: dict[str, Any] = tomllib.loads(text)
        self.about = str(self.tables["description"])
        head, _, _ = text.partition("\n\n")
        comment = " ".join(line.removeprefix("#").strip() for line in head.splitlines())
        source, _, chosen = comment.partition(" Chosen: ")
        self.source = source.removeprefix("Source: ")
        self.chosen = chosen


@cache
def profiles() -> dict[str, Profile]:
    """Returns all profiles by name, in alphabetical order."""
    return {
        file.stem: Profile(file.stem, file.read_text(encoding="utf-8"))
        for file in sorted(FOLDER.glob("*.toml"))
    }


def profile(name: str) -> Profile:
    """Returns a profile.

    Raises:
        ValueError: If there is no such profile.
    """
    found = profiles().get(name)
    if found is None:
        raise ArgumentError(unknown("profile", name, list(profiles())))
    return found


def path(name: str) -> Path:
    """Returns the file of a profile.

    Raises:
        ValueError: If there is no such profile.
    """
    return FOLDER / f"{profile(name).name}.toml"
