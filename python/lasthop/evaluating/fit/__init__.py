"""Fitting of error models to measured losses: model, parameters, goodness of fit.

    fit = lasthop.fit.fit("losses.txt")
    fit.errors          # the line of a scenario
    fit.warnings        # limitations of the estimate

`records` defines records of losses, `readers`, `wifi` and `rates` read them; `series` reads rates
and delays over time, `processes` fits them; `models/` has one file
per model, `estimate` estimates parameters, `checks` tests the fit, `fitting` combines these.
"""

from lasthop.evaluating.fit.checks import Check
from lasthop.evaluating.fit.estimate import Estimate, Fitted
from lasthop.evaluating.fit.fitting import Fit, fit
from lasthop.evaluating.fit.processes import Process, Processes, fit_process
from lasthop.evaluating.fit.rates import Rates, read_rates
from lasthop.evaluating.fit.readers import read
from lasthop.evaluating.fit.records import FitError, Record
from lasthop.evaluating.fit.series import Series, read_delays, read_rate_series

__all__ = [
    "Check",
    "Estimate",
    "Fit",
    "FitError",
    "Fitted",
    "Process",
    "Processes",
    "Rates",
    "Record",
    "Series",
    "fit",
    "fit_process",
    "read",
    "read_delays",
    "read_rate_series",
    "read_rates",
]
