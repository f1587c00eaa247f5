"""Lasthop: what does each way of recovering errors deliver over a lossy link?

    >>> import lasthop
    >>> scenario = lasthop.load("examples/sr-file-transfer.toml")   # doctest: +SKIP
    >>> results = lasthop.run(scenario, replications=30)              # doctest: +SKIP
    >>> results.summary()                                             # doctest: +SKIP

Units: times in seconds, rates in bit/s, sizes in bytes unless a column's name says otherwise.
"""

from lasthop._lasthop import AnalysisError, RunError, ScenarioError, __version__
from lasthop.campaign import Campaign, CampaignError
from lasthop.figures import PlotError, plot
from lasthop.results import Results
from lasthop.running import run, sweep
from lasthop.scenario import Scenario, load, schema
from lasthop.steady import steady_state
from lasthop.theory import compare_theory
from lasthop.tracing import Trace, capture, trace

__all__ = [
    "AnalysisError",
    "Campaign",
    "CampaignError",
    "PlotError",
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Trace",
    "__version__",
    "capture",
    "compare_theory",
    "load",
    "plot",
    "run",
    "schema",
    "steady_state",
    "sweep",
    "trace",
]
