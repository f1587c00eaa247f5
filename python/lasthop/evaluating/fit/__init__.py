"""Error processes from measured losses: which one, with which parameters, and whether it fits.

    fit = lasthop.fit.fit("losses.txt")
    fit.errors          # the line of a scenario
    fit.warnings        # what to know before using it

`records` is what was measured, `readers`, `wifi` and `rates` read it; `models/` has one file a
model, `estimate` finds its parameters, `checks` tests it, `fitting` puts this together.
"""

from lasthop.evaluating.fit.checks import Check
from lasthop.evaluating.fit.estimate import Estimate, Fitted
from lasthop.evaluating.fit.fitting import Fit, fit
from lasthop.evaluating.fit.rates import Rates, read_rates
from lasthop.evaluating.fit.readers import read
from lasthop.evaluating.fit.records import FitError, Record

__all__ = [
    "Check",
    "Estimate",
    "Fit",
    "FitError",
    "Fitted",
    "Rates",
    "Record",
    "fit",
    "read",
    "read_rates",
]
