"""Lasthop: what does each way of recovering errors deliver over a lossy link?

    >>> import lasthop
    >>> scenario = lasthop.load("examples/sr-file-transfer.toml")   # doctest: +SKIP
    >>> results = lasthop.run(scenario, replications=30)              # doctest: +SKIP
    >>> results.summary()                                             # doctest: +SKIP

Units: times in seconds, rates in bit/s, sizes in bytes unless a column's name says otherwise.

Names are imported when they are first used: Polars and NumPy take a quarter of a second, and
`lasthop --help` needs neither.
"""

import importlib

TYPE_CHECKING = False  # that of `typing`, whose import takes a while
if TYPE_CHECKING:
    from lasthop._lasthop import AnalysisError, RunError, ScenarioError, __version__
    from lasthop.campaign import Campaign, CampaignError
    from lasthop.fairness import Convergence, convergence
    from lasthop.figures import PlotError, plot
    from lasthop.metric import metrics
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
    "Convergence",
    "PlotError",
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Trace",
    "__version__",
    "capture",
    "compare_theory",
    "convergence",
    "load",
    "metrics",
    "plot",
    "run",
    "schema",
    "steady_state",
    "sweep",
    "trace",
]

_HOMES = {
    "_lasthop": ("AnalysisError", "RunError", "ScenarioError", "__version__"),
    "campaign": ("Campaign", "CampaignError"),
    "fairness": ("Convergence", "convergence"),
    "figures": ("PlotError", "plot"),
    "metric": ("metrics",),
    "results": ("Results",),
    "running": ("run", "sweep"),
    "scenario": ("Scenario", "load", "schema"),
    "steady": ("steady_state",),
    "theory": ("compare_theory",),
    "tracing": ("Trace", "capture", "trace"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
# Modules that are used as attributes: `lasthop.analysis.arq(...)`.
_MODULES = ("advise", "analysis", "cluster", "fit", "statistics", "studies", "theory")


def __getattr__(name: str) -> object:
    if name in _HOME:
        value = getattr(importlib.import_module(f"lasthop.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"lasthop.{name}")
    raise AttributeError(f"module 'lasthop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
