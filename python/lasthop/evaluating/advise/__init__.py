"""Advice: which link protocol, with which parameters, serves a link and its traffic best.

`wants` reads what is wanted, `space` says what may be tried, `race` runs it by the `intervals`,
`search` looks between the values of the race, `reasons` says in words what comes of it, `traffic`
has common mixes.
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
