"""Many comparisons at once: p-values that hold for the family of them.

Among twenty true null hypotheses one is rejected by chance at 5 %. A corrected p-value is compared
with the level of the whole family: the chance of one or more false rejections stays below it,
however the comparisons depend on each other (Holm, Scandinavian Journal of Statistics 6, 1979).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from lasthop.evaluating.statistics.means import Floats

__all__ = ["bonferroni", "holm"]


def bonferroni(p_values: ArrayLike) -> Floats:
    """p-values times their number, at most 1; NaN stays NaN, and counts.

    Args:
        p_values: Shape (comparisons,).
    """
    raw = np.asarray(p_values, dtype=np.float64)
    return np.minimum(raw * raw.size, 1.0)


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down correction: never less powerful than Bonferroni's.

    The smallest of m is multiplied by m, the next one by m - 1, and so on; none is smaller than the
    one before it, and none is above 1. A comparison without p-value (NaN) counts as the largest, so
    that the others do not gain by it.

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
