"""Means and their intervals over replications, without NumPy.

Every sample is one number per replication. `mean_interval` selects the method of the interval:

* mean ± t (Student's t);
* for skewed samples the percentile-t bootstrap, in `resampling`;
* **Hall's transformation** where resampling fails: if nearly all samples are equal and a few are
  far away, many resamples have almost no spread, and the quotients are unbounded. The t interval is
  instead corrected for the skewness of the samples, with equally good coverage and at most 2.5
  times the length (Hall, J. Royal Statistical Society B 54, 1992).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lasthop.evaluating.statistics.student import t_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "BOOTSTRAP",
    "COCHRAN",
    "CONFIDENCE",
    "ORDER",
    "TRANSFORMED",
    "Confidence",
    "Interval",
    "T",
    "check_level",
    "clipped",
    "confidence",
    "finite",
    "half_width",
    "interval",
    "mean_interval",
    "skewness",
    "transformed",
]

CONFIDENCE = 0.95

LEAST = 10
"""Minimum replications for enough different resamples."""

LEAST_SKEWED = 5
"""Minimum replications for an estimate of the skewness."""

MOST = 5000
"""Maximum replications for resampling; above, the central limit theorem is used."""

COCHRAN = 25.0
"""Minimum samples per squared skewness for mean ± t (Cochran, Sampling Techniques)."""

T, TRANSFORMED, BOOTSTRAP, ORDER = (
    "t",
    "t, corrected for skewness",
    "percentile-t bootstrap",
    "order statistics",
)
"""Methods of intervals."""


def clipped(
    value: float, low: float, high: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Clips the ends of an interval to bounds of the quantity: counts are not negative.

    Args:
        value: The estimate; if it is outside the bounds, they are ignored.
        low: Lower end; NaN if unknown.
        high: Upper end; NaN if unknown.
        bounds: Minimum and maximum possible value.
    """
    least, most = bounds
    if not least <= value <= most:
        return low, high
    # In this order NaN stays NaN.
    return max(low, least), min(high, most)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval.

    Attributes:
        mean: Sample mean; NaN without samples.
        ci95: Half the length of the 95 % confidence interval in the sample's unit, before clipping;
            NaN if `n` < 2.
        n: Number of samples that were not NaN.
        low: Lower end of the interval; by default `ci95` below the mean.
        high: Upper end; by default `ci95` above the mean.
        method: Method of the interval, as in `Confidence`; empty without interval.
    """

    mean: float
    ci95: float
    n: int
    low: float = math.nan
    high: float = math.nan
    method: str = "t"

    def __post_init__(self) -> None:
        if math.isnan(self.ci95):
            object.__setattr__(self, "method", "")
        elif math.isnan(self.low):
            object.__setattr__(self, "low", self.mean - self.ci95)
            object.__setattr__(self, "high", self.mean + self.ci95)

    def within(self, bounds: tuple[float, float]) -> Interval:
        """Returns a copy clipped to bounds; see `clipped`."""
        low, high = clipped(self.mean, self.low, self.high, bounds)
        return replace(self, low=low, high=high)


def check_level(level: float) -> None:
    """Checks a confidence level.

    Raises:
        ValueError: If `level` is not between 0 and 1.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"invalid value `{level}` for `level`: expected above 0 and below 1")


def finite(samples: ArrayLike) -> list[float]:
    """Returns the samples that are not NaN, in one dimension."""
    if not isinstance(samples, (list, tuple)) or any(isinstance(one, Sequence) for one in samples):
        import numpy as np  # late: a list needs none

        samples = np.asarray(samples, dtype=np.float64).ravel().tolist()
    return [float(one) for one in samples if not math.isnan(one)]


