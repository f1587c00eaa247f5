"""The claims of a study, as in `claims.toml`; `verdicts` judges them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from lasthop.evaluating.statistics import Estimate
from lasthop.studies.models import evaluate

__all__ = [
    "Cell",
    "Claim",
    "Comparison",
    "Grid",
    "Missing",
    "Rewording",
    "Rule",
    "Samples",
    "read_claims",
]

Cell: TypeAlias = tuple[tuple[str, Any], ...]
"""A cell of the grid: its coordinates, sorted by name."""

Samples: TypeAlias = Callable[[Cell, str], Estimate]
"""Mean of a quantity of a cell, such as `goodput`."""

CORRECTIONS = ("bonferroni", "holm", "none")


class Missing(LookupError):
    """A comparison needs a cell that was not run."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The coordinates of a study's cells.

    Attributes:
        column: The coordinate that names the compared combinations.
        default: Coordinates that apply unless a cell sets them.
        fixed: Pairs: where the first coordinates match, the second override any others.
    """

    column: str = "combination"
    default: Mapping[str, Any] = field(default_factory=dict)
    fixed: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = ()

    def cell(self, coordinates: Mapping[str, Any]) -> Cell:
        """The cell at these coordinates."""
        found = {**self.default, **coordinates}
        for when, then in self.fixed:
            if all(found.get(key) == value for key, value in when.items()):
                found |= then
        return tuple(sorted(found.items()))


PLAIN = Grid()


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule that decides all claims.

    Attributes:
        about: Relative difference that is ignored.
        level: Confidence of a claim's verdict as a whole.
        losses: Default values of `row` over which `average` averages.
        quantities: Quantities of a cell; the first is the default.
        grid: The coordinates.
        parts: Whether a claim that holds in some comparisons and fails in others is judged
            `in part`, with the places, rather than `contradicted`.
        row: The default coordinate over which `average` averages.
        correction: How the confidence allows for several comparisons: `bonferroni` within each
            claim, `holm` over all comparisons of all claims, or `none`. It affects `greater` and
            `less`, which are tests; the other relations require more than significance.
        words: Numbers for the vague words of papers, by their names in expressions.
    """

    about: float
    level: float
    losses: tuple[float, ...]
    quantities: tuple[str, ...] = ("goodput", "timeouts", "fast_retransmits")
    grid: Grid = PLAIN
    parts: bool = False
    row: str = "flr"
    correction: str = "bonferroni"
    words: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.correction not in CORRECTIONS:
            allowed = ", ".join(CORRECTIONS)
            raise ValueError(f"correction: found {self.correction!r}; expected {allowed}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison in one cell.

    Attributes:
        left: Expression.
        relation: `greater`, `less`, `not less`, `about`, `between` or `same sign`.
        right: Expression; empty for `between`.
        low: Lower end for `between`.
        high: Upper end for `between`.
        cell: Coordinates of the comparison.
    """

    left: str
    relation: str
    right: str
    low: float
    high: float
    cell: Cell


@dataclass(frozen=True, slots=True)
class Rewording:
    """How a claim was judged before it was reworded, after its result had been seen.

    Attributes:
        was: Its old wording, with the comparison that decided it.
        verdict: The verdict on the old wording.
        why: The passage of the paper that the new wording follows.
    """

    was: str
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a paper, or one that was added to them.

    Attributes:
        id: Its short name.
        text: The claim.
        where: Its place in the paper.
        comparisons: The comparisons that decide it; all must hold.
        condition: The cells in which it is tested, if fewer than the paper names; shown with the
            verdict.
        refuted_by: Numbers that would refute it.
        addition: Whether this project added it: it is judged and shown, but not counted.
        reworded: The earlier wording, if it was changed after its result had been seen.
        note: Further information for readers of the verdict.
    """

    id: str
    text: str
    where: str
    comparisons: tuple[Comparison, ...]
    condition: str = ""
    refuted_by: str = ""
    addition: bool = False
    reworded: Rewording | None = None
    note: str = ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on its verdict: its note, its old wording, the numbers that would refute it."""
        found = [self.note] if self.note else []
        if self.reworded is not None:
            one = self.reworded
            found.append(
                f"Reworded after its result had been seen. Before: {one.was} "
                f"Verdict then: {one.verdict}. Reason: {one.why}"
            )
        if self.refuted_by:
            found.append(f"Refuted by: {self.refuted_by}")
        return tuple(found)

    @classmethod
    def from_table(
        cls,
        table: Mapping[str, Any],
        grid: Grid = PLAIN,
        known: Mapping[str, Claim] | None = None,
        words: Mapping[str, float] | None = None,
    ) -> Claim:
        """Reads a claim from its table in `claims.toml`.

        Args:
            table: Its table there.
            grid: The study's coordinates.
            known: Earlier claims, which its tests may refer to.
            words: As for `Rule`.
        """
        comparisons: dict[Comparison, None] = {}
        for test in table["test"]:
            common = table.get("in", {}) | test.get("in", {})
            for comparison in _expand(test, common, grid, known or {}, words or {}):
                comparisons[comparison] = None
        reworded = table.get("reworded")
        return cls(
            table["id"],
            table["text"],
            table["where"],
            tuple(comparisons),
            condition=table.get("condition", ""),
            refuted_by=table.get("refuted_by", ""),
            addition=table.get("addition", False),
            reworded=None if reworded is None else Rewording(**reworded),
            note=table.get("note", ""),
        )


def read_claims(
    tables: Sequence[Mapping[str, Any]], grid: Grid, words: Mapping[str, float] | None = None
) -> tuple[Claim, ...]:
    """Reads the claims of a study; a claim may refer to those before it, and to words."""
    known: dict[str, Claim] = {}
    for table in tables:
        known[table["id"]] = Claim.from_table(table, grid, known, words)
    return tuple(known.values())


def _expand(
    test: Mapping[str, Any],
    common: Mapping[str, Any],
    grid: Grid,
    known: Mapping[str, Claim],
    words: Mapping[str, float],
) -> Iterator[Comparison]:
    """The comparisons that one test stands for."""
    each = test.get("each", {})
    cells = [
        {**common, **dict(zip(each, values, strict=True))}
        for values in itertools.product(*each.values())
    ]
    if "claims" in test:
        for name in test["claims"]:
            for comparison in known[name].comparisons:
                for cell in cells:
                    yield replace(comparison, cell=grid.cell(dict(comparison.cell) | cell))
        return
    for cell in cells:
        for left, right in _sides(test):
            yield Comparison(
                left=left,
                relation=test["relation"],
                right=right,
                low=_end(test, "low", words),
                high=_end(test, "high", words),
                cell=grid.cell(cell),
            )


def _end(test: Mapping[str, Any], key: str, words: Mapping[str, float]) -> float:
    """An end of a range: a number, or an expression of numbers and words."""
    found = test.get(key, math.nan)
    return float(evaluate(found, words.__getitem__) if isinstance(found, str) else found)


def _sides(test: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The two expressions of a test, for each pair and each step that it names."""
    left, right = test["left"], test.get("right", "")
    for key, values in test.get("along", {}).items():
        # Each value is compared with the one before it.
        for before, after in itertools.pairwise(values):
            yield f"at({left}, {key} = {after!r})", f"at({left}, {key} = {before!r})"
        return
    for first, second in itertools.combinations(test.get("pairs", ()), 2):
        names = {"first": first, "second": second}
        yield _rename(left, names), _rename(right, names)
    if "pairs" not in test:
        yield left, right


def _rename(expression: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b(first|second)\b", lambda found: names[found[0]], expression)
