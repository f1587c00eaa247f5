"""Confidence intervals; `docs/statistics.md` explains the methods.

* `means`: means with their intervals; Student-t intervals.
* `estimates`: paired differences, the delta method.
* `resampling`: quantiles, ratios and functions of means; the percentile-t bootstrap.
* `sequential`: number of replications for a target half-width.
* `series`: warm-up and batch means of one long run.
* `multiple`: correction for multiple comparisons.
* `student`: Student's t distribution.

Names are imported when they are first used: `means`, `sequential` and `student` need no NumPy.
"""

from lasthop import late

TYPE_CHECKING = False  # that of `typing`, whose import takes a while
if TYPE_CHECKING:
    from lasthop.evaluating.statistics.estimates import Difference, Estimate, Floats, difference
    from lasthop.evaluating.statistics.means import (
        CONFIDENCE,
        Confidence,
        Interval,
        confidence,
        half_width,
        interval,
        mean_interval,
        skewness,
    )
    from lasthop.evaluating.statistics.multiple import bonferroni, holm
    from lasthop.evaluating.statistics.resampling import function_of_means, jain_index, ratio
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

__getattr__ = late.names_of(
    __name__,
    {
        "estimates": ("Difference", "Estimate", "Floats", "difference"),
        "means": (
            "CONFIDENCE",
            "Confidence",
            "Interval",
            "confidence",
            "half_width",
            "interval",
            "mean_interval",
            "skewness",
        ),
        "multiple": ("bonferroni", "holm"),
        "resampling": ("function_of_means", "jain_index", "ratio"),
        "sequential": ("InterimResult", "SequentialPlan"),
        "series": ("BatchMeans", "batch_means", "step_averages", "totals", "warm_up"),
    },
)
