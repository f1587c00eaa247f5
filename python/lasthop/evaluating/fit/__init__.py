"""Fitting of error models to measured losses: model, parameters, goodness of fit.

    fit = lasthop.fit.fit("losses.txt")
    fit.errors          # the line of a scenario
    fit.warnings        # limitations of the estimate

`records` defines records of losses, `readers`, `wifi` and `rates` read them; `models/` has one file
per model, `estimate` estimates parameters, `checks` tests the fit, `fitting` combines these.
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
