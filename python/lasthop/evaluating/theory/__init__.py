"""Comparison of results with theory, where a closed form applies.

`network` presents a resolved scenario to the rules; `rules` determine which formula of
`lasthop.analysis` applies, with `segments` (links that segment packets) and `tcp`; `comparison`
compares predictions with results.
"""

from lasthop import late

TYPE_CHECKING = False  # that of `typing`, whose import takes a while
if TYPE_CHECKING:
    from lasthop.evaluating.theory.comparison import (
        Comparison,
        compare,
        compare_theory,
        frame,
        nothing_applies,
        to_dict,
    )

__all__ = ["Comparison", "compare", "compare_theory", "frame", "nothing_applies", "to_dict"]

__getattr__ = late.names_of(__name__, {"comparison": tuple(__all__)})
