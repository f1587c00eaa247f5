"""Results against theory: where a closed form applies, what it says beside what was simulated.

`network` is what rules see of a scenario; `rules` say where which formula of `lasthop.analysis`
applies, with `segments` (links that cut packets up) and `tcp`; `comparison` puts predictions
beside results.
"""

from lasthop.evaluating.theory.comparison import (
    Comparison,
    compare,
    compare_theory,
    frame,
    nothing_applies,
    to_dict,
)

__all__ = ["Comparison", "compare", "compare_theory", "frame", "nothing_applies", "to_dict"]
