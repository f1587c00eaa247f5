"""Advice: selection of the best link protocol and parameters for a link and its traffic.

`wants` parses the objectives, `space` defines the candidates, `race` compares them by the
`intervals`, `search` optimises parameters, `reasons` explains the result, `traffic` has common
traffic mixes.
"""

from lasthop.evaluating.advise.advice import Advice, Options, Standing
from lasthop.evaluating.advise.advising import advise
from lasthop.evaluating.advise.traffic import with_traffic
from lasthop.evaluating.advise.wants import Constraint, Objective, Wants

__all__ = [
    "Advice",
    "Constraint",
    "Objective",
    "Options",
    "Standing",
    "Wants",
    "advise",
    "with_traffic",
]
