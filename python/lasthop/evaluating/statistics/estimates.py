"""Paired comparisons and functions of means over replications.

Replications with the same index share their random streams for all protocols (common random
numbers), so two settings are compared by paired replications: the interval of the *difference*
decides, not the overlap of two intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lasthop.evaluating.statistics.means import CONFIDENCE, half_width, interval
from lasthop.evaluating.statistics.student import t_quantile, t_tail

__all__ = ["Difference", "Estimate", "Floats", "difference"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired comparison of a sample with its baseline.

    Attributes:
        mean: Mean of sample minus baseline, in the sample's unit.
        ci95: Half-width of the 95 % confidence interval of that mean; NaN if `n` < 2.
        n: Number of pairs in which neither was NaN.
        p_value: Two-sided p-value of the paired t-test that the mean difference is zero; NaN if
            `n` < 2. If all differences are equal, it is 1 (all zero) or 0.
        ratio: Mean of the sample over mean of the baseline, over those pairs.
        ratio_ci95: Half-width of the 95 % confidence interval of `ratio` (delta method on pairs).
    """

    mean: float
    ci95: float
    n: int
    p_value: float
    ratio: float
    ratio_ci95: float


def difference(samples: ArrayLike, baseline: ArrayLike) -> Difference:
    """Compares two samples in pairs.

    Args:
        samples: Shape (replications,).
        baseline: Same shape, same order of replications.

    Raises:
        ValueError: If the shapes differ.
    """
    left = np.asarray(samples, dtype=np.float64)
    right = np.asarray(baseline, dtype=np.float64)
    if left.shape != right.shape or left.ndim != 1:
        raise ValueError(
            f"invalid shapes {left.shape} and {right.shape} of `samples` and `baseline`: "
            "expected one-dimensional samples of equal length"
        )
    paired = ~(np.isnan(left) | np.isnan(right))
    left, right = left[paired], right[paired]
    gaps = interval(left - right)
    if gaps.n < 2:
        p_value = math.nan
    elif gaps.ci95 == 0.0:
        p_value = 1.0 if gaps.mean == 0.0 else 0.0
    else:
        error = gaps.ci95 / t_quantile(0.5 + CONFIDENCE / 2.0, gaps.n - 1)
        p_value = 2.0 * t_tail(abs(gaps.mean) / error, gaps.n - 1)
    ratio = Estimate.of(left) / Estimate.of(right)
    ratio_ci95 = math.nan if math.isnan(ratio.value) else ratio.half_width()
    return Difference(gaps.mean, gaps.ci95, gaps.n, p_value, ratio.value, ratio_ci95)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A smooth function of means over replications, with the influences for its interval.

    `influence[i]` is the contribution of replication `i` to the estimate's deviation (first order):
    for a mean it is `x[i] - mean`, and sums, products and quotients follow the rules of
    differentiation (the delta method). Because replication `i` has the same random streams in all
    settings, the influences of two settings largely cancel in a difference or quotient; that is the
    paired comparison. For a plain difference the result is exactly the paired t interval.

    Attributes:
        value: The estimate.
        influence: Shape (replications,); NaN where a replication is missing. Empty for a constant.
    """

    value: float
    influence: Floats

    @classmethod
    def of(cls, samples: ArrayLike) -> Estimate:
        """Returns the mean of samples of shape (replications,); NaN: missing replication."""
        values = np.asarray(samples, dtype=np.float64)
        mean = interval(values).mean
        return cls(mean, values - mean)

    @classmethod
    def constant(cls, value: float) -> Estimate:
        """Returns an exact number."""
        return cls(float(value), np.empty(0, dtype=np.float64))

    @property
    def is_constant(self) -> bool:
        """Whether the value is exact."""
        return self.influence.size == 0

    @property
    def n(self) -> int:
        """Number of replications."""
        return int(np.count_nonzero(~np.isnan(self.influence)))

    def half_width(self, level: float = CONFIDENCE) -> float:
        """Half-width of the interval: 0 for a constant, NaN for fewer than 2 replications."""
        if self.is_constant:
            return 0.0
        return half_width(self.influence, level) if math.isfinite(self.value) else math.nan

    def p_value(self) -> float:
        """Two-sided p-value of the t-test against zero; NaN for fewer than 2 replications."""
        width = self.half_width()
        if math.isnan(width):
            return math.nan
        if width == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        error = width / t_quantile(0.5 + CONFIDENCE / 2.0, self.n - 1)
        return 2.0 * t_tail(abs(self.value) / error, self.n - 1)

    def _combine(self, other: Estimate, value: float, own: float, others: float) -> Estimate:
        if self.is_constant and other.is_constant:
            return Estimate.constant(value)
        zero = np.zeros(max(self.influence.size, other.influence.size))
        left = zero if self.is_constant else self.influence
        right = zero if other.is_constant else other.influence
        if left.shape != right.shape:
            raise ValueError(
                f"estimates over {left.size} and {right.size} replications cannot be paired"
            )
        return Estimate(value, own * left + others * right)

    def __add__(self, other: Estimate) -> Estimate:
        return self._combine(other, self.value + other.value, 1.0, 1.0)

    def __sub__(self, other: Estimate) -> Estimate:
        return self._combine(other, self.value - other.value, 1.0, -1.0)

    def __mul__(self, other: Estimate) -> Estimate:
        return self._combine(other, self.value * other.value, other.value, self.value)

    def __truediv__(self, other: Estimate) -> Estimate:
        if other.value == 0.0:
            return self._combine(other, math.nan, math.nan, math.nan)
        quotient, inverse = self.value / other.value, 1.0 / other.value
        if not math.isfinite(quotient * inverse):
            # Missing, or a divisor too close to zero for a meaningful ratio.
            return self._combine(other, math.nan, math.nan, math.nan)
        return self._combine(other, quotient, inverse, -quotient * inverse)

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, -self.influence)
