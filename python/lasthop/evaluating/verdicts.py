"""Verdicts of an evaluation: its cells, from the results and traces of prepared points.

For a bound b on the ratio of means, the test statistic is the mean over replications of
x - b y (or b y - x) for the sender's value x and the baseline's value y; for a bound on the value
itself, y is 1. A cell fails if this mean is negative by a one-sided paired t-test at 5 %, corrected
by Holm over all cells of the sender with a bound. It passes if the mean is positive by the same
test without correction; otherwise it is open. Durations of incomplete transfers count as the time
until the end of the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from lasthop.evaluating.observation import OBSERVED, states
from lasthop.evaluating.results import Results
from lasthop.evaluating.statistics import (
    CONFIDENCE,
    Floats,
    Interval,
    difference,
    holm,
    interval,
)
from lasthop.evaluating.statistics.student import t_quantile, t_tail
from lasthop.evaluating.suite import Criterion, Prepared

__all__ = ["LEVEL", "Cell", "Evaluation", "judge", "observe"]

LEVEL = 0.05
"""Level of the tests."""

PASS, FAIL, OPEN, NUMBER = "pass", "fail", "open", "number"


@dataclass(frozen=True, slots=True)
class Cell:
    """A criterion at one point.

    Attributes:
        criterion: The criterion.
        sender: Name of the sender.
        baseline: Name of the baseline.
        place: Index of the point in the family.
        name: Label of the point.
        value: Mean and interval of the sender.
        reference: Mean and interval of the baseline.
        ratio: Ratio of the means; NaN if undefined.
        ratio_ci95: Half-width of its interval.
        p_fail: One-sided p-value of a missed bound, corrected; NaN without bound.
        verdict: `pass`, `fail`, `open`, or `number` without bound.
    """

    criterion: Criterion
    sender: str
    baseline: str
    place: int
    name: str
    value: Interval
    reference: Interval
    ratio: float
    ratio_ci95: float
    p_fail: float
    verdict: str


@dataclass(frozen=True)
class Evaluation:
    """The outcome of an evaluation.

    Attributes:
        prepared: Its points.
        results: Results of all points.
        cells: Cells of all senders, criteria and baselines.
    """

    prepared: Prepared
    results: Results
    cells: Sequence[Cell]

    @property
    def reference(self) -> str:
        """Name of the baseline of verdicts."""
        return self.prepared.baselines[0].name

    def of(self, tested: str, criterion: Criterion, baseline: str | None = None) -> list[Cell]:
        """Returns the cells of a sender and a criterion, by default against the reference."""
        base = self.reference if baseline is None else baseline
        wanted = (tested, criterion.id, base)
        return [one for one in self.cells if (one.sender, one.criterion.id, one.baseline) == wanted]

    def verdict(self, tested: str, criterion: Criterion) -> str:
        """Returns the verdict of a criterion: that of its worst cell; `not run` without cells."""
        found = {one.verdict for one in self.of(tested, criterion)}
        return next((one for one in (FAIL, OPEN, PASS, NUMBER) if one in found), "not run")

    @property
    def failed(self) -> bool:
        """Whether a cell of a sender fails."""
        return any(one.verdict == FAIL for one in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that `lasthop evaluate --format json` prints."""
        suite = self.prepared.suite

        def number(value: float) -> float | None:
            return value if math.isfinite(value) else None

        def mean(one: Interval) -> dict[str, float | int | None]:
            ends = {"value": number(one.mean), "low": number(one.low), "high": number(one.high)}
            return {**ends, "n": one.n}

        return {
            "suite": {"key": suite.key, "version": suite.version},
            "engine": self.results.engine_version,
            "seed": self.results.seed,
            "complete": bool(self.results.complete),
            "baselines": [one.name for one in self.prepared.baselines],
            "senders": [
                {"name": one.name, "transport": dict(one.transport)}
                for one in self.prepared.senders
            ],
            "criteria": [
                {
                    "id": one.criterion.id,
                    "sender": one.sender,
                    "cell": one.name,
                    "metric": one.criterion.metric or None,
                    "observed": one.criterion.observed and one.criterion.observed.about,
                    "baseline": one.baseline,
                    **mean(one.value),
                    "reference": mean(one.reference),
                    "ratio": number(one.ratio),
                    "ratio_ci95": number(one.ratio_ci95),
                    "bound": one.criterion.bound or None,
                    "bound_from": one.criterion.source or None,
                    "p_fail": number(one.p_fail),
                    "verdict": one.verdict,
                    "rerun": f"lasthop evaluate {one.sender} --suite {suite.key} "
                    f"--against {one.baseline} --family {one.criterion.family}",
                }
                for one in self.cells
            ],
            "not_run": [
                {"family": family, "sender": name, "reason": reason}
                for (family, name), reason in self.prepared.refused.items()
            ],
            "not_tested": list(suite.not_tested),
        }


