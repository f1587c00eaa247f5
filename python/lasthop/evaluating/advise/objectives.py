"""Objectives and constraints, parsed from text such as `goodput, delay_p99 < 300 ms`.

Parts are separated by commas. A metric alone is an objective; a metric with `<` or `>` and a number
is a constraint. Metrics are given by the last components of their names without unit: `goodput`,
`voice.delay_p99`, `link.wireless.forward.utilization`. An objective of several flows is aggregated
as declared by the metric: the sum of goodputs, the mean of delays. A constraint must hold for each
flow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop import _lasthop
from lasthop.evaluating.metric import bare_name, matching, metric_of
from lasthop.evaluating.results import Results
from lasthop.scenarios.arguments import ArgumentError

__all__ = ["Constraint", "Objective", "Objectives", "parse"]

# Kinds of quantities, by the unit of a metric.
QUANTITIES = {"bps": "rate", "s": "duration", "bytes": "size"}
COMBINED: Mapping[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean, "max": np.max}


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric to maximise or minimise.

    Attributes:
        word: The objective as given.
        metrics: Full names of the metrics, which are aggregated as declared.
        sign: 1 to maximise, -1 to minimise.
    """

    word: str
    metrics: tuple[str, ...]
    sign: float

    def samples(self, results: Results, point: int) -> NDArray[np.float64]:
        """Returns one number per replication; higher is better."""
        each = [results.samples(name, point) for name in self.metrics]
        combined = COMBINED[metric_of(self.metrics[0]).aggregation](each, axis=0)
        return np.asarray(self.sign * combined)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A bound on the mean of a metric.

    Attributes:
        word: The constraint as given, with operator and number.
        metric: Full name.
        is_upper: Whether the limit is an upper bound.
        limit: Limit in the metric's SI unit.
        text: The limit as given.
    """

    word: str
    metric: str
    is_upper: bool
    limit: float
    text: str


@dataclass(frozen=True, slots=True)
class Objectives:
    """Objectives, in order of importance, and constraints."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """All relevant metrics."""
        names = [name for one in self.objectives for name in one.metrics]
        return tuple(dict.fromkeys([*names, *(one.metric for one in self.constraints)]))


def parse(text: str, known: Sequence[str]) -> Objectives:
    """Parses objectives and constraints.

    Args:
        text: Text as described in the module's docstring.
        known: Full names of the available metrics.

    Raises:
        ArgumentError: If a metric is unknown, a number is invalid or there is no objective.
    """
    objectives: list[Objective] = []
    constraints: list[Constraint] = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = re.fullmatch(r"(?:(max|min)\s+)?([\w.\-]+)\s*(?:(<=?|>=?)\s*(.+))?", part)
        if not found or (found[1] and found[3]):
            raise ArgumentError(
                f"invalid value `{part}` for `want`: expected METRIC, max METRIC, min METRIC, "
                "METRIC < NUMBER or METRIC > NUMBER, separated by commas"
            )
        way, word, operator, number = found.groups()
        metrics = _matching(word, known)
        if operator is None:
            sign = {"max": 1.0, "min": -1.0}.get(way or "")
            if sign is None:
                sign = -1.0 if metric_of(metrics[0]).preferred == "lower" else 1.0
            objectives.append(Objective(word, metrics, sign))
        else:
            limit = _limit(word, metrics[0], number)
            constraints += [
                Constraint(part, name, operator.startswith("<"), limit, number) for name in metrics
            ]
    if not objectives:
        raise ArgumentError(
            f"missing objective in `{text}` for `want`: expected at least one metric"
        )
    return Objectives(tuple(objectives), tuple(constraints))


def _matching(word: str, known: Sequence[str]) -> tuple[str, ...]:
    names = matching(word, known)
    flows = [name for name in names if name.startswith("flow.")]
    if not names:
        own = (name for name in known if name.startswith("flow."))
        words = dict.fromkeys(bare_name(name).rpartition(".")[2] for name in own)
        raise ArgumentError(
            f"unknown metric `{word}` for `want`: expected {', '.join(words)} with this traffic"
        )
    return tuple(flows or names)


def _limit(word: str, metric: str, text: str) -> float:
    kind = QUANTITIES.get(metric_of(metric).unit)
    try:
        if kind is not None:
            return _lasthop.quantity(kind, text)
        share = text.strip().endswith("%")
        return float(text.strip().removesuffix("%")) / (100.0 if share else 1.0)
    except ValueError as error:
        expected = str(error).partition("; expected ")[2] or "a number"
        raise ArgumentError(
            f"invalid limit `{text}` of {word} for `want`: expected {expected}"
        ) from None
