"""Correction of p-values for multiple comparisons.

Among 20 true null hypotheses, one is rejected by chance at 5 %. A corrected p-value is compared
with the family-wise level: the probability of one or more false positives is at most this level,
for any dependence of the comparisons (Holm, Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lasthop.evaluating.statistics.estimates import Floats

__all__ = ["bonferroni", "holm"]


def bonferroni(p_values: ArrayLike) -> Floats:
    """Returns Bonferroni's correction: p-values times their number, at most 1; NaN counts.

    Args:
        p_values: Shape (comparisons,).
    """
    raw = np.asarray(p_values, dtype=np.float64)
    return np.minimum(raw * raw.size, 1.0)


def holm(p_values: ArrayLike) -> Floats:
    """Returns Holm's step-down correction, which is at least as powerful as Bonferroni's.

    The smallest of m p-values is multiplied by m, the next one by m - 1, and so on; the results are
    monotonic and at most 1. A comparison without p-value (NaN) counts as the largest.

    Args:
        p_values: Shape (comparisons,).
    """
    raw = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(raw, kind="stable")  # NaN last
    steps = np.arange(raw.size, 0, -1, dtype=np.float64)
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(np.maximum.accumulate(raw[order] * steps), 1.0)
    corrected[np.isnan(raw)] = np.nan
    return corrected
