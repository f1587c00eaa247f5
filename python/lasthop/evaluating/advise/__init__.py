"""Advice: selection of the best link protocol and parameters for a link and its traffic.

`objectives` parses the objectives, `space` defines the candidates, `race` compares them by the
`intervals`, `search` optimises parameters, `reasons` explains the result, `traffic` has common
traffic mixes.
"""

from lasthop.evaluating.advise.advice import Advice, Options, Standing
from lasthop.evaluating.advise.advising import advise
from lasthop.evaluating.advise.objectives import Constraint, Objective, Objectives
from lasthop.evaluating.advise.traffic import with_traffic

__all__ = [
    "Advice",
    "Constraint",
    "Objective",
    "Objectives",
    "Options",
    "Standing",
    "advise",
    "with_traffic",
]
