"""Lasthop: what does each way of recovering errors deliver over a lossy link?

    >>> import lasthop
    >>> scenario = lasthop.load("examples/sr-file-transfer.toml")   # doctest: +SKIP
    >>> results = lasthop.run(scenario, replications=30)              # doctest: +SKIP
    >>> results.summary()                                             # doctest: +SKIP

Units: times in seconds, rates in bit/s and sizes in bytes, except where the name of a column ends
in another unit.

Names are imported when they are first used: Polars and NumPy take a quarter of a second, and
`lasthop --help` needs neither.
"""

import importlib

TYPE_CHECKING = False  # that of `typing`, whose import takes a while
if TYPE_CHECKING:
    from lasthop._lasthop import AnalysisError, RunError, ScenarioError, __version__
    from lasthop.evaluating import advise, analysis, fit, statistics, theory
    from lasthop.evaluating.fairness import Convergence, convergence
    from lasthop.evaluating.metric import metrics
    from lasthop.evaluating.results import Results
    from lasthop.evaluating.theory import compare_theory
    from lasthop.running import cluster
    from lasthop.running.algorithms import (
        Ack,
        CongestionControl,
        Delivery,
        Signal,
        allow_code,
        cbrt,
    )
    from lasthop.running.campaign import Campaign, CampaignError
    from lasthop.running.replications import run, sweep
    from lasthop.running.steady import steady_state
    from lasthop.running.tracing import Trace, capture, trace
    from lasthop.scenarios.scenario import Scenario, load, schema
    from lasthop.showing.figures import PlotError, plot

__all__ = [
    "Ack",
    "AnalysisError",
    "Campaign",
    "CampaignError",
    "CongestionControl",
    "Convergence",
    "Delivery",
    "PlotError",
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Signal",
    "Trace",
    "__version__",
    "advise",
    "allow_code",
    "analysis",
    "capture",
    "cbrt",
    "cluster",
    "compare_theory",
    "convergence",
    "fit",
    "load",
    "metrics",
    "plot",
    "run",
    "schema",
    "statistics",
    "steady_state",
    "sweep",
    "theory",
    "trace",
]

_HOMES = {
    "_lasthop": ("AnalysisError", "RunError", "ScenarioError", "__version__"),
    "evaluating.fairness": ("Convergence", "convergence"),
    "evaluating.metric": ("metrics",),
    "evaluating.results": ("Results",),
    "evaluating.theory": ("compare_theory",),
    "running.algorithms": (
        "Ack",
        "CongestionControl",
        "Delivery",
        "Signal",
        "allow_code",
        "cbrt",
    ),
    "running.campaign": ("Campaign", "CampaignError"),
    "running.replications": ("run", "sweep"),
    "running.steady": ("steady_state",),
    "running.tracing": ("Trace", "capture", "trace"),
    "scenarios.scenario": ("Scenario", "load", "schema"),
    "showing.figures": ("PlotError", "plot"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
# Modules that are used as attributes: `lasthop.analysis.arq(...)`.
_MODULES = {
    "advise": "evaluating.advise",
    "analysis": "evaluating.analysis",
    "cluster": "running.cluster",
    "fit": "evaluating.fit",
    "statistics": "evaluating.statistics",
    "studies": "studies",
    "theory": "evaluating.theory",
}


def __getattr__(name: str) -> object:
    if name in _HOME:
        value = getattr(importlib.import_module(f"lasthop.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"lasthop.{_MODULES[name]}")
    raise AttributeError(f"module 'lasthop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