def _sum(values: Sequence[float]) -> float:
    """Returns the sum of numbers, added in NumPy's order: to the last bit the sum of the array."""
    n = len(values)
    if n < 8:
        total = 0.0
        for one in values:  # `sum` compensates rounding errors from Python 3.12 on
            total += one
        return total
    if n <= 128:
        a, b, c, d, e, f, g, h = values[:8]
        end = n - n % 8
        for at in range(8, end, 8):
            a += values[at]
            b += values[at + 1]
            c += values[at + 2]
            d += values[at + 3]
            e += values[at + 4]
            f += values[at + 5]
            g += values[at + 6]
            h += values[at + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
        for rest in values[end:]:
            total += rest
        return total
    half = n // 2 - n // 2 % 8
    return _sum(values[:half]) + _sum(values[half:])


def _mean(values: Sequence[float]) -> float:
    return _sum(values) / len(values)


def _are_equal(values: Sequence[float]) -> bool:
    return min(values) == max(values)


def _deviation(values: Sequence[float]) -> float:
    """Returns the standard deviation of two or more numbers (divisor n - 1)."""
    # Scaled, so that squares of very large or very small samples neither overflow nor vanish.
    scale = max(map(abs, values))
    scaled = [one / scale for one in values]
    mean = _mean(scaled)
    variance = _sum([(one - mean) * (one - mean) for one in scaled]) / (len(values) - 1)
    return math.sqrt(variance) * scale


def half_width(samples: ArrayLike, level: float = CONFIDENCE) -> float:
    """Returns the half-width of the Student-t interval of the mean.

    Args:
        samples: Any shape; NaN is ignored.
        level: Confidence, above 0 and below 1.

    Returns:
        The half-width in the samples' unit: NaN for fewer than 2 samples, 0 for equal samples.

    Raises:
        ValueError: If `level` is not between 0 and 1.
    """
    check_level(level)
    values = finite(samples)
    n = len(values)
    if n < 2:
        return math.nan
    if _are_equal(values):
        return 0.0
    return t_quantile(0.5 + level / 2.0, n - 1) * _deviation(values) / math.sqrt(n)


def interval(samples: ArrayLike) -> Interval:
    """Returns mean and 95 % Student-t interval of samples of any shape; NaN is ignored."""
    values = finite(samples)
    if not values:
        return Interval(math.nan, math.nan, 0)
    mean = values[0] if _are_equal(values) else _mean(values)
    return Interval(mean, half_width(values), len(values))


@dataclass(frozen=True, slots=True)
class Confidence:
    """An estimate with its interval, which may be asymmetric.

    Attributes:
        value: The estimate; NaN if undefined.
        low: Lower end of the interval; NaN if unknown.
        high: Upper end; NaN if unknown.
        n: Number of replications.
        method: `t`, `t, corrected for skewness`, `percentile-t bootstrap` or `order statistics`;
            empty without interval.
    """

    value: float
    low: float
    high: float
    n: int
    method: str

    def within(self, bounds: tuple[float, float]) -> Confidence:
        """Returns a copy clipped to bounds; see `means.clipped`."""
        low, high = clipped(self.value, self.low, self.high, bounds)
        return replace(self, low=low, high=high)


def skewness(samples: ArrayLike) -> float:
    """Returns the skewness; 0 for equal samples."""
    values = finite(samples)
    if len(values) < 3 or _are_equal(values):
        return 0.0
    mean = _mean(values)
    centred = [one - mean for one in values]
    scale = max(map(abs, centred))
    centred = [one / scale for one in centred]
    return _mean([one**3 for one in centred]) / math.pow(_mean([one * one for one in centred]), 1.5)


def confidence(
    samples: ArrayLike,
    statistic: str = "mean",
    *,
    method: str = "auto",
    level: float = CONFIDENCE,
) -> Confidence:
    """Estimates the mean or a quantile over replications, with a suitable interval.

    For a mean, `auto` uses mean ± t with at least 25 samples per squared skewness (Cochran's rule).
    Otherwise it uses the percentile-t bootstrap with at least 10 samples that are not nearly all
    equal; otherwise Hall's correction of t for skewness with at least 5 samples.

    Args:
        samples: One number per replication; NaN is ignored.
        statistic: `mean`, `median`, or a percentile such as `p95`.
        method: `auto`, `t` or `bootstrap`; quantiles always use order statistics.
        level: Confidence, above 0 and below 1.

    Raises:
        ValueError: If an argument is invalid.
    """
    check_level(level)
    if method not in ("auto", "t", "bootstrap"):
        raise ValueError(f"invalid value `{method}` for `method`: expected auto, t, bootstrap")
    values = finite(samples)
    if statistic != "mean":
        from lasthop.evaluating.statistics.resampling import quantile  # late: imports NumPy

        return quantile(values, statistic, level)
    n = len(values)
    if n < 2:
        return Confidence(values[0] if n else math.nan, math.nan, math.nan, n, "")
    if _are_equal(values):
        return Confidence(values[0], values[0], values[0], n, T)
    mean = _mean(values)
    is_skewed = n < COCHRAN * skewness(values) ** 2
    if method == "bootstrap" or (method == "auto" and is_skewed):
        if LEAST <= n <= MOST:
            from lasthop.evaluating.statistics.resampling import resampled_mean

            return resampled_mean(values, level)
        if n >= LEAST_SKEWED:
            return transformed(mean, [one - mean for one in values], level)
    width = half_width(values, level)
    return Confidence(mean, mean - width, mean + width, n, T)


def mean_interval(samples: ArrayLike) -> Interval:
    """Returns the mean with the interval that is used in tables, figures and files.

    `confidence` selects the method: mean ± t, or for skewed samples the percentile-t bootstrap or t
    corrected for skewness, which extend further towards the long tail.

    Args:
        samples: One number per replication; NaN is ignored.
    """
    found = confidence(samples)
    half = (found.high - found.low) / 2.0
    return Interval(found.value, half, found.n, found.low, found.high, found.method)


def transformed(value: float, errors: Sequence[float], level: float) -> Confidence:
    """Returns Hall's interval: a t interval of a cubic transformation that removes skewness.

    Args:
        value: The estimate.
        errors: Contribution of each sample, times their number; for a mean, its deviation.
        level: Confidence.
    """
    n = len(errors)
    skew, deviation = skewness(errors), _deviation(errors)

    def end(probability: float) -> float:
        away = t_quantile(probability, n - 1) / math.sqrt(n)
        if abs(skew) > 1e-6:
            away = 3.0 / skew * (math.cbrt(1.0 + skew * away - skew**2 / (6.0 * n)) - 1.0)
        return value - deviation * away

    tail = (1.0 - level) / 2.0
    return Confidence(value, end(1.0 - tail), end(tail), n, TRANSFORMED)
