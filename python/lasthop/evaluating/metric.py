"""The list of metrics, as the engine declares them: units, bounds, labels, preferred values."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass

from lasthop import _lasthop

__all__ = [
    "Metric",
    "bare_name",
    "metric_bounds",
    "metric_label",
    "metric_of",
    "metric_unit",
    "metrics",
]


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a metric.

    Attributes:
        entity: What reports it: `flow`, `flows` (all of them), `link`, `wlan` or `agent`.
        name: The last part of its name in results, `delay_p95_s` of `flow.voice.delay_p95_s`.
        label: Its name in tables and figures, without unit.
        unit: `bps`, `s`, `bytes`, `%` (the values are fractions of 1), or nothing of counts.
        minimum: Of a value.
        maximum: Of a value; infinite without a limit.
        preferred: `higher`, `lower` or `neither`.
        aggregation: How the values of several flows become one: `sum`, `mean` or `max`.
        about: What it counts.
    """

    entity: str
    name: str
    label: str
    unit: str
    minimum: float
    maximum: float
    preferred: str
    aggregation: str
    about: str


@functools.cache
def metrics() -> tuple[Metric, ...]:
    """All metrics that the engine declares."""
    listed = json.loads(_lasthop.metrics())
    for one in listed:
        low, high = one.pop("min"), one.pop("max")
        one["minimum"] = -math.inf if low is None else low
        one["maximum"] = math.inf if high is None else high
    return tuple(Metric(**one) for one in listed)


@functools.cache
def _by_name() -> dict[tuple[str, str], Metric]:
    found = {("", one.name): one for one in reversed(metrics())}
    return found | {(one.entity, one.name): one for one in metrics()}


def metric_of(name: str) -> Metric:
    """The declaration of a metric, by its full name or by its last part alone.

    A name that the engine does not declare, as in results of another version, has neither unit
    nor bounds.
    """
    entity, last = name.partition(".")[0] if "." in name else "", name.rpartition(".")[2]
    known = _by_name().get((entity, last))
    if known is not None:
        return known
    label = last.replace("_", " ")
    label = label[:1].upper() + label[1:]
    return Metric(entity, last, label, "", -math.inf, math.inf, "neither", "mean", "")


def metric_unit(metric: str) -> str:
    """The unit of a metric: `bps`, `s`, `bytes`, `%` of fractions, or nothing."""
    return metric_of(metric).unit


def metric_bounds(metric: str) -> tuple[float, float]:
    """The minimum and the maximum of a metric's values."""
    known = metric_of(metric)
    return known.minimum, known.maximum


def metric_label(metric: str) -> str:
    """A metric in words, without its unit: `flow.web.delay_p95_s` is `Delay, 95th percentile`."""
    return metric_of(metric).label


def bare_name(metric: str) -> str:
    """A metric's name without its unit: `delay_p99_s` is `delay_p99`."""
    unit = metric_unit(metric)
    return metric.removesuffix(f"_{unit}") if unit else metric