def judge(
    prepared: Prepared, results: Results, observed: Mapping[tuple[str, int], Floats] | None = None
) -> Evaluation:
    """Compares the senders with the baselines.

    Args:
        prepared: The points.
        results: Their results.
        observed: Values of `observe`; None: criteria that observe traces have no cells.
    """
    cells: list[Cell] = []
    for tested in prepared.senders:
        for baseline in prepared.baselines:
            own = [
                cell
                for criterion in prepared.suite.criteria
                for cell in (
                    _compare(prepared, results, criterion, tested.name, baseline.name)
                    if criterion.observed is None
                    else _observed(prepared, criterion, tested.name, baseline.name, observed or {})
                )
            ]
            cells += _verdicts(own, judged=baseline is prepared.baselines[0])
    return Evaluation(prepared, results, cells)


def _compare(
    prepared: Prepared, results: Results, criterion: Criterion, tested: str, baseline: str
) -> list[Cell]:
    mine = prepared.cells.get((criterion.family, tested), ())
    theirs = prepared.cells.get((criterion.family, baseline), ())
    cells = []
    for place, (own, other) in enumerate(zip(mine, theirs, strict=False)):
        x, y = criterion.values(results, own), criterion.values(results, other)
        if x is None or y is None:
            continue
        pair = difference(x, y)
        cells.append(
            Cell(
                criterion,
                tested,
                baseline,
                place,
                prepared.names[criterion.family][place],
                interval(x),
                interval(y),
                pair.ratio,
                pair.ratio_ci95,
                _p_fail(criterion, x, y),
                NUMBER,
            )
        )
    return cells


def observe(
    prepared: Prepared, *, seed: int, replications: int = OBSERVED
) -> dict[tuple[str, int], Floats]:
    """Traces the senders where criteria observe phases.

    Args:
        prepared: The points.
        seed: Master seed.
        replications: Number of traced replications per point.

    Returns:
        The value of each replication, by criterion and index of the point. Senders without phases,
        such as QUIC, have none.
    """
    values: dict[tuple[str, int], Floats] = {}
    traces: dict[int, list[pl.DataFrame]] = {}
    for tested in prepared.senders:
        for criterion in prepared.suite.criteria:
            if criterion.observed is None:
                continue
            family = prepared.suite.families[criterion.family]
            for index in prepared.cells.get((criterion.family, tested.name), ()):
                if index not in traces:
                    point = prepared.cells[criterion.family, tested.name].index(index)
                    of_sender = family.of(tested)
                    traces[index] = [
                        states(of_sender, family.candidates[0], seed, number, point)
                        for number in range(replications)
                    ]
                found = [criterion.observed.value(one) for one in traces[index]]
                if not all(math.isnan(one) for one in found):
                    values[criterion.id, index] = np.array(found)
    return values


def _observed(
    prepared: Prepared,
    criterion: Criterion,
    tested: str,
    baseline: str,
    observed: Mapping[tuple[str, int], Floats],
) -> list[Cell]:
    cells = []
    unknown_value = Interval(math.nan, math.nan, 0)
    for place, index in enumerate(prepared.cells.get((criterion.family, tested), ())):
        values = observed.get((criterion.id, index))
        if values is None:
            continue
        p_fail = _p_fail(criterion, values, values)
        name = prepared.names[criterion.family][place]
        cells.append(
            Cell(
                criterion,
                tested,
                baseline,
                place,
                name,
                interval(values),
                unknown_value,
                math.nan,
                math.nan,
                p_fail,
                NUMBER,
            )
        )
    return cells


def _p_fail(criterion: Criterion, x: Floats, y: Floats) -> float:
    """Returns the p-value of the hypothesis that the bound holds; NaN if it cannot be tested."""
    base = np.ones_like(x) if criterion.absolute else y
    if criterion.at_least is not None:
        margin = interval(x - criterion.at_least * base)
    elif criterion.at_most is not None:
        margin = interval(criterion.at_most * base - x)
    else:
        return math.nan
    if margin.n < 2:
        return math.nan
    if margin.ci95 == 0.0:
        return 0.0 if margin.mean < 0.0 else 1.0
    error = margin.ci95 / t_quantile(0.5 + CONFIDENCE / 2.0, margin.n - 1)
    return 1.0 - t_tail(margin.mean / error, margin.n - 1)


def _verdicts(cells: Sequence[Cell], *, judged: bool) -> list[Cell]:
    """Returns cells with verdicts and corrected p-values; without verdict unless `judged`."""
    bounded = [at for at, one in enumerate(cells) if one.criterion.bound and judged]
    corrected = dict(zip(bounded, holm([cells[at].p_fail for at in bounded]), strict=True))
    found = []
    for at, one in enumerate(cells):
        if at not in corrected:
            found.append(replace(one, p_fail=math.nan))
            continue
        p = float(corrected[at])
        verdict = FAIL if p < LEVEL else PASS if one.p_fail > 1.0 - LEVEL else OPEN
        found.append(replace(one, p_fail=p, verdict=verdict))
    return found
