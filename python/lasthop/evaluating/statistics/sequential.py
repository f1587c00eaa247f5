"""How many replications are enough: until an interval is narrow, valid although it was looked at.

Looks happen at fixed numbers of replications, each half as many again as the one before. At a look
with n replications of mean m and deviation s the interval is

    m ± t(0.975, n - 1) s / sqrt(n - 3),

and it is enough at the first look where its half-width is at most the one asked for. As it becomes
narrow, the coverage of such a rule goes to the nominal one for any distribution with finite
variance (Chow and Robbins, Annals of Mathematical Statistics 36, 1965; half-widths relative to the
mean: Nádas, same journal 40, 1969). Before that it falls a little short, by about 1 % at worst,
because a sample whose deviation is small by chance stops early. For normal samples deviation and
mean are independent, so that the coverage at the stop is E[2 Φ(h sqrt(N) / σ) - 1] over the
stopping number N and half-width h there; n - 3 in place of n restores 95 % for every ratio of σ to
the width asked for (`tests/test_statistics_coverage.py` computes it). Samples that are skewed must
also obey Cochran's rule, n >= 25 skewness^2, so that the normal law is near enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lasthop.evaluating.statistics.means import (
    CONFIDENCE,
    Interval,
    check_level,
    finite,
    half_width,
    interval,
)
from lasthop.evaluating.statistics.resampling import COCHRAN, skewness

__all__ = ["FIRST", "LEAST", "MOST", "Look", "SequentialPlan"]

FIRST = 20
"""Replications before the first look, if not told otherwise."""

LEAST = 10
"""Fewest replications before the first look: with fewer, deviations are too uncertain."""

MOST = 1000
"""Replications at most, if not told otherwise."""

GROWTH = 1.5
PRICE = 3
"""Replications that looking repeatedly costs."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look says.

    Attributes:
        more: How many more replications to run; 0 if it is time to stop.
        interval: Mean, half-width (corrected for repeated tests) and number of samples.
        reached: Whether it is as narrow as asked for. False at a stop: the cap came first.
    """

    more: int
    interval: Interval
    reached: bool

    @property
    def enough(self) -> bool:
        """Whether to stop."""
        return self.more == 0


@dataclass(frozen=True, slots=True)
class SequentialPlan:
    """Replications until an interval is narrow.

    ::

        plan = SequentialPlan(0.02)
        while not (look := plan.look(samples)).enough:
            samples += run(look.more)

    The plan has no state: what it says depends on the samples alone, so that a stored run can be
    continued. It is valid if looked at from the first look on and stopped at the first `enough`.

    Attributes:
        width: Half-width asked for: relative to the mean, or in the samples' unit.
        relative: Whether it is relative.
        first: Replications before the first look.
        most: Replications at which it stops in any case.
        level: Confidence.

    Raises:
        ValueError: If a number is out of range.
    """

    width: float
    relative: bool = True
    first: int = FIRST
    most: int = MOST
    level: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not (self.width > 0.0 and math.isfinite(self.width)):
            raise ValueError(f"width: found {self.width}; allowed: above 0")
        if self.first < LEAST:
            raise ValueError(f"first: found {self.first}; allowed: {LEAST} or more")
        if self.most < self.first:
            raise ValueError(f"most: found {self.most}; allowed: {self.first} or more")
        check_level(self.level)

    def looks(self) -> Iterator[int]:
        """The numbers of replications at which it looks, the last being `most`."""
        n = self.first
        while n < self.most:
            yield n
            n = math.ceil(n * GROWTH)
        yield self.most

    def look(self, samples: ArrayLike) -> Look:
        """Says whether these are enough.

        Args:
            samples: One number per replication, in order; those with NaN were run and count towards
                the schedule, but say nothing.
        """
        n = np.asarray(samples).size
        due = next((at for at in self.looks() if at >= n), self.most)
        found = self._interval(samples)
        if n < due:
            return Look(due - n, found, reached=False)
        wanted = self.width * abs(found.mean) if self.relative else self.width
        is_normal = found.n >= COCHRAN * skewness(samples) ** 2
        reached = found.n >= min(LEAST, n) and found.ci95 <= wanted and is_normal
        if reached or n >= self.most:
            return Look(0, found, reached)
        return Look(next(at for at in self.looks() if at > n) - n, found, reached=False)

    def _interval(self, samples: ArrayLike) -> Interval:
        plain = interval(samples)
        n = finite(samples).size
        if n <= PRICE:
            return Interval(plain.mean, math.nan, n)
        dearer = math.sqrt(n / (n - PRICE))
        return Interval(plain.mean, half_width(samples, self.level) * dearer, n)
