"""Intervals that hold however often one looks, and what they decide.

Candidates meet the same random streams, so they are compared pair by pair, replication by
replication. Of n paired differences with mean d and deviation s the asymptotic confidence sequence
is d ± z s / √n with

    z = √( 2 (n ρ² + 1) / (n ρ²) · ln( √(n ρ² + 1) / α ) )

for normal samples of known deviation it holds the truth at every n at once with a probability of
1 − α (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, *Annals of Statistics* 52, 2024; ρ makes it
narrowest at 100 replications). Two corrections are ours, for few replications and skewed samples:
the quantile of Student's t with n − 1 degrees of freedom at the level of z stands for z, and each
end is moved outwards to that of Hall's correction for skewness (docs/statistics.md). At 5 %
exponential samples then miss in 1 %, log-normal ones (σ = 1) in 3 % of sequences from 12 on, and
without them in 5 and 11 %. Samples that are all the same have no interval before 30: what happens
in fewer than a tenth of the replications may not have been seen.

α is 5 % for all comparisons of a race together: half of it for constraints, half for pairs
(Bonferroni).
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
    """A mean and where it is, at any time."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of its length."""
        return 0.5 * (self.high - self.low)


def confidence_sequence(samples: NDArray[np.float64], alpha: float) -> Interval:
    """The interval of the mean of samples, valid at every number of them at once.

    Args:
        samples: Independent; at least 8 for an interval with ends, 30 if all are the same.
        alpha: Chance that it ever misses.
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
