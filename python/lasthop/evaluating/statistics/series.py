"""One long run: regular series from events, warm-up, and batch means.

Successive values of a series (queue lengths, bits delivered a second) depend on each other, so that
mean ± t over them is far too narrow. Means of batches much longer than the memory of the process
are nearly independent; first, what the start of the run still shows is cut off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lasthop.evaluating.statistics.means import CONFIDENCE, Floats, check_level, half_width

__all__ = ["BatchMeans", "batch_means", "step_averages", "totals", "warm_up"]

BATCHES = 20
FINER = 4
"""How many times finer the batches are on which independence is checked."""

MOST_CORRELATION = 0.2
"""Between successive finer batches. Batches four times as long have about a quarter of it, which
leaves the interval 5 % too narrow."""


@dataclass(frozen=True, slots=True)
class BatchMeans:
    """A steady-state mean from one long run.

    Attributes:
        mean: Mean after the warm-up; values at the end that fill no batch are left out.
        ci95: Half-width of its interval, t over the batches.
        batches: Their number.
        batch: Values in each.
        warm_up: Values that were cut off at the start.
        correlation: Of successive means of batches a quarter as long.
        independent: Whether that is low enough (0.2) to trust the interval. Independent values
            fail this in 3 to 4 % of cases.
    """

    mean: float
    ci95: float
    batches: int
    batch: int
    warm_up: int
    correlation: float
    independent: bool


def _regular(times: ArrayLike, edges: ArrayLike) -> tuple[Floats, Floats]:
    when, bins = np.asarray(times, dtype=np.float64), np.asarray(edges, dtype=np.float64)
    if bins.ndim != 1 or bins.size < 2 or np.any(np.diff(bins) <= 0.0):
        raise ValueError("edges: allowed: two or more times, each later than the one before")
    if when.ndim != 1 or np.any(np.diff(when) < 0.0):
        raise ValueError("times: allowed: one dimension, none earlier than the one before")
    return when, bins


def step_averages(times: ArrayLike, values: ArrayLike, edges: ArrayLike) -> Floats:
    """Time averages of a quantity that keeps its value until the next event, such as a queue.

    Args:
        times: Shape (events,): when it changed, in order, seconds.
        values: Shape (events,): what it was from then on; before the first event it is NaN.
        edges: Shape (bins + 1,): limits of the bins, seconds.

    Returns:
        Shape (bins,).

    Raises:
        ValueError: If times or edges are not in order.
    """
    when, bins = _regular(times, edges)
    level = np.asarray(values, dtype=np.float64)
    if when.size == 0:
        return np.full(bins.size - 1, np.nan)
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(when))])
    place = np.searchsorted(when, bins, side="right") - 1
    known = place >= 0
    place = np.maximum(place, 0)
    integral = np.where(known, area[place] + level[place] * (bins - when[place]), np.nan)
    return np.asarray(np.diff(integral) / np.diff(bins))


def totals(times: ArrayLike, amounts: ArrayLike, edges: ArrayLike) -> Floats:
    """Sums of what events bring, such as bytes delivered, in each bin [edge, next edge).

    Args:
        times: Shape (events,), in order, seconds.
        amounts: Shape (events,).
        edges: Shape (bins + 1,), seconds.

    Returns:
        Shape (bins,).

    Raises:
        ValueError: If times or edges are not in order.
    """
    when, bins = _regular(times, edges)
    summed = np.concatenate([[0.0], np.cumsum(np.asarray(amounts, dtype=np.float64))])
    return np.asarray(np.diff(summed[np.searchsorted(when, bins, side="left")]))


def warm_up(series: ArrayLike) -> int | None:
    """Where the warm-up ends, by MSER-5.

    Cutting more removes bias and costs values; the cut minimises the squared standard error of what
    remains, computed on means of five values each (White, Simulation 69, 1997; White, Cobb and
    Spratt, Winter Simulation Conference 2000).

    Args:
        series: Shape (values,), regular in time.

    Returns:
        How many values to cut off; None if the best cut is in the second half, which says that the
        run is too short, or if there are fewer than 20 values.
    """
    values = np.asarray(series, dtype=np.float64)
    count = values.size // 5
    if count < 4:
        return None
    means = values[: 5 * count].reshape(count, 5).mean(axis=1)
    means = means - means.mean()
    remaining = np.arange(count, 0, -1)
    first = np.cumsum(means[::-1])[::-1]
    second = np.cumsum(means[::-1] ** 2)[::-1]
    error = (second - first**2 / remaining) / remaining**2
    # With only a few means left, they are alike by chance.
    cut = int(np.argmin(error[: count - min(5, count // 2)]))
    return 5 * cut if cut <= count // 2 else None


def batch_means(
    series: ArrayLike,
    *,
    batches: int = BATCHES,
    cut: int | None = None,
    level: float = CONFIDENCE,
) -> BatchMeans:
    """Mean of a steady series with its interval, by batch means.

    Args:
        series: Shape (values,), regular in time, without NaN.
        batches: Their number: few, so that they are long; 20 cost little in the quantile of t.
        cut: Values to cut off at the start; by `warm_up` if None.
        level: Confidence.

    Raises:
        ValueError: If the series is too short for the batches, or its warm-up does not end in its
            first half, or `batches` is less than 2.
    """
    check_level(level)
    values = np.asarray(series, dtype=np.float64)
    if batches < 2:
        raise ValueError(f"batches: found {batches}; allowed: 2 or more")
    if cut is None:
        cut = warm_up(values)
        if cut is None:
            raise ValueError("series: found no end of the warm-up in its first half; run longer")
    rest = values[cut:]
    batch = rest.size // (batches * FINER) * FINER
    if batch == 0:
        raise ValueError(
            f"series: found {rest.size} values after the warm-up; "
            f"allowed: {batches * FINER} or more for {batches} batches"
        )
    rest = rest[: batches * batch]
    means = rest.reshape(batches, batch).mean(axis=1)
    correlation = _lag_one(rest.reshape(batches * FINER, -1).mean(axis=1))
    return BatchMeans(
        mean=float(means.mean()),
        ci95=half_width(means, level),
        batches=batches,
        batch=batch,
        warm_up=cut,
        correlation=correlation,
        independent=correlation <= MOST_CORRELATION,
    )


def _lag_one(values: Floats) -> float:
    """Correlation of successive values; 0 if they are all the same."""
    away = values - values.mean()
    squares = float(away @ away)
    # Its expectation is -1/n for independent values.
    return float(away[1:] @ away[:-1]) / squares + 1.0 / values.size if squares > 0.0 else 0.0
