"""Confidence sequences: intervals that are valid at every number of replications.

Candidates have the same random streams, so they are compared by paired replications. For n paired
differences with mean d and standard deviation s, the asymptotic confidence sequence is
d ± z s / √n with

    z = √( 2 (n ρ² + 1) / (n ρ²) · ln( √(n ρ² + 1) / α ) )

For normal samples of known deviation, it covers the true mean simultaneously at every n with
probability 1 − α (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, *Annals of Statistics* 52, 2024; ρ
minimises the width at 100 replications). We add two corrections for few replications and skewed
samples: z is replaced by the quantile of Student's t with n − 1 degrees of freedom at the same
level, and each end is extended to Hall's correction for skewness (docs/statistics.md). At α = 5 %,
the fraction of sequences from n = 12 that miss the mean is 1 % for exponential and 3 % for
log-normal samples (σ = 1); without the corrections 5 % and 11 %. Constant samples have no interval
below n = 30, because events in less than 10 % of the replications may not have occurred yet.

α is 5 % for all comparisons of a race together: half for constraints, half for pairs (Bonferroni).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Interval", "confidence_sequence"]

NARROWEST = 100
LEAST, LEAST_EQUAL = 8, 30


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence sequence."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the length of the interval."""
        return 0.5 * (self.high - self.low)


def confidence_sequence(samples: NDArray[np.float64], alpha: float) -> Interval:
    """Returns the interval of the mean, simultaneously valid for every number of samples.

    Args:
        samples: Independent samples; a finite interval needs at least 8, or 30 equal ones.
        alpha: Probability that the sequence ever misses the mean.
    """
    from scipy.special import ndtr, stdtrit

    count = samples.size
    mean = float(samples.mean()) if count else math.nan
    deviation = float(samples.std(ddof=1)) if count > 1 else 0.0
    if count < LEAST or (deviation == 0.0 and count < LEAST_EQUAL):
        return Interval(mean, -math.inf, math.inf)
    if deviation == 0.0 or math.isnan(mean):
        return Interval(mean, mean, mean)
    tail = -2.0 * math.log(alpha)
    rho2 = (tail + math.log(tail + 1.0)) / NARROWEST
    scaled = count * rho2 + 1.0
    normal = math.sqrt(2.0 * scaled / (count * rho2) * math.log(math.sqrt(scaled) / alpha))
    away = -float(stdtrit(count - 1, ndtr(-normal))) / math.sqrt(count)
    skew = float(((samples - mean) ** 3).mean() / samples.std() ** 3)
    low, high = away, -away
    if abs(skew) > 1e-6:
        moved = (
            3.0
            / skew
            * (np.cbrt(1.0 + skew * np.array([away, -away]) - skew**2 / (6.0 * count)) - 1.0)
        )
        low, high = max(low, float(moved[0])), min(high, float(moved[1]))
    return Interval(mean, mean - deviation * low, mean - deviation * high)
