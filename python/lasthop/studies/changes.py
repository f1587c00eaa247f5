"""Changes of keys in a study's scenarios.

The grid, open choices of the paper and `lasthop reproduce --set` all change keys.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lasthop._lasthop import ScenarioError
from lasthop.scenarios.scenario import Scenario
from lasthop.studies.models import matches

if TYPE_CHECKING:
    from lasthop.studies.study import Study

__all__ = ["Change", "Sensitivity", "changed", "with_changes"]

ABSENT = ("unknown key", "found no ")
"""Text of engine errors for keys that a scenario, or the kind of one of its parts, lacks."""

RUN = {
    "run.replications": "--replications",
    "run.seed": "--seed",
    "name": "another key",
}
"""Keys that are not part of the simulated system, and the option to use instead."""


@dataclass(frozen=True, slots=True)
class Change:
    """Keys of a scenario that differ in some cells.

    Attributes:
        when: Coordinates where it applies: one value or a list of values each.
        set: Dotted keys and values. `{flow}` stands for the cell's flow; a part with `*` for every
            table of the scenario that matches. Values in braces are computed from the cell's
            coordinates, see `lasthop.studies.models`.
    """

    when: Mapping[str, Any]
    set: Mapping[str, Any]

    def applies(self, where: Mapping[str, Any]) -> bool:
        """Returns `True` if it applies in a cell."""
        return matches(self.when, where)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A choice that the paper leaves open, and its alternatives.

    Attributes:
        name: The varied choice.
        about: The study's choice, and the range of alternatives.
        claims: Claims that it can affect.
        values: Alternatives, with the changes that each makes in the scenarios.
        moves: By alternative, coordinates that all cells then have, including model cells.
    """

    name: str
    about: str
    claims: tuple[str, ...]
    values: tuple[tuple[str, tuple[Change, ...]], ...]
    moves: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def changed(scenario: Scenario, key: str, value: str) -> Scenario | None:
    """Returns a scenario with a key changed; None if it has no such key.

    Args:
        scenario: A valid scenario.
        key: Dotted key.
        value: As on the command line.

    Raises:
        lasthop.ScenarioError: If the scenario has the key and the value is refused.
    """
    try:
        found = scenario.with_({key: value})
        found.points()
    except ScenarioError as error:
        if any(f"{key}: {words}" in str(error) for words in ABSENT):
            return None
        raise
    return found


def with_changes(study: Study, changes: Mapping[str, str]) -> tuple[Study, dict[str, int]]:
    """Returns a copy of the study with keys changed in all cells whose scenarios have them.

    Args:
        study: Which.
        changes: Dotted keys, in which `{flow}` stands for a cell's own flow, and values as on the
            command line.

    Returns:
        The study, and for each key the number of cells that it changes.

    Raises:
        lasthop.ScenarioError: If no cell has a key, or a value is refused.
    """
    cells = study.cells(study.artefacts)
    varied = study
    counts = {}
    for key, value in changes.items():
        if key in RUN:
            raise ScenarioError(f"{key}: found it in --set; expected {RUN[key]}")
        counts[key] = sum(
            changed(varied.scenario(cell), key.replace("{flow}", study.flow(cell)), value)
            is not None
            for cell in cells
        )
        if not counts[key]:
            allowed = "a key that one of its scenarios has"
            raise ScenarioError(f"{key}: found in no scenario of {study.key}; expected {allowed}")
        varied = copy.copy(varied)
        varied.changes = {**varied.changes, key: value}
        varied.artefacts = tuple(
            replace(one, caption=f"{one.caption}; {key} = {value}") for one in varied.artefacts
        )
    return varied, counts
