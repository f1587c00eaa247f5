"""Advice: which link protocol, with which parameters, serves a link and its traffic best.

`wants` reads what is wanted, `space` says what may be tried, `race` has the intervals, `search`
looks between the values of the race, `advising` puts this together, `traffic` has common mixes.
"""

from lasthop.advise.advising import Advice, Options, Standing, advise
from lasthop.advise.traffic import with_traffic
from lasthop.advise.wants import Constraint, Objective, Wants

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
