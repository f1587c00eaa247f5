"""Judgement of claims: values of comparisons, verdicts and evidence."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lasthop.evaluating.statistics import CONFIDENCE, Estimate, holm
from lasthop.studies.claims import Cell, Claim, Comparison, Missing, Rule, Samples

__all__ = [
    "Evaluator",
    "Judgement",
    "Printed",
    "Verdict",
    "cells_of",
    "formula",
    "judge",
    "judge_printed",
    "looked_up",
    "show",
    "tally",
]

MOST_PLACES = 8
"""Maximum number of places that the evidence names per comparison that does not hold."""

TESTS = ("greater", "less")

OPERATORS: Mapping[type[ast.operator], Callable[[Estimate, Estimate], Estimate]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """Outcome of one comparison.

    Attributes:
        comparison: The comparison.
        holds: True, False, or None if the samples do not decide.
        left: Value of the left side.
        right: Value of the right side; for `between` NaN.
        difference: Left minus right; for `between` the left side.
        half_width: Half-width of the interval of `difference`, at the confidence that decided.
        n: Number of replications.
        p_value: Two-sided p-value for equal sides; NaN unless the relation is `greater` or `less`.
        p_corrected: `p_value` with the rule's correction for several comparisons.
    """

    comparison: Comparison
    holds: bool | None
    left: float
    right: float
    difference: float
    half_width: float
    n: int
    p_value: float = math.nan
    p_corrected: float = math.nan


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of a claim.

    Attributes:
        claim: The claim.
        verdict: `reproduced`, `contradicted`, `undecided`, or `in part` if the rule allows it.
        judgements: One per comparison; empty if the claim needs cells that were not run.
        evidence: One sentence with numbers.
    """

    claim: Claim
    verdict: str
    judgements: tuple[Judgement, ...]
    evidence: str

    @property
    def words(self) -> str:
        """The verdict, with the claim's condition if any."""
        condition = self.claim.condition
        return f"{self.verdict} ({condition})" if condition else self.verdict


@dataclass(frozen=True, slots=True)
class Printed:
    """Outcomes of a claim's comparisons on the numbers that the paper prints.

    Attributes:
        claim: The claim.
        judgements: Comparisons whose numbers the paper prints.
        missing: Number of other comparisons.
    """

    claim: Claim
    judgements: tuple[Judgement, ...]
    missing: int

    @property
    def failed(self) -> tuple[Judgement, ...]:
        """The comparisons that the paper's numbers do not satisfy."""
        return tuple(one for one in self.judgements if not one.holds)

    @property
    def words(self) -> str:
        """Number of comparisons that hold, of those that can be evaluated."""
        if not self.judgements:
            return "–"
        count = len(self.judgements)
        return f"{count - len(self.failed)} of {count} hold"


