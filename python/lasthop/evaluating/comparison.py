"""Metrics that changed significantly between two campaigns.

Where both campaigns ran with one seed, replications with the same number met the same random
streams and are compared by paired differences and Student's t. Otherwise the samples are
independent, and a p-value is the largest of three:

- Welch's t, which allows the variances to differ;
- Student's t with the pooled variance: of five replications without a timeout the variance is 0,
  although that of their mean is not;
- a permutation test, where one sample has at most 30 replications: the fraction of random
  assignments of the replications to the campaigns that set the means as far apart. It is exact for
  every distribution, also of rare counts, for which t is not valid. It is left out where there are
  too few assignments for a significant result.

Many metrics are compared, and some would differ by chance. The p-values are corrected by Holm's
method, so that the probability that *any* metric is reported although none has changed is at most
`level`.

Where all of a metric's replications are equal in each campaign, p is the fraction of the ways to
assign the signs of the pairs, or the replications to the campaigns, that set the two as far apart.
If no metric of a point varies at all, p is 0 for any difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lasthop.evaluating import statistics
from lasthop.evaluating.cells import value_text
from lasthop.scenarios.arguments import ArgumentError

if TYPE_CHECKING:
    from lasthop.evaluating.results import Point, Results
    from lasthop.evaluating.statistics import Floats

__all__ = ["Comparison", "diff", "from_baseline"]

LEVEL = 0.05

# Samples of more replications are not permuted.
PERMUTED = 30
# Random assignments: of a first round, of one batch, and at most.
FIRST, BATCH, MOST = 1_000, 2_000, 100_000
# Number of assignments beyond the observed difference at which a p-value is precise enough.
ENOUGH = 20

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
    """Comparison of two campaigns.

    Attributes:
        frame: One row per metric of each common point, significant changes first: `parameters`,
            `metric`, means `a` and `b`, `difference` (b minus a) with the half-width `ci95` of its
            95 % confidence interval, `relative` (to a), `n` (pairs, or the smaller sample),
            `paired`, `p_value`, `p_holm` (corrected for all rows), `moved`.
        only_a: Points that only the first campaign has.
        only_b: Points that only the second campaign has.
        level: Family-wise probability of a false positive.
    """

    frame: pl.DataFrame
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    level: float

    @property
    def moved(self) -> pl.DataFrame:
        """The rows with a significant change."""
        return self.frame.filter(pl.col("moved"))

    def summary(self) -> str:
        """Returns a summary in one line."""
        rows, points = self.frame.height, self.frame["parameters"].n_unique()
        same = self.frame.filter(
            (pl.col("difference") == 0.0) & (pl.col("ci95").fill_nan(0.0) == 0.0)
        )
        open_rows = self.frame.filter(
            pl.col("p_value").is_nan() & (pl.col("difference") != 0.0)
        ).height
        text = (
            f"{rows} metrics compared at {points} point{'s' if points > 1 else ''}: "
            f"{self.moved.height} changed significantly "
            f"(Holm, family-wise level {100 * self.level:g} %), {same.height} are bit-identical"
        )
        if open_rows:
            text += f"; {open_rows} are inconclusive with a single replication"
        for name, points_of in (("A", self.only_a), ("B", self.only_b)):
            if points_of:
                text += f"; only in {name}: {len(points_of)} points"
        return text


def diff(a: Results, b: Results, *, level: float = LEVEL) -> Comparison:
    """Compares two campaigns at the points that both have: those with equal parameters.

    Args:
        a: The reference campaign.
        b: The campaign to compare.
        level: Family-wise probability of a false positive, between 0 and 1.

    Raises:
        ValueError: If `level` is not between 0 and 1, or there is no common point or metric.
    """
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"invalid value `{level:g}` for `level`: expected above 0 and below 1")
    points = [{_label(point): index for index, point in enumerate(r.points)} for r in (a, b)]
    shared = [label for label in points[0] if label in points[1]]
    metrics = [metric for metric in a.metrics if metric in set(b.metrics)]
    if not shared or not metrics:
        what = "point with equal parameters" if metrics else "metric"
        raise ValueError(f"the campaigns have no common {what}")
    rarest = level / (len(shared) * len(metrics))
    frames = [
        _compare(a, b, metrics, (points[0][label], points[1][label]), label, rarest)
        for label in shared
    ]
    frame = _correct(pl.concat(frames), level)
    return Comparison(
        frame,
        tuple(label for label in points[0] if label not in points[1]),
        tuple(label for label in points[1] if label not in points[0]),
        level,
    )


def _label(point: Point) -> str:
    parameters = point.parameters.items()
    return (
        ", ".join(f"{key} = {value_text(value)}" for key, value in parameters)
        or "as in the scenario"
    )


def _compare(
    a: Results, b: Results, metrics: list[str], at: tuple[int, int], label: str, rarest: float
) -> pl.DataFrame:
    """Returns the comparison of all metrics of one point that have values on both sides."""
    from scipy import special  # late: takes 0.2 s

    left = np.column_stack([a.samples(metric, at[0]) for metric in metrics])
    right = np.column_stack([b.samples(metric, at[1]) for metric in metrics])
    paired = a.seed == b.seed
    if paired:
        _, own, other = np.intersect1d(
            np.unique(a.replication), np.unique(b.replication), return_indices=True
        )
        left, right = left[own], right[other]
        missing = np.isnan(left) | np.isnan(right)
        left, right = np.where(missing, np.nan, left), np.where(missing, np.nan, right)
    counts = [np.count_nonzero(~np.isnan(side), axis=0) for side in (left, right)]
    n = np.minimum(*counts)
    there = n > 0
    alike = 0.5 ** (n - 1.0) if paired else 2.0 / special.comb(sum(counts), n)
    left, right, n, alike = left[:, there], right[:, there], n[there], alike[there]
    mean_a, mean_b = np.nanmean(left, axis=0), np.nanmean(right, axis=0)
    gap = np.nanmean(right - left, axis=0) if paired else mean_b - mean_a
    tests = [_paired(right - left)] if paired else [_welch(left, right), _pooled(left, right)]
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(mean_a == 0.0, np.nan, gap / np.abs(mean_a))
        p_value = np.max(
            [2.0 * special.stdtr(freedom, -np.abs(gap) / error) for error, freedom in tests], axis=0
        )
        ci95 = np.max(
            [
                special.stdtrit(freedom, 0.5 + statistics.CONFIDENCE / 2.0) * error
                for error, freedom in tests
            ],
            axis=0,
        )
    if not paired:
        p_value = _permuted(left, right, p_value, rarest)
    steady = (tests[-1][0] == 0.0) & (n > 1)
    if not any(np.any(_spread(side)[1] > 0.0) for side in (left, right)):
        alike = np.zeros_like(alike)
    p_value = np.where(steady, np.where(gap == 0.0, 1.0, alike), p_value)
    ci95 = np.where(steady, 0.0, ci95)
    rows = int(n.size)
    names = [metric for metric, is_there in zip(metrics, there, strict=True) if is_there]
    return pl.DataFrame(
        {
            "parameters": [label] * rows,
            "metric": names,
            "a": mean_a,
            "b": mean_b,
            "difference": gap,
            "ci95": ci95,
            "relative": relative,
            "n": n.astype(np.uint32),
            "paired": [paired] * rows,
            "p_value": p_value,
            "p_holm": p_value,
            "moved": [False] * rows,
        },
        schema=SCHEMA,
    )


def _spread(samples: Floats) -> tuple[Floats, Floats]:
    """Returns count and squared standard error of the mean per column; NaN for one sample."""
    count = np.count_nonzero(~np.isnan(samples), axis=0).astype(np.float64)
    squares = np.nansum((samples - np.nanmean(samples, axis=0)) ** 2, axis=0)
    # Rounding leaves a small variance in constant columns.
    squares = np.where(np.nanmax(samples, axis=0) == np.nanmin(samples, axis=0), 0.0, squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        return count, np.where(count > 1, squares / (count - 1) / count, np.nan)


def _paired(gaps: Floats) -> tuple[Floats, Floats]:
    """Returns standard error and degrees of freedom of the mean paired difference."""
    count, squared = _spread(gaps)
    return np.sqrt(squared), count - 1.0


def _welch(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Returns standard error of the difference of means and Welch's degrees of freedom."""
    (count_a, a), (count_b, b) = _spread(left), _spread(right)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (a + b) ** 2 / (a**2 / (count_a - 1.0) + b**2 / (count_b - 1.0))
    # Metrics without any variance have no t value; `_compare` handles them.
    return np.sqrt(a + b), np.where(a + b == 0.0, 1.0, freedom)


