"""Sequential sampling up to a target half-width, corrected for the interim analyses.

Interim analyses take place at fixed numbers of replications, each 1.5 times the previous one. For n
replications with mean m and standard deviation s, the interval is

    m ± t(0.975, n - 1) s / sqrt(n - 3).

Sampling stops at the first interim analysis at which the half-width is at most the target. For
narrow targets, the coverage of this rule approaches the nominal one for any distribution with
finite variance (Chow and Robbins, Annals of Mathematical Statistics 36, 1965; relative half-widths:
Nádas, same journal 40, 1969). For wide targets it would be up to about 1 % lower, because a sample
with a small standard deviation by chance stops early. For normal samples, standard deviation and
mean are independent, so that the coverage at the stop is E[2 Φ(h sqrt(N) / σ) - 1] over the
stopping number N and half-width h; n - 3 instead of n restores 95 % for every ratio of σ to the
target (`tests/test_statistics_coverage.py` computes it). Skewed samples must also satisfy Cochran's
rule, n >= 25 skewness^2, so that the normal approximation is accurate enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.evaluating.statistics.means import (
    COCHRAN,
    CONFIDENCE,
    Interval,
    check_level,
    finite,
    half_width,
    interval,
    skewness,
)

if TYPE_CHECKING:
    from lasthop.evaluating.statistics.estimates import Floats

__all__ = ["FIRST", "LEAST", "MOST", "InterimResult", "SequentialPlan"]

FIRST = 20
"""Default number of replications before the first interim analysis."""  # prose: ignore

LEAST = 10
"""Minimum replications before the initial analysis, for a usable standard deviation."""

MOST = 1000
"""Default replication limit."""

GROWTH = 1.5
PRICE = 3
"""Correction of n for the interim analyses."""


@dataclass(frozen=True, slots=True)
class InterimResult:
    """Result of an interim analysis.

    Attributes:
        more: Number of further replications to run; 0 to stop.
        interval: Mean, half-width (corrected for interim analyses) and number of samples.
        reached: Whether the target half-width is reached; `False` at a stop: limit reached.
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
    """Plan of replications up to a target half-width.

    ::

        plan = SequentialPlan(0.02)
        while not (look := plan.look(samples)).enough:
            samples += run(look.more)

    The plan has no state: results depend only on the samples, so that a stored run can be resumed.
    The coverage requires that all interim analyses are made and sampling stops at the first
    `enough`.

    Attributes:
        width: Target half-width: relative to the mean, or in the samples' unit.
        relative: Whether the half-width is relative.
        first: Replications before the initial analysis.
        most: Maximum number of replications.
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
            raise ValueError(f"invalid value `{self.width}` for `width`: expected above 0")
        if self.first < LEAST:
            raise ValueError(f"invalid value `{self.first}` for `first`: expected {LEAST} or more")
        if self.most < self.first:
            raise ValueError(
                f"invalid value `{self.most}` for `most`: expected {self.first} or more"
            )
        check_level(self.level)

    def looks(self) -> Iterator[int]:
        """Returns the numbers of replications at interim analyses; the last one is `most`."""
        n = self.first
        while n < self.most:
            yield n
            n = math.ceil(n * GROWTH)
        yield self.most

    def look(self, samples: Sequence[float] | Floats) -> InterimResult:
        """Returns the result of an interim analysis.

        Args:
            samples: One number per replication, in order; NaN counts towards the schedule, but is
                otherwise ignored.
        """
        n = len(samples)
        due = next((at for at in self.looks() if at >= n), self.most)
        found = self._interval(samples)
        if n < due:
            return InterimResult(due - n, found, reached=False)
        wanted = self.width * abs(found.mean) if self.relative else self.width
        is_normal = found.n >= COCHRAN * skewness(samples) ** 2
        reached = found.n >= min(LEAST, n) and found.ci95 <= wanted and is_normal
        if reached or n >= self.most:
            return InterimResult(0, found, reached)
        return InterimResult(next(at for at in self.looks() if at > n) - n, found, reached=False)

    def _interval(self, samples: Sequence[float] | Floats) -> Interval:
        plain = interval(samples)
        n = len(finite(samples))
        if n <= PRICE:
            return Interval(plain.mean, math.nan, n)
        dearer = math.sqrt(n / (n - PRICE))
        return Interval(plain.mean, half_width(samples, self.level) * dearer, n)
