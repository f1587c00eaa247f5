"""What is wanted of a link, read from a line such as `goodput, delay_p99 < 300 ms`.

Parts are separated by commas. A metric alone is an objective, a metric with `<` or `>` and a number
a constraint. A metric is called by the end of its name, without its unit: `goodput`,
`voice.delay_p99`, `link.wireless.forward.utilization`. An objective that several flows
have is aggregated as the metric declares: the sum of goodputs, the mean of delays. A constraint
holds if it holds for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop import _lasthop
from lasthop.evaluating.metric import bare_name, metric_of
from lasthop.evaluating.results import Results
from lasthop.scenarios.arguments import ArgumentError

__all__ = ["Constraint", "Objective", "Wants", "parse"]

# Kinds of quantities, by the unit of a metric.
QUANTITIES = {"bps": "rate", "s": "duration", "bytes": "size"}
COMBINED: Mapping[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean, "max": np.max}


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric to be as large, or as small, as can be.

    Attributes:
        word: As it was said.
        metrics: The full names that it stands for; aggregated as the metric declares.
        sign: 1 to be large, -1 to be small.
    """

    word: str
    metrics: tuple[str, ...]
    sign: float

    def samples(self, results: Results, point: int) -> NDArray[np.float64]:
        """One number for each replication, larger being better."""
        each = [results.samples(name, point) for name in self.metrics]
        combined = COMBINED[metric_of(self.metrics[0]).aggregation](each, axis=0)
        return np.asarray(self.sign * combined)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A bound on a metric's mean.

    Attributes:
        word: As it was said, with operator and number.
        metric: Full name.
        is_upper: Whether the mean has to stay below.
        limit: In the metric's SI unit.
        text: The limit as it was said.
    """

    word: str
    metric: str
    is_upper: bool
    limit: float
    text: str


@dataclass(frozen=True, slots=True)
class Wants:
    """Objectives, the first one the most important, and constraints."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that are looked at."""
        names = [name for one in self.objectives for name in one.metrics]
        return tuple(dict.fromkeys([*names, *(one.metric for one in self.constraints)]))


def parse(text: str, known: Sequence[str]) -> Wants:
    """Reads what is wanted.

    Args:
        text: As in the head of this file.
        known: Full names of the metrics there are.

    Raises:
        ArgumentError: If a metric is not there, a number cannot be read or nothing is to be best.
    """
    objectives: list[Objective] = []
    constraints: list[Constraint] = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = re.fullmatch(r"(?:(max|min)\s+)?([\w.\-]+)\s*(?:(<=?|>=?)\s*(.+))?", part)
        if not found or (found[1] and found[3]):
            raise ArgumentError(
                f"want: found {part!r}; allowed: METRIC, max METRIC, min METRIC, METRIC < NUMBER "
                "or METRIC > NUMBER, with commas between"
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
        raise ArgumentError(f"want: found no metric to be best in {text!r}; allowed: one at least")
    return Wants(tuple(objectives), tuple(constraints))


def _matching(word: str, known: Sequence[str]) -> tuple[str, ...]:
    names = [
        name
        for name in known
        if name in (word, f"flow.{word}") or f".{bare_name(name)}".endswith(f".{bare_name(word)}")
    ]
    flows = [name for name in names if name.startswith("flow.")]
    if not names:
        own = (name for name in known if name.startswith("flow."))
        words = dict.fromkeys(bare_name(name).rpartition(".")[2] for name in own)
        raise ArgumentError(
            f"want: found no metric {word!r} in this traffic; allowed: {', '.join(words)}"
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
        told = str(error).partition("; allowed: ")[2] or "a number"
        raise ArgumentError(f"want: found {text!r} for {word}; allowed: {told}") from None