def tally(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Returns the number of claims per verdict, most favourable first; without additions."""
    words = [one.verdict for one in verdicts if not one.claim.addition]
    order = ("reproduced", "in part", "undecided", "contradicted")
    return {word: words.count(word) for word in order if word in words}


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Values of expressions.

    Attributes:
        samples: Returns the mean of a quantity in a cell.
        names: Combinations by their names in expressions, for example `reno_raw`.
        rule: The study's quantities and coordinates.
    """

    samples: Samples
    names: Mapping[str, Any]
    rule: Rule

    def value(self, expression: str, cell: Cell) -> Estimate:
        """Returns the value of an expression in a cell."""
        main = self.rule.quantities[0]
        return self._of(ast.parse(expression, mode="eval").body, dict(cell), main)

    def _of(self, node: ast.expr, cell: dict[str, Any], quantity: str) -> Estimate:
        grid = self.rule.grid
        match node:
            case ast.Constant(value=int() | float() as number):
                return Estimate.constant(number)
            case ast.Name(id="this"):
                return self.samples(grid.cell(cell), quantity)
            case ast.Name(id=name) if name in self.names:
                return self.samples(grid.cell(cell | {grid.column: self.names[name]}), quantity)
            case ast.Name(id=name) if isinstance(cell.get(name), (int, float)):
                return Estimate.constant(cell[name])
            case ast.Name(id=name) if name in self.rule.words:
                return Estimate.constant(self.rule.words[name])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                combine = OPERATORS[type(op)]
                return combine(self._of(left, cell, quantity), self._of(right, cell, quantity))
            case ast.Call(func=ast.Name(id="at"), args=[inner], keywords=keywords):
                return self._of(inner, cell | _arguments(keywords), quantity)
            case ast.Call(func=ast.Name(id="average"), args=[inner], keywords=keywords):
                over = _arguments(keywords) or {self.rule.row: self.rule.losses}
                terms = [
                    self._of(inner, cell | dict(zip(over, values, strict=True)), quantity)
                    for values in itertools.product(*over.values())
                ]
                total = terms[0]
                for term in terms[1:]:
                    total = total + term
                return total / Estimate.constant(len(terms))
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if (
                name in self.rule.quantities
            ):
                return self._of(inner, cell, name)
        raise ValueError(f"claims: cannot evaluate {ast.unparse(node)!r}")

    def judge(self, comparison: Comparison, level: float) -> Judgement:
        """Makes one comparison with intervals of this confidence."""
        left = self.value(comparison.left, comparison.cell)
        if comparison.relation == "between":
            right = Estimate.constant(math.nan)
            gap, width = left, left.half_width(level)
            holds = self._between(left, comparison.low, comparison.high)
        else:
            right = self.value(comparison.right, comparison.cell)
            gap = left - right
            width = gap.half_width(level)
            if comparison.relation == "same sign":
                holds = _same_sign(left, right, level)
            else:
                holds = self._compare(comparison.relation, left, right, width)
        p_value = gap.p_value() if comparison.relation in TESTS else math.nan
        return Judgement(
            comparison, holds, left.value, right.value, gap.value, width, gap.n, p_value
        )

    def _between(self, left: Estimate, low: float, high: float) -> bool | None:
        width = left.half_width(CONFIDENCE)
        if math.isnan(left.value) or math.isnan(width):
            return None
        about = self.rule.about
        return (
            low - about * abs(low) <= left.value <= high + about * abs(high)
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


def _arguments(keywords: Sequence[ast.keyword]) -> dict[str, Any]:
    return {k.arg: ast.literal_eval(k.value) for k in keywords if k.arg is not None}


def _same_sign(left: Estimate, right: Estimate, level: float) -> bool | None:
    """Returns `True` if both are significant with the same sign, or neither is significant."""
    signs = []
    for side in (left, right):
        width = side.half_width(level)
        if math.isnan(side.value) or math.isnan(width):
            return None
        signs.append(0 if abs(side.value) <= width else math.copysign(1, side.value))
    if 0 in signs:
        return True if signs == [0, 0] else None
    return signs[0] == signs[1]


def cells_of(claim: Claim, names: Mapping[str, Any], rule: Rule) -> list[Cell]:
    """Returns the cells that a claim refers to, each once."""
    return list(dict.fromkeys(cell for cell, _ in looked_up(claim, names, rule)))


def looked_up(claim: Claim, names: Mapping[str, Any], rule: Rule) -> list[tuple[Cell, str]]:
    """Returns the cells that a claim refers to with their quantities, each pair once."""
    found: dict[tuple[Cell, str], None] = {}

    def note(cell: Cell, quantity: str) -> Estimate:
        found[cell, quantity] = None
        return Estimate.constant(1.0)

    evaluator = Evaluator(note, names, rule)
    for comparison in claim.comparisons:
        for expression in (comparison.left, comparison.right):
            if expression:
                evaluator.value(expression, comparison.cell)
    return list(found)


def judge(
    claims: Sequence[Claim], samples: Samples, names: Mapping[str, Any], rule: Rule
) -> Iterator[Verdict]:
    """Judges claims.

    Args:
        claims: The claims to judge.
        samples: Returns the mean of a quantity in a cell; raises `Missing` if it was not run.
        names: Combinations by their names in expressions.
        rule: The rule that decides.
    """
    evaluator = Evaluator(samples, names, rule)
    judged: list[tuple[Judgement, ...] | str] = []
    for claim in claims:
        # Bonferroni: a claim of k comparisons is as likely as one of 1 to fail by chance.
        family = len(claim.comparisons) if rule.correction == "bonferroni" else 1
        level = 1.0 - (1.0 - rule.level) / family
        try:
            judgements = tuple(evaluator.judge(one, level) for one in claim.comparisons)
        except Missing as missing:
            judged.append(f"not run: needs {missing}")
            continue
        judged.append(
            tuple(replace(one, p_corrected=min(one.p_value * family, 1.0)) for one in judgements)
        )
    if rule.correction == "holm":
        judged = _over_all(claims, judged, evaluator)
    for claim, found in zip(claims, judged, strict=True):
        if isinstance(found, str):
            yield Verdict(claim, "undecided", (), found)
            continue
        judgements = found
        outcomes = [judgement.holds for judgement in judgements]
        if all(outcomes):
            verdict = "reproduced"
        elif rule.parts and False in outcomes and True in outcomes:
            verdict = "in part"
        elif False in outcomes:
            verdict = "contradicted"
        else:
            verdict = "undecided"
        yield Verdict(claim, verdict, judgements, _evidence(judgements, rule))


def judge_printed(
    claims: Sequence[Claim], samples: Samples, names: Mapping[str, Any], rule: Rule
) -> list[Printed]:
    """Makes the comparisons of claims on the numbers that a paper prints.

    A claim that the paper's numbers do not satisfy is misread. Printed numbers are used without
    intervals: `greater` and `less` mean any difference, the other relations their tolerance.

    Args:
        claims: The claims to judge.
        samples: Returns a printed number as a constant; raises `Missing` if it is not printed.
        names: Combinations by their names in expressions.
        rule: The rule that decides.
    """
    evaluator = Evaluator(samples, names, rule)
    found = []
    for claim in claims:
        judgements = []
        for comparison in claim.comparisons:
            try:
                judgements.append(evaluator.judge(comparison, rule.level))
            except Missing:
                continue
        missing = len(claim.comparisons) - len(judgements)
        found.append(Printed(claim, tuple(judgements), missing))
    return found


def _over_all(
    claims: Sequence[Claim], judged: Sequence[tuple[Judgement, ...] | str], evaluator: Evaluator
) -> list[tuple[Judgement, ...] | str]:
    """Judges the tests again, at the levels of Holm's correction over all claims.

    Claims that were not run count too, so that a verdict does not depend on the request.
    """
    tests = [one for claim in claims for one in claim.comparisons if one.relation in TESTS]
    p_values = {
        (index, number): judgement.p_value
        for index, found in enumerate(judged)
        if not isinstance(found, str)
        for number, judgement in enumerate(found)
        if judgement.comparison.relation in TESTS
    }
    family = np.full(len(tests), math.nan)
    family[: len(p_values)] = list(p_values.values())
    corrected = dict(zip(p_values, holm(family), strict=False))
    alpha = 1.0 - evaluator.rule.level
    # All tests from the first one that is not rejected are judged at its level.
    rejected = sum(p <= alpha for p in corrected.values())
    order = {place: rank for rank, place in enumerate(sorted(p_values, key=_by_p(p_values)))}
    result: list[tuple[Judgement, ...] | str] = []
    for index, found in enumerate(judged):
        if isinstance(found, str):
            result.append(found)
            continue
        row = []
        for number, judgement in enumerate(found):
            place = (index, number)
            if place in p_values:
                rank = min(order[place], rejected)
                level = 1.0 - alpha / max(len(tests) - rank, 1)
                judgement = evaluator.judge(judgement.comparison, level)
                judgement = replace(judgement, p_corrected=float(corrected[place]))
            row.append(judgement)
        result.append(tuple(row))
    return result


def _by_p(p_values: Mapping[tuple[int, int], float]) -> Callable[[tuple[int, int]], float]:
    """Returns the sort key of Holm's correction: unknown p-values are last."""
    return lambda place: math.inf if math.isnan(p_values[place]) else p_values[place]


def _evidence(judgements: Sequence[Judgement], rule: Rule) -> str:
    """Returns counts, then one comparison with numbers: the clearest failure or the closest call.

    Where claims are judged in part, all comparisons that did not hold follow, without numbers.
    """
    about, usual = rule.about, rule.grid.default
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
    evidence = f"comparisons: {parts}; {label}: {show(chosen, usual)}"
    if rule.parts:
        for word, outcome in (("fails", False), ("open", None)):
            where = _where([j for j in judgements if j.holds is outcome], judgements)
            if where:
                evidence += f". {word.capitalize()}: {where}"
    return evidence


def _where(chosen: Sequence[Judgement], judgements: Sequence[Judgement]) -> str:
    """Returns the chosen comparisons with the coordinates in which they differ from others."""
    values: dict[str, set[str]] = {}
    for judgement in judgements:
        for key, value in judgement.comparison.cell:
            values.setdefault(key, set()).add(_word(value))
    places: dict[str, list[str]] = {}
    for judgement in chosen:
        cell = judgement.comparison.cell
        place = " ".join(_named(key, value) for key, value in cell if len(values[key]) > 1)
        places.setdefault(formula(judgement.comparison), []).append(place)
    parts = []
    for what, found in places.items():
        more = f" and {len(found) - MOST_PLACES} more" if len(found) > MOST_PLACES else ""
        at = f" at {', '.join(found[:MOST_PLACES])}{more}" if any(found) else ""
        parts.append(f"{what}{at}")
    return "; ".join(parts)


def _named(key: str, value: object) -> str:
    """Returns the text of a coordinate; the key is added to numbers."""
    return f"{key} {value}" if isinstance(value, (int, float)) else _word(value)


def _strength(judgement: Judgement, about: float) -> float:
    """Returns the clarity of the outcome: 1 at the deciding limit, more at a distance from it."""
    one, gap = judgement.comparison, abs(judgement.difference)
    if math.isnan(judgement.difference) or math.isnan(judgement.half_width):
        return 0.0
    if one.relation == "between":
        low, high = one.low - about * abs(one.low), one.high + about * abs(one.high)
        if low > 0.0:
            inside = (
                min(judgement.left / low, high / judgement.left) if judgement.left > 0.0 else 0.0
            )
        else:
            away = abs(judgement.left - (low + high) / 2.0)
            inside = (high - low) / 2.0 / max(away, 1e-12)
    elif one.relation == "same sign":
        return min(abs(judgement.left), abs(judgement.right)) / max(judgement.half_width, 1e-12)
    elif one.relation in ("about", "not less"):
        inside = about * abs(judgement.right) / max(gap, 1e-12)
    else:
        return gap / max(judgement.half_width, 1e-12)
    return inside if judgement.holds else 1.0 / max(inside, 1e-12)


RELATIONS = {
    "greater": ">",
    "less": "<",
    "about": "≈",
    "not less": "≳",
    "same sign": "has the sign of",
}


def formula(comparison: Comparison) -> str:
    """Returns a comparison without numbers, as text."""
    if comparison.relation == "between":
        return f"{comparison.left} from {comparison.low:g} to {comparison.high:g}"
    return f"{comparison.left} {RELATIONS[comparison.relation]} {comparison.right}"


def show(judgement: Judgement, usual: Mapping[str, Any] | None = None) -> str:
    """Returns a comparison with its numbers, as text; default coordinates are omitted."""
    one = judgement.comparison
    skip = (usual or {}).items()
    place = ", ".join(
        f"{key} {_word(value)}" for key, value in one.cell if (key, value) not in skip
    )
    place = f" [{place}]" if place else ""
    width = f"{judgement.half_width:.4g}"
    if one.relation == "between":
        return (
            f"{one.left} = {judgement.left:.4g} ± {width}, "
            f"claimed {one.low:g} to {one.high:g}{place}"
        )
    return (
        f"{formula(one)}: {judgement.left:.4g} against {judgement.right:.4g}, "
        f"difference {judgement.difference:.4g} ± {width}{place}"
    )


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
