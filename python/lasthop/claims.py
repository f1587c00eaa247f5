"""Judging a study's claims. What a claim compares is data (`claims.toml`); the rules are here."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lasthop.statistics import CONFIDENCE, Estimate

__all__ = ["Cell", "Claim", "Comparison", "Judgement", "Missing", "Rule", "Verdict", "judge"]

Cell: TypeAlias = tuple[tuple[str, Any], ...]
"""A cell of the grid: its coordinates, sorted by name."""

Samples: TypeAlias = Callable[[Cell, str], Estimate]
"""Mean of a quantity of a cell (`goodput`, `timeouts`, `fast_retransmits`)."""

QUANTITIES = ("timeouts", "fast_retransmits")
OPERATORS: Mapping[type[ast.operator], Callable[[Estimate, Estimate], Estimate]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Missing(LookupError):
    """A comparison needs a cell that was not run."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What decides, for all claims alike.

    Attributes:
        about: Relative difference that counts as none.
        level: Confidence of a claim's verdict as a whole.
        losses: Loss rates that `average` averages over.
    """

    about: float
    level: float
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison in one cell.

    Attributes:
        left: Expression.
        relation: `greater`, `less`, `not less`, `about` or `between`.
        right: Expression; empty for `between`.
        low: Lower end for `between`.
        high: Upper end for `between`.
        cell: Coordinates it is made at.
    """

    left: str
    relation: str
    right: str
    low: float
    high: float
    cell: Cell


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a paper.

    Attributes:
        id: Its short name.
        text: What it says.
        where: Where the paper says it.
        comparisons: What decides it; all must hold.
    """

    id: str
    text: str
    where: str
    comparisons: tuple[Comparison, ...]

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Claim:
        """Reads a claim as `claims.toml` has it."""
        comparisons: dict[Comparison, None] = {}
        for test in table["test"]:
            each = test.get("each", {})
            for values in itertools.product(*each.values()):
                cell = table["in"] | test.get("in", {}) | dict(zip(each, values, strict=True))
                comparison = Comparison(
                    left=test["left"],
                    relation=test["relation"],
                    right=test.get("right", ""),
                    low=test.get("low", math.nan),
                    high=test.get("high", math.nan),
                    cell=_cell(cell),
                )
                comparisons[comparison] = None
        return cls(table["id"], table["text"], table["where"], tuple(comparisons))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came out of one comparison.

    Attributes:
        comparison: Which one.
        holds: True, False, or None if the samples do not decide.
        left: Value of the left side.
        right: Value of the right side; for `between` NaN.
        difference: Left minus right; for `between` the left side.
        half_width: Of the interval of that, at the confidence that decided.
        n: Replications it rests on.
    """

    comparison: Comparison
    holds: bool | None
    left: float
    right: float
    difference: float
    half_width: float
    n: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out of a claim.

    Attributes:
        claim: Which one.
        verdict: `reproduced`, `contradicted` or `undecided`.
        judgements: One for each comparison; empty if it needs cells that were not run.
        evidence: One sentence with figures.
    """

    claim: Claim
    verdict: str
    judgements: tuple[Judgement, ...]
    evidence: str


def _cell(coordinates: Mapping[str, Any]) -> Cell:
    coordinates = dict(coordinates)
    if coordinates.get("flr") == 0:
        # Without errors there is one channel, whichever error model it is drawn with.
        coordinates["model"] = "none"
    return tuple(sorted(coordinates.items()))


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """Values of expressions; `names` maps `reno_raw` and the like to combinations."""

    samples: Samples
    names: Mapping[str, str]
    rule: Rule

    def value(self, expression: str, cell: Cell) -> Estimate:
        return self._of(ast.parse(expression, mode="eval").body, dict(cell), "goodput")

    def _of(self, node: ast.expr, cell: dict[str, Any], quantity: str) -> Estimate:
        match node:
            case ast.Constant(value=int() | float() as number):
                return Estimate.constant(number)
            case ast.Name(id="this"):
                return self.samples(_cell(cell), quantity)
            case ast.Name(id=name) if name in self.names:
                return self.samples(_cell(cell | {"combination": self.names[name]}), quantity)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                combine = OPERATORS[type(op)]
                return combine(self._of(left, cell, quantity), self._of(right, cell, quantity))
            case ast.Call(func=ast.Name(id="at"), args=[inner], keywords=keywords):
                moved = {k.arg: ast.literal_eval(k.value) for k in keywords if k.arg is not None}
                return self._of(inner, cell | moved, quantity)
            case ast.Call(func=ast.Name(id="average"), args=[inner], keywords=[]):
                terms = [self._of(inner, cell | {"flr": x}, quantity) for x in self.rule.losses]
                total = terms[0]
                for term in terms[1:]:
                    total = total + term
                return total / Estimate.constant(len(terms))
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in QUANTITIES:
                return self._of(inner, cell, name)
        raise ValueError(f"claims: cannot evaluate {ast.unparse(node)!r}")

    def judge(self, comparison: Comparison, level: float) -> Judgement:
        left = self.value(comparison.left, comparison.cell)
        if comparison.relation == "between":
            right = Estimate.constant(math.nan)
            gap, width = left, left.half_width(level)
            holds = self._between(left, comparison.low, comparison.high)
        else:
            right = self.value(comparison.right, comparison.cell)
            gap = left - right
            width = gap.half_width(level)
            holds = self._compare(comparison.relation, left, right, width)
        return Judgement(comparison, holds, left.value, right.value, gap.value, width, gap.n)

    def _between(self, left: Estimate, low: float, high: float) -> bool | None:
        width = left.half_width(CONFIDENCE)
        if math.isnan(left.value) or math.isnan(width):
            return None
        return (
            low * (1.0 - self.rule.about) <= left.value <= high * (1.0 + self.rule.about)
            or low - width <= left.value <= high + width
        )

    def _about(self, left: Estimate, right: Estimate) -> bool | None:
        gap = abs(left.value - right.value)
        widths = left.half_width(CONFIDENCE) + right.half_width(CONFIDENCE)
        if math.isnan(gap) or math.isnan(widths):
            return None
        return gap <= max(self.rule.about * abs(right.value), widths)

    def _compare(self, relation: str, left: Estimate, right: Estimate, width: float) -> bool | None:
        gap = left.value - right.value
        if relation == "about":
            return self._about(left, right)
        if math.isnan(gap) or math.isnan(width):
            return None
        if relation == "not less":
            return True if gap > 0.0 else self._about(left, right)
        if relation == "less":
            gap = -gap
        elif relation != "greater":
            raise ValueError(f"claims: unknown relation {relation!r}")
        if abs(gap) <= width:
            return None
        return gap > 0.0


def judge(
    claims: Sequence[Claim], samples: Samples, names: Mapping[str, str], rule: Rule
) -> Iterator[Verdict]:
    """Judges claims.

    Args:
        claims: What to judge.
        samples: Looks up the mean of a quantity in a cell; raises `Missing` if it was not run.
        names: Combinations by the names that expressions use.
        rule: What decides.
    """
    evaluator = _Evaluator(samples, names, rule)
    for claim in claims:
        # Bonferroni: a claim of k comparisons is as likely as one of 1 to fail by chance.
        level = 1.0 - (1.0 - rule.level) / len(claim.comparisons)
        try:
            judgements = tuple(evaluator.judge(one, level) for one in claim.comparisons)
        except Missing as missing:
            yield Verdict(claim, "undecided", (), f"not run: needs {missing}")
            continue
        outcomes = [judgement.holds for judgement in judgements]
        if all(outcomes):
            verdict = "reproduced"
        elif False in outcomes:
            verdict = "contradicted"
        else:
            verdict = "undecided"
        yield Verdict(claim, verdict, judgements, _evidence(judgements, rule.about))


def _evidence(judgements: Sequence[Judgement], about: float) -> str:
    """Counts, then one comparison with figures: the clearest failure, or else the closest call."""
    counts = {
        "hold": sum(j.holds is True for j in judgements),
        "fail": sum(j.holds is False for j in judgements),
        "open": sum(j.holds is None for j in judgements),
    }
    parts = ", ".join(f"{n} {what}" for what, n in counts.items() if n or what == "hold")
    failed = [j for j in judgements if j.holds is False]
    if failed:
        label, chosen = "failed", max(failed, key=lambda j: _strength(j, about))
    else:
        unclear = [j for j in judgements if j.holds is None]
        label = "open" if unclear else "closest"
        chosen = min(unclear or judgements, key=lambda j: _strength(j, about))
    return f"comparisons: {parts}; {label}: {show(chosen)}"


def _strength(judgement: Judgement, about: float) -> float:
    """How clear the outcome is: 1 at the limit that decides, more the farther from it."""
    one, gap = judgement.comparison, abs(judgement.difference)
    if math.isnan(judgement.difference) or math.isnan(judgement.half_width):
        return 0.0
    if one.relation == "between":
        low, high = one.low * (1.0 - about), one.high * (1.0 + about)
        inside = min(judgement.left / low, high / judgement.left) if judgement.left > 0.0 else 0.0
    elif one.relation in ("about", "not less"):
        inside = about * abs(judgement.right) / max(gap, 1e-12)
    else:
        return gap / max(judgement.half_width, 1e-12)
    return inside if judgement.holds else 1.0 / max(inside, 1e-12)


def show(judgement: Judgement) -> str:
    """A comparison with its figures, for people."""
    one = judgement.comparison
    place = ", ".join(f"{key} {_word(value)}" for key, value in one.cell)
    place = f" [{place}]" if place else ""
    width = f"{judgement.half_width:.4g}"
    if one.relation == "between":
        return (
            f"{one.left} = {judgement.left:.4g} ± {width}, "
            f"claimed {one.low:g} to {one.high:g}{place}"
        )
    relation = {"greater": ">", "less": "<", "about": "≈", "not less": "≳"}[one.relation]
    return (
        f"{one.left} {relation} {one.right}: {judgement.left:.4g} against {judgement.right:.4g}, "
        f"difference {judgement.difference:.4g} ± {width}{place}"
    )


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
