"""Intervals for skewed samples, quantiles, ratios and functions of means.

* **Percentile-t (studentised) bootstrap** for means of skewed samples, ratios of means and other
  smooth functions of means: replications are resampled with replacement, and the distribution of
  (estimate* - estimate) / standard error* replaces Student's t. The coverage error is of order 1/n
  on either side, compared with 1/sqrt(n) for mean ± t (Hall, Annals of Statistics 16, 1988).
  Standard errors are computed by the delta method.
* **Order statistics** for quantiles over replications: the number of samples below a quantile is
  binomial for any distribution, so the interval has at least nominal coverage.

The resamples are a fixed function of the number of replications: equal samples give equal
intervals.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from lasthop.evaluating.statistics.estimates import Floats
from lasthop.evaluating.statistics.means import (
    BOOTSTRAP,
    CONFIDENCE,
    LEAST,
    ORDER,
    Confidence,
    T,
    check_level,
    half_width,
    transformed,
)

__all__ = ["function_of_means", "jain_index", "quantile", "ratio", "resampled_mean"]

RESAMPLES = 1999
"""Resamples of a bootstrap: 0.025 (RESAMPLES + 1) is an integer."""

SEED = 0x6C617374

LEAST_SPREAD = 0.1
"""Minimum spread of a resample, relative to the samples."""

Function = Callable[[Floats], Floats]


def _share(statistic: str) -> float:
    percent = re.fullmatch(r"p(\d{1,2}(?:\.\d+)?)", statistic)
    share = 0.5 if statistic == "median" else float(percent[1]) / 100.0 if percent else 0.0
    if not share > 0.0:
        raise ValueError(
            f"invalid value `{statistic}` for `statistic`: expected mean, median, p5, p95, p99.9"
        )
    return share


def quantile(samples: Sequence[float], statistic: str, level: float) -> Confidence:
    """Returns a quantile with the interval between two order statistics.

    Args:
        samples: Numbers without NaN.
        statistic: `median`, or a percentile such as `p95`.
        level: Confidence.

    Raises:
        ValueError: If `statistic` is invalid.
    """
    share = _share(statistic)
    from scipy import special  # late: takes 0.2 s

    values = np.asarray(samples, dtype=np.float64)
    n = values.size
    if n == 0:
        return Confidence(math.nan, math.nan, math.nan, 0, "")
    ordered = np.sort(values)
    tail = (1.0 - level) / 2.0
    # The number of samples below the quantile is binomial: x[l] to x[u] covers it unless fewer than
    # l or more than u are below it. Limits beyond the samples are unknown.
    distribution = special.bdtr(np.arange(n + 1.0), n, share)
    below, above = np.searchsorted(distribution, [tail, 1.0 - tail]).tolist()
    low = float(ordered[below - 1]) if below >= 1 else math.nan
    high = float(ordered[above]) if above < n else math.nan
    return Confidence(float(np.quantile(ordered, share)), low, high, n, ORDER)


def resampled_mean(samples: Sequence[float], level: float) -> Confidence:
    """Returns a mean with its percentile-t interval; arguments as for `quantile`."""
    values = np.asarray(samples, dtype=np.float64)[:, None]
    return function_of_means(values, lambda m: m[..., 0], lambda m: np.ones_like(m), level=level)


@functools.lru_cache(maxsize=4)
def _draws(n: int, resamples: int) -> Floats:
    """Returns shape (resamples, n): frequency of each replication in a resample, over n."""
    random = np.random.default_rng(SEED)
    return np.asarray(random.multinomial(n, np.full(n, 1.0 / n), size=resamples) / float(n))


def function_of_means(
    samples: ArrayLike,
    function: Function,
    gradient: Function,
    *,
    level: float = CONFIDENCE,
    symmetric: bool = False,
    resamples: int = RESAMPLES,
) -> Confidence:
    """Returns the percentile-t interval of a smooth function of means over replications.

    Args:
        samples: Shape (replications, quantities); replications with NaN are ignored.
        function: From means of shape (..., quantities) to values of shape (...).
        gradient: Its derivatives, shape as of the means.
        level: Confidence, above 0 and below 1.
        symmetric: Whether the interval is symmetric.
        resamples: Number of resamples.

    Returns:
        The estimate. If too many resamples have almost no spread, the interval is that of the delta
        method, corrected for skewness unless symmetric. Fewer than 10 replications give no interval
        (`method` is empty).
    """
    check_level(level)
    values = np.asarray(samples, dtype=np.float64)
    values = values[~np.isnan(values).any(axis=1)]
    n = len(values)
    if n == 0:
        return Confidence(math.nan, math.nan, math.nan, 0, "")
    value, low, high = (
        float(number[0])
        for number in percentile_t(
            values[None], function, gradient, level, resamples, symmetric=symmetric
        )
    )
    if n < LEAST:
        return Confidence(value, math.nan, math.nan, n, "")
    if math.isfinite(low) and math.isfinite(high):
        return Confidence(value, low, high, n, BOOTSTRAP)
    centre = values.mean(axis=0)
    errors = np.asarray((values - centre) @ gradient(centre))
    if not symmetric:
        return transformed(value, errors.tolist(), level)
    width = half_width(errors, level)
    return Confidence(value, value - width, value + width, n, T)


def percentile_t(
    samples: Floats,
    function: Function,
    gradient: Function,
    level: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    *,
    symmetric: bool = False,
) -> tuple[Floats, Floats, Floats]:
    """Returns percentile-t intervals of many studies.

    Args:
        samples: Shape (studies, replications, quantities), without NaN.
        function: As for `function_of_means`.
        gradient: As for `function_of_means`.
        level: As for `function_of_means`.
        resamples: As for `function_of_means`.
        symmetric: As for `function_of_means`.

    Returns:
        Estimates, lower and upper ends, each of shape (studies,); infinite if there is no end.
    """
    _, n, quantities = samples.shape
    weights = _draws(n, resamples)
    centre = samples.mean(axis=1, keepdims=True)
    # Scaled, so that squares neither overflow nor vanish.
    scale = np.abs(samples - centre).max(axis=1, keepdims=True)
    scale[scale == 0.0] = 1.0
    moved = (samples - centre) / scale
    drawn = weights @ moved
    pairs = np.stack(
        [moved[..., i] * moved[..., j] for i in range(quantities) for j in range(quantities)], -1
    )
    shape = (len(samples), -1, quantities, quantities)
    spread = (weights @ pairs).reshape(shape) - drawn[..., :, None] * drawn[..., None, :]
    own = pairs.mean(axis=1, keepdims=True).reshape(shape)

    def error(at: Floats, covariance: Floats) -> Floats:
        slope = gradient(at) * scale
        product = "...i,...ij,...j->..."
        variance = np.einsum(product, slope, covariance, slope)
        # A spread of the order of rounding errors is zero: both means are proportional.
        terms = np.einsum(product, np.abs(slope), np.abs(covariance), np.abs(slope))
        return np.asarray(np.sqrt(np.where(variance > 1e-12 * terms, variance, 0.0) / n))

    value, sigma = function(centre), error(centre, own)
    means = centre + drawn * scale
    errors = error(means, spread)
    # Effectively infinite.
    tiny = errors <= LEAST_SPREAD * sigma
    with np.errstate(divide="ignore", invalid="ignore"):
        away = (function(means) - value) / np.where(tiny, 0.0, errors)
    away = np.where(np.isnan(away), np.inf, away)
    tail = (1.0 - level) / 2.0
    rank = max(round(tail * (resamples + 1)), 1)
    ordered = np.sort(np.abs(away) if symmetric else away, axis=1)
    upper = ordered[:, -2 * rank] if symmetric else ordered[:, -rank]
    lower = -upper if symmetric else ordered[:, rank - 1]
    value, sigma = value[:, 0], sigma[:, 0]
    exact = sigma == 0.0
    upper, lower = np.where(exact, 0.0, upper), np.where(exact, 0.0, lower)
    return value, value - upper * sigma, value - lower * sigma


def _quotient(means: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(means[..., 0] / means[..., 1])


def _quotient_slope(means: Floats) -> Floats:
    above, below = means[..., 0], means[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.stack([1.0 / below, -above / below**2], axis=-1)


def ratio(numerator: ArrayLike, denominator: ArrayLike, *, level: float = CONFIDENCE) -> Confidence:
    """Returns the ratio of two means over the same replications, by the bootstrap of pairs.

    Examples are the gain of a protocol over another one with common random numbers, or the losses
    of all replications over the packets of all. It differs from a mean of ratios.

    Args:
        numerator: Shape (replications,).
        denominator: Same shape, same order of replications.
        level: Confidence.

    Returns:
        The ratio; without interval for fewer than 10 pairs.

    Raises:
        ValueError: If the shapes differ.
    """
    above = np.asarray(numerator, dtype=np.float64)
    below = np.asarray(denominator, dtype=np.float64)
    if above.shape != below.shape or above.ndim != 1:
        raise ValueError(
            f"invalid shapes {above.shape} and {below.shape} of `numerator` and `denominator`: "
            "expected one-dimensional samples of equal length"
        )
    pairs = np.stack([above, below], axis=-1)
    pairs = pairs[~np.isnan(pairs).any(axis=1)]
    if len(pairs) == 0 or not np.any(pairs[:, 1]):
        return Confidence(math.nan, math.nan, math.nan, len(pairs), "")
    return function_of_means(pairs, _quotient, _quotient_slope, level=level, symmetric=True)


def jain_index(rates: ArrayLike, axis: int = -1) -> Floats:
    """Returns Jain's fairness index (sum x)^2 / (k sum x^2) of k flows.

    The index is 1 for equal rates, 1/k if one flow has the whole rate, NaN if all rates are 0. It
    is one number per replication, with an interval as for other metrics (`confidence` detects its
    skewness near 1); it differs from the index of mean rates.

    Args:
        rates: Any shape, not negative; NaN (no such flow) is ignored.
        axis: Axis of the flows.
    """
    values = np.asarray(rates, dtype=np.float64)
    k = np.count_nonzero(~np.isnan(values), axis=axis)
    total, squares = np.nansum(values, axis=axis), np.nansum(values**2, axis=axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(total**2 / (k * squares))
