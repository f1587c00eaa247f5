"""Comparison of results with theory, where a closed form applies."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lasthop.evaluating.cells import number
from lasthop.evaluating.results import Results
from lasthop.evaluating.statistics import Interval
from lasthop.evaluating.theory.network import Hypothesis, Network, Prediction
from lasthop.evaluating.theory.rules import RULES, predict
from lasthop.running.replications import run
from lasthop.scenarios.scenario import Scenario, as_scenario

__all__ = ["Comparison", "compare", "compare_theory", "frame", "nothing_applies", "to_dict"]

SAME = 1e-6
"""Relative difference below which values are equal: times are integer nanoseconds."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A simulated value and a theoretical one.

    Attributes:
        point: Index of the point.
        prediction: The theoretical value.
        simulated: Mean and interval of the metric.
    """

    point: int
    prediction: Prediction
    simulated: Interval

    @property
    def difference(self) -> float:
        """Simulated minus theoretical."""
        return self.simulated.mean - self.prediction.value

    @property
    def percent(self) -> float | None:
        """The difference in per cent of theory; None if theory is 0."""
        value = self.prediction.value
        return 100.0 * self.difference / value if value else None

    @property
    def inside(self) -> bool | None:
        """Whether theory is inside the 95 % interval, or the interval reaches below a bound.

        Undecided (None) if there is no interval to decide by, or for a rare event that was never
        observed: n replications with 0 are compatible with a mean of 3/n.
        """
        excess = self.difference if self.prediction.is_bound else abs(self.difference)
        if excess <= SAME * abs(self.prediction.value):
            return True
        found = self.simulated
        if found.mean == 0.0 and found.ci95 == 0.0 and abs(self.prediction.value) <= 3.0 / found.n:
            return None
        return None if math.isnan(found.ci95) else excess <= self._reach

    @property
    def _reach(self) -> float:
        """Length of the interval on the side of theory."""
        found = self.simulated
        return found.mean - found.low if self.difference > 0.0 else found.high - found.mean

    @property
    def agrees(self) -> bool | None:
        """Inside, or no further from the interval than the formula's known error."""
        inside = self.inside
        half = 0.0 if math.isnan(self.simulated.ci95) else self._reach
        allowed = half + self.prediction.accuracy * abs(self.prediction.value)
        near = self.prediction.accuracy > 0.0 and abs(self.difference) <= allowed
        return True if near else inside

    @property
    def broken(self) -> list[Hypothesis]:
        """Hypotheses that the scenario violates."""
        return [one for one in self.prediction.hypotheses if one.status == "broken"]

    @property
    def hypotheses(self) -> str:
        """The worst that is known of them: `met`, `nearly`, `unknown` or `broken`."""
        found = {one.status for one in self.prediction.hypotheses}
        worst = ("broken", "unknown", "nearly")
        return next((status for status in worst if status in found), "met")

    @property
    def kind(self) -> str:
        """Kind of the value: `exact`, `upper bound`, or its accuracy such as `± 15 %`."""
        if self.prediction.is_bound:
            return "upper bound"
        accuracy = self.prediction.accuracy
        return f"± {100.0 * accuracy:g} %" if accuracy else "exact"


def compare(results: Results, scenario: Scenario | None = None) -> list[Comparison]:
    """Returns all comparisons for which a closed form applies.

    Args:
        results: Results of a scenario.
        scenario: That scenario, if `results.scenario` is incomplete because its file names are
            relative to a folder.

    Raises:
        ValueError: If the scenario is not that of the results.
    """
    points = (scenario or Scenario(results.scenario)).points()
    hashes = [f"{point.hash:016x}" for point in points]
    if hashes != [point.scenario_hash for point in results.points]:
        raise ValueError(
            "the scenario does not match the results: expected the scenario of the results"
        )
    found = []
    for index, point in enumerate(points):
        intervals = results.point_intervals(index)
        measured = {name: interval.mean for name, interval in intervals.items()}
        found += [
            Comparison(index, one, intervals[one.metric])
            for one in predict(Network(json.loads(point.resolved()), measured))
            if one.metric in intervals and math.isfinite(one.value)
        ]
    return found


