"""What changes keys of a study's scenarios: its grid, choices that its paper leaves open, a user.

The last is `lasthop reproduce --set`: the same study, but.
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

ABSENT = ("found unknown key", "found no ")
"""What the engine says of a key that a scenario, or the kind of one of its parts, does not have."""

RUN = {
    "run.replications": "--replications",
    "run.seed": "--seed",
    "name": "another key",
}
"""Keys that do not belong to what is simulated, and what is right instead."""


@dataclass(frozen=True, slots=True)
class Change:
    """Keys of a scenario that differ in some cells.

    Attributes:
        when: Coordinates where it holds: one value or a list of them each.
        set: Dotted keys and values. `{flow}` stands for the cell's flow; a part with `*` for every
            table of the scenario that matches. Values in braces are computed from the cell's
            coordinates, see `lasthop.studies.models`.
    """

    when: Mapping[str, Any]
    set: Mapping[str, Any]

    def applies(self, where: Mapping[str, Any]) -> bool:
        """Whether it holds in a cell."""
        return matches(self.when, where)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A choice that the paper leaves open, and what else it could have been.

    Attributes:
        name: What is varied.
        about: What the study chooses, and between what it varies.
        claims: Claims that it can touch.
        values: What it is varied to, and what then changes in the scenarios.
        moves: By what it is varied to, coordinates that all cells then have, those of theory too.
    """

    name: str
    about: str
    claims: tuple[str, ...]
    values: tuple[tuple[str, tuple[Change, ...]], ...]
    moves: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def changed(scenario: Scenario, key: str, value: str) -> Scenario | None:
    """A scenario with a key changed; None if it has no such key.

    Args:
        scenario: Any that is accepted as it is.
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
    """The same study, but with keys of its scenarios changed in all cells that have them.

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
            raise ScenarioError(f"{key}: found it in --set; allowed: {RUN[key]}")
        counts[key] = sum(
            changed(varied.scenario(cell), key.replace("{flow}", study.flow(cell)), value)
            is not None
            for cell in cells
        )
        if not counts[key]:
            allowed = "a key that one of its scenarios has"
            raise ScenarioError(f"{key}: found in no scenario of {study.key}; allowed: {allowed}")
        varied = copy.copy(varied)
        varied.changes = {**varied.changes, key: value}
        varied.artefacts = tuple(
            replace(one, caption=f"{one.caption}; {key} = {value}") for one in varied.artefacts
        )
    return varied, counts
