"""Confidence intervals; `docs/statistics.md` explains the methods.

* `means`: Student-t intervals, paired differences, the delta method.
* `resampling`: quantiles, ratios and functions of means; the percentile-t bootstrap.
* `sequential`: number of replications for a target half-width.
* `series`: warm-up and batch means of one long run.
* `multiple`: correction for multiple comparisons.
"""

from lasthop.evaluating.statistics.means import (
    CONFIDENCE,
    Difference,
    Estimate,
    Floats,
    Interval,
    difference,
    half_width,
    interval,
)
from lasthop.evaluating.statistics.multiple import bonferroni, holm
from lasthop.evaluating.statistics.resampling import (
    Confidence,
    confidence,
    function_of_means,
    jain_index,
    mean_interval,
    ratio,
    skewness,
)
from lasthop.evaluating.statistics.sequential import InterimResult, SequentialPlan
from lasthop.evaluating.statistics.series import (
    BatchMeans,
    batch_means,
    step_averages,
    totals,
    warm_up,
)

__all__ = [
    "CONFIDENCE",
    "BatchMeans",
    "Confidence",
    "Difference",
    "Estimate",
    "Floats",
    "InterimResult",
    "Interval",
    "SequentialPlan",
    "batch_means",
    "bonferroni",
    "confidence",
    "difference",
    "function_of_means",
    "half_width",
    "holm",
    "interval",
    "jain_index",
    "mean_interval",
    "ratio",
    "skewness",
    "step_averages",
    "totals",
    "warm_up",
]
