"""What moved between two campaigns: each metric of each point they share, beyond noise or not.

Where both campaigns ran with one seed, replications with the same number met the same random
streams and are compared pair by pair; otherwise the two samples are compared as independent
(Welch's t-test). So many metrics are compared that some would differ by chance alone: the p-values
are corrected by Holm's method, so that the chance that *any* metric is called moved although none
has is at most `level`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy import stats

from lasthop import statistics

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lasthop.results import Point, Results
    from lasthop.statistics import Floats

__all__ = ["Comparison", "diff"]

LEVEL = 0.05

SCHEMA = pl.Schema(
    {
        "parameters": pl.String,
        "metric": pl.String,
        "a": pl.Float64,
        "b": pl.Float64,
        "difference": pl.Float64,
        "ci95": pl.Float64,
        "relative": pl.Float64,
        "n": pl.UInt32,
        "paired": pl.Boolean,
        "p_value": pl.Float64,
        "p_holm": pl.Float64,
        "moved": pl.Boolean,
    }
)


@dataclass(frozen=True)
class Comparison:
    """Two campaigns side by side.

    Attributes:
        frame: One row for each metric of each shared point, those that moved first: `parameters`,
            `metric`, means `a` and `b`, `difference` (b minus a) with the half-width `ci95` of
            its 95 % interval, `relative` (to a), `n` (pairs, or the smaller sample), `paired`,
            `p_value`, `p_holm` (corrected for all rows), `moved`.
        only_a: Points of the first that the second has not.
        only_b: Points of the second that the first has not.
        level: Chance that any metric is called moved although none has.
    """

    frame: pl.DataFrame
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    level: float

    @property
    def moved(self) -> pl.DataFrame:
        """The rows that moved beyond noise."""
        return self.frame.filter(pl.col("moved"))

    def summary(self) -> str:
        """One line."""
        rows, points = self.frame.height, self.frame["parameters"].n_unique()
        same = self.frame.filter(
            (pl.col("difference") == 0.0) & (pl.col("ci95").fill_nan(0.0) == 0.0)
        )
        text = (
            f"{rows} metrics compared at {points} points: {self.moved.height} moved beyond noise "
            f"(Holm, {100 * self.level:g} % over all), {same.height} are the same to the bit"
        )
        for name, points_of in (("A", self.only_a), ("B", self.only_b)):
            if points_of:
                text += f"; only in {name}: {len(points_of)} points"
        return text


def diff(a: Results, b: Results, *, level: float = LEVEL) -> Comparison:
    """Compares two campaigns at the points that both have: those with equal parameters.

    Args:
        a: The campaign that is compared with.
        b: The campaign that may have moved.
        level: Chance that any metric is called moved although none has, between 0 and 1.

    Raises:
        ValueError: If `level` is not between 0 and 1, or the two share no point or no metric.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: found {level}; allowed: above 0 and below 1")
    points = [{_label(point): index for index, point in enumerate(r.points)} for r in (a, b)]
    shared = [label for label in points[0] if label in points[1]]
    metrics = [metric for metric in a.metrics if metric in set(b.metrics)]
    if not shared or not metrics:
        what = "point with equal parameters" if metrics else "metric"
        raise ValueError(f"found two campaigns without a common {what}")
    rows = [
        row
        for label in shared
        for metric in metrics
        if (row := _row(a, b, metric, points[0][label], points[1][label], label)) is not None
    ]
    frame = _correct(pl.DataFrame(rows, schema=SCHEMA), level)
    return Comparison(
        frame,
        tuple(label for label in points[0] if label not in points[1]),
        tuple(label for label in points[1] if label not in points[0]),
        level,
    )


def _label(point: Point) -> str:
    parameters = point.parameters.items()
    return ", ".join(f"{key} = {_text(value)}" for key, value in parameters) or "as in the scenario"


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _row(
    a: Results, b: Results, metric: str, point_a: int, point_b: int, label: str
) -> Mapping[str, Any] | None:
    """One comparison; None where one side has no number."""
    left, right = a.samples(metric, point_a), b.samples(metric, point_b)
    paired = a.seed == b.seed
    if paired:
        left, right = _pairs(a, b, left, right)
    left_mean, right_mean = statistics.interval(left), statistics.interval(right)
    n = min(left_mean.n, right_mean.n)
    if n == 0:
        return None
    if paired:
        found = statistics.difference(right, left)
        difference, ci95, p_value = found.mean, found.ci95, found.p_value
        n = found.n
    else:
        difference = right_mean.mean - left_mean.mean
        ci95, p_value = _welch(left[~np.isnan(left)], right[~np.isnan(right)])
    return {
        "parameters": label,
        "metric": metric,
        "a": left_mean.mean,
        "b": right_mean.mean,
        "difference": difference,
        "ci95": ci95,
        "relative": difference / left_mean.mean if left_mean.mean else math.nan,
        "n": n,
        "paired": paired,
        "p_value": p_value,
        "p_holm": p_value,
        "moved": False,
    }


def _pairs(a: Results, b: Results, left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The samples of the replications that both have, in the same order."""
    _, own, other = np.intersect1d(
        np.unique(a.replication), np.unique(b.replication), return_indices=True
    )
    return left[own], right[other]


def _welch(left: Floats, right: Floats) -> tuple[float, float]:
    """Half-width of the 95 % interval of the difference of means, and the p-value that it is 0."""
    if min(left.size, right.size) < 2:
        return math.nan, math.nan
    if np.ptp(left) == 0.0 and np.ptp(right) == 0.0:
        return 0.0, 1.0 if left[0] == right[0] else 0.0
    found = stats.ttest_ind(right, left, equal_var=False)
    limits = found.confidence_interval(statistics.CONFIDENCE)
    return (limits.high - limits.low) / 2.0, float(found.pvalue)


def _correct(frame: pl.DataFrame, level: float) -> pl.DataFrame:
    """Holm's correction over all rows that have a p-value; moved rows first, largest change first."""
    corrected = statistics.holm(frame["p_value"].to_numpy())
    frame = frame.with_columns(
        pl.Series("p_holm", corrected), pl.Series("moved", corrected <= level)
    )
    size = pl.col("relative").abs().fill_nan(math.inf)
    return frame.sort(pl.col("moved"), size, descending=True, maintain_order=True)
