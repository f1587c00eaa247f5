"""One long run: regular series from events, warm-up, and batch means.

Successive values of a series (queue length, delivered bit/s) are correlated, so that mean ± t over
them is far too narrow. Means of batches much longer than the correlation time of the process are
nearly independent. The warm-up at the start of the run is excluded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lasthop.evaluating.statistics.estimates import Floats
from lasthop.evaluating.statistics.means import CONFIDENCE, check_level, half_width

__all__ = ["BatchMeans", "batch_means", "step_averages", "totals", "warm_up"]

BATCHES = 20
FINER = 4
"""Ratio of batch lengths for the check of independence."""

MOST_CORRELATION = 0.2
"""Maximum correlation of successive shorter batches. Batches 4 times as long have about a quarter
of it, which makes the interval 5 % too narrow."""


@dataclass(frozen=True, slots=True)
class BatchMeans:
    """A steady-state mean from one long run.

    Attributes:
        mean: Mean after the warm-up, without the last incomplete batch.
        ci95: Half-width of the interval, by t over the batches.
        batches: Number of batches.
        batch: Values per batch.
        warm_up: Number of excluded values at the start.
        correlation: Correlation of successive means of batches a quarter as long.
        independent: Whether this correlation is at most 0.2, so that the interval is valid.
            Independent values fail this check with a probability of 3 to 4 %.
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
        raise ValueError("invalid `edges`: expected 2 or more ascending times")
    if when.ndim != 1 or np.any(np.diff(when) < 0.0):
        raise ValueError("invalid `times`: expected one dimension in ascending order")
    return when, bins


def step_averages(times: ArrayLike, values: ArrayLike, edges: ArrayLike) -> Floats:
    """Returns time averages of a quantity that is constant between events, such as a queue length.

    Args:
        times: Shape (events,): times of changes in seconds, ascending.
        values: Shape (events,): value after each change; NaN before the first event.
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
    """Returns sums of amounts of events, such as delivered bytes, in each bin [edge, next edge).

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
    """Returns the end of the warm-up by MSER-5.

    A longer warm-up removes bias, but leaves fewer values. The method minimises the squared
    standard error of the remaining values, computed on means of 5 values (White, Simulation 69,
    1997; White, Cobb and Spratt, Winter Simulation Conference 2000).

    Args:
        series: Shape (values,), regular in time.

    Returns:
        Number of values to exclude; None if the run is too short: if the end is in the second half,
        or if there are fewer than 20 values.
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
    # A few remaining means may be close by chance.
    cut = int(np.argmin(error[: count - min(5, count // 2)]))
    return 5 * cut if cut <= count // 2 else None


def batch_means(
    series: ArrayLike,
    *,
    batches: int = BATCHES,
    cut: int | None = None,
    level: float = CONFIDENCE,
) -> BatchMeans:
    """Returns the mean of a stationary series with its interval, by batch means.

    Args:
        series: Shape (values,), regular in time, without NaN.
        batches: Number of batches; few batches are long, and 20 cost little in the quantile of t.
        cut: Number of values to exclude at the start; None: by `warm_up`.
        level: Confidence.

    Raises:
        ValueError: If the series is too short for the batches, or its warm-up does not end in its
            first half, or `batches` is less than 2.
    """
    check_level(level)
    values = np.asarray(series, dtype=np.float64)
    if batches < 2:
        raise ValueError(f"invalid value `{batches}` for `batches`: expected 2 or more")
    if cut is None:
        cut = warm_up(values)
        if cut is None:
            raise ValueError("the warm-up does not end in the first half of the series; run longer")
    rest = values[cut:]
    batch = rest.size // (batches * FINER) * FINER
    if batch == 0:
        raise ValueError(
            f"{rest.size} values after the warm-up: expected {batches * FINER} or more for "
            f"{batches} batches"
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
    """Returns the correlation of successive values; 0 if all are equal."""
    away = values - values.mean()
    squares = float(away @ away)
    # Its expectation is -1/n for independent values.
    return float(away[1:] @ away[:-1]) / squares + 1.0 / values.size if squares > 0.0 else 0.0
