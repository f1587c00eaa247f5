"""Requests of a page: a scenario, alternatives and random seed.

The page is not trusted with files: names in its scenario must be in the folder in which the server
was started.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop import _lasthop
from lasthop.scenarios.scenario import Scenario, assign

__all__ = ["MOST_ALTERNATIVES", "Alternative", "Question", "Refused", "read_question"]

MOST_ALTERNATIVES = 6
MOST_SEED = 2**63 - 1
LONGEST_LABEL = 60


class Refused(ValueError):
    """A request is refused.

    Attributes:
        alternative: Number of the alternative that it is about, if it is about one.
    """

    def __init__(self, message: str, alternative: int | None = None) -> None:
        """Takes the message."""
        super().__init__(message)
        self.alternative = alternative


@dataclass(frozen=True)
class Alternative:
    """One of the scenarios that are compared.

    Attributes:
        label: What the page calls it.
        changes: Dotted keys and their values, instead of those of the common scenario.
        scenario: The scenario with the changes, without a sweep.
    """

    label: str
    changes: Mapping[str, Any]
    scenario: Scenario

    def point(self) -> _lasthop.Point:
        """Its only point."""
        return self.scenario.points()[0]


@dataclass(frozen=True)
class Question:
    """A request of a page.

    Attributes:
        tables: The common scenario, without a sweep.
        alternatives: At least one; the first is what the others are compared with.
        seed: Master seed, the same for all, so that they meet the same channel.
    """

    tables: Mapping[str, Any]
    alternatives: tuple[Alternative, ...]
    seed: int


def read_question(body: Any, root: Path) -> Question:
    """Checks what a page sent.

    Args:
        body: `{"scenario": tables, "alternatives": [{"label": …, "changes": {…}}], "seed": n}`,
            the last two optional.
        root: Folder that files of scenarios must be in; relative names start there.

    Raises:
        Refused: If the request is invalid, or names a file outside the folder.
        lasthop.ScenarioError: If the engine refuses the common scenario.
    """
    if not isinstance(body, dict) or not isinstance(body.get("scenario"), dict):
        raise Refused("missing `scenario`: expected an object with a scenario")
    tables = {key: value for key, value in body["scenario"].items() if key != "sweep"}
    seed = body.get("seed", 1)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= MOST_SEED:
        raise Refused(
            f"invalid value `{seed}` for `seed`: expected a whole number from 0 to {MOST_SEED}"
        )
    wanted = body.get("alternatives") or [{"label": "unchanged", "changes": {}}]
    if not isinstance(wanted, list) or len(wanted) > MOST_ALTERNATIVES:
        raise Refused(f"invalid `alternatives`: expected a list of at most {MOST_ALTERNATIVES}")
    alternatives = []
    for number, one in enumerate(wanted):
        label, changes = (
            (one.get("label"), one.get("changes", {}))
            if isinstance(one, dict)
            else (
                None,
                None,
            )
        )
        if not isinstance(label, str) or not 0 < len(label) <= LONGEST_LABEL:
            raise Refused(
                f"invalid value `{label}` for `label`: expected 1 to {LONGEST_LABEL} letters",
                number,
            )
        if not isinstance(changes, dict):
            raise Refused("missing `changes`: expected a table of dotted keys and values", number)
        own = copy.deepcopy(tables)
        try:
            for key, value in changes.items():
                assign(own, key, copy.deepcopy(value))
            check_files(own, root)
            scenario = Scenario(own, base=root)
            scenario.points()
        except (_lasthop.ScenarioError, Refused) as error:
            raise Refused(str(error), number) from None
        alternatives.append(Alternative(label, changes, scenario))
    if len({one.label for one in alternatives}) < len(alternatives):
        raise Refused("duplicate `label`: expected a unique label for each alternative")
    return Question(tables, tuple(alternatives), seed)


def check_files(tables: Mapping[str, Any], root: Path) -> None:
    """Refuses a scenario that names a file outside a folder, also by way of a symbolic link.

    Raises:
        Refused: If it does.
    """
    inside = root.resolve()
    for key, name in _files(tables):
        if "\0" in name or not (inside / name).resolve().is_relative_to(inside):
            raise Refused(
                f"invalid value `{json.dumps(name)}` for `{key}`: expected a file in {inside.name}/"
            )


def _files(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text under a key that names a file, such as `file` or `loss_file`, and its path."""
    if isinstance(value, dict):
        for key, child in value.items():
            name = f"{path}.{key}" if path else str(key)
            if isinstance(child, str) and (key == "file" or str(key).endswith(("_file", ".file"))):
                yield name, child
            yield from _files(child, name)
    elif isinstance(value, list):
        for child in value:
            yield from _files(child, path)