def _pooled(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Returns standard error and degrees of freedom of the difference for equal variances."""
    (count_a, a), (count_b, b) = _spread(left), _spread(right)
    freedom = count_a + count_b - 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (a * count_a * (count_a - 1.0) + b * count_b * (count_b - 1.0)) / freedom
    return np.sqrt(variance * (1.0 / count_a + 1.0 / count_b)), freedom


def _permuted(left: Floats, right: Floats, p_value: Floats, rarest: float) -> Floats:
    """Returns the larger of the p-values and those of permutation tests, where these have power.

    Args:
        left: Samples, a column per metric; NaN is missing.
        right: The other samples.
        p_value: Those of the t-tests.
        rarest: A p-value that is significant after correction for any number of metrics.
    """
    from scipy import special  # late: takes 0.2 s

    small, large = sorted((left, right), key=len)
    chosen, total = len(small), len(small) + len(large)
    open_rows = np.flatnonzero(p_value <= LEVEL)
    if chosen < 2 or chosen > PERMUTED or 2.0 / special.comb(total, chosen) > rarest / 2.0:
        return p_value
    random = np.random.default_rng(1)
    found, most = p_value.copy(), int(np.clip(2.0 / rarest, FIRST, MOST))
    beyond, drawn = np.zeros(p_value.size), 0
    while open_rows.size and drawn < most:
        batch = min(BATCH if drawn else FIRST, most - drawn)
        values = np.vstack([small, large])[:, open_rows]
        own = np.zeros((batch, total))
        places = random.random((batch, total)).argpartition(chosen, axis=1)[:, :chosen]
        np.put_along_axis(own, places, 1.0, axis=1)
        beyond[open_rows] += _as_far(values, own, chosen)
        drawn += batch
        # No assignment is beyond: the p-value of t is smaller than samples can resolve.
        drawn_p = (beyond[open_rows] + (beyond[open_rows] > 0.0)) / (drawn + 1.0)
        found[open_rows] = np.maximum(p_value[open_rows], drawn_p)
        open_rows = open_rows[beyond[open_rows] < ENOUGH]
    return found


def _as_far(values: Floats, own: Floats, chosen: int) -> Floats:
    """Returns the number of assignments (rows of `own`) at least as extreme as the observed one."""
    present = ~np.isnan(values)
    # Centred, so that rounding does not decide.
    centred = np.where(present, values - np.nanmean(values, axis=0), 0.0)
    first = np.zeros((1, len(values)))
    first[0, :chosen] = 1.0
    weights = np.vstack([first, own])
    sums, counts = weights @ centred, weights @ present.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.abs(sums / counts + sums / (present.sum(axis=0) - counts))
    is_near = np.nan_to_num(gaps[1:], nan=np.inf) >= gaps[0] * (1.0 - 1e-9)
    return np.asarray(is_near.sum(axis=0), dtype=np.float64)


def _correct(frame: pl.DataFrame, level: float) -> pl.DataFrame:
    """Applies Holm's correction over all rows; sorts by significance, then by change."""
    corrected = statistics.holm(frame["p_value"].to_numpy())
    frame = frame.with_columns(
        pl.Series("p_holm", corrected), pl.Series("moved", corrected <= level)
    )
    size = pl.col("relative").abs().fill_nan(math.inf)
    return frame.sort(pl.col("moved"), size, descending=True, maintain_order=True)


def from_baseline(
    results: Results, metrics: Sequence[str], key: str, value: object
) -> pl.DataFrame:
    """Returns paired differences of several metrics from the points at which a key has a value.

    Args:
        results: The results.
        metrics: Full names; empty: the main metrics.
        key: The swept key.
        value: Value of the key at the reference points.

    Returns:
        `metric`, then the columns of `Results.differences`.
    """
    from lasthop.showing.terminal import HEADLINES

    chosen = metrics or [
        m for m in results.metrics if any(fnmatchcase(m, one) for one in HEADLINES)
    ]
    return pl.concat(
        results.differences(metric, by=key, baseline=value).select(
            pl.lit(metric).alias("metric"), pl.all()
        )
        for metric in chosen
        if metric in results.metrics
    )
