"""Advice: which link protocol, with which parameters, serves a link and its traffic best.

`wants` reads what is wanted, `space` says what may be tried, `race` runs it by the `intervals`,
`search` looks between the values of the race, `reasons` says in words what comes of it, `traffic`
has common mixes.
"""

from lasthop.advise.advice import Advice, Options, Standing
from lasthop.advise.advising import advise
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