def frame(results: Results, comparisons: list[Comparison]) -> pl.DataFrame:
    """Comparisons as a table; see `compare_theory`."""
    rows = [
        {
            "point": one.point,
            **_values(one),
            "hypotheses": one.hypotheses,
            "broken": "; ".join(_words(each) for each in one.broken),
        }
        for one in comparisons
    ]
    schema: dict[str, Any] = {
        "point": pl.UInt32,
        "rule": pl.String,
        "metric": pl.String,
        "simulated": pl.Float64,
        "ci95": pl.Float64,
        "n": pl.UInt32,
        "theory": pl.Float64,
        "kind": pl.String,
        "difference": pl.Float64,
        "difference_percent": pl.Float64,
        "inside": pl.Boolean,
        "agrees": pl.Boolean,
        "hypotheses": pl.String,
        "broken": pl.String,
    }
    table = pl.DataFrame(rows, schema=schema)
    parameters = results.parameter_columns(table["point"].to_numpy())
    return table.select("point", *parameters.values(), pl.exclude("point"))


def _values(one: Comparison) -> dict[str, Any]:
    """Returns the columns of a comparison for tables and JSON."""
    return {
        "rule": one.prediction.rule,
        "metric": one.prediction.metric,
        "simulated": one.simulated.mean,
        "ci95": number(one.simulated.ci95),
        "n": one.simulated.n,
        "theory": one.prediction.value,
        "kind": one.kind,
        "difference": one.difference,
        "difference_percent": one.percent,
        "inside": one.inside,
        "agrees": one.agrees,
    }


def _words(hypothesis: Hypothesis) -> str:
    return f"{hypothesis.text} ({hypothesis.detail})" if hypothesis.detail else hypothesis.text


def to_dict(comparisons: list[Comparison], point: int) -> list[dict[str, Any]]:
    """Returns `theory` of a point for `lasthop run --compare-theory --format json`."""
    return [
        {
            **_values(one),
            "simulated": number(one.simulated.mean),
            "hypotheses": [
                {"text": each.text, "status": each.status, "detail": each.detail}
                for each in one.prediction.hypotheses
            ],
        }
        for one in comparisons
        if one.point == point
    ]


def nothing_applies() -> str:
    """One line for a scenario without any closed form."""
    known = "; ".join(rule.about for rule in RULES)
    return f"No closed form applies to this scenario. There is one for: {known}."


def compare_theory(
    given: Results | Scenario | Mapping[str, Any] | str | Path,
    *,
    scenario: Scenario | None = None,
    replications: int | None = None,
    seed: int | None = None,
    jobs: int = 0,
) -> pl.DataFrame:
    """Compares results with theory, where a closed form applies.

    Args:
        given: Results, or a scenario to run: the object, its tables, or a file's path.
        scenario: With results: their scenario, if it names files.
        replications: Of a scenario that is run, as for `run`.
        seed: The same.
        jobs: The same.

    Returns:
        One row for each rule, metric and point: `point`, the swept keys, `rule`, `metric`,
        `simulated` (mean), `ci95` (half-width of its 95 % interval), `n`, `theory`, `kind`
        (`exact`, `upper bound`, or the relative accuracy of an approximation), `difference`
        (simulated minus theory), `difference_percent`, `inside` (theory is inside the interval;
        null without one, or if theory is so small that nothing was seen), `agrees` (inside, or no
        further from the interval than the accuracy), `hypotheses` (`met`, `nearly`, `unknown` or
        `broken`: the worst of them), `broken` (which, in words). Empty if
        no closed form applies.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        ValueError: If the scenario is not that of the results.
    """
    if isinstance(given, Results):
        results = given
    else:
        scenario = as_scenario(given)
        results = run(scenario, replications=replications, seed=seed, jobs=jobs)
    return frame(results, compare(results, scenario))
