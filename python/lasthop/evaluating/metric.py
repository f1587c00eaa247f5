"""Declarations of metrics, from the engine: units, bounds, labels, preferred direction."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from lasthop import _lasthop
from lasthop.scenarios.arguments import warn_renamed

__all__ = [
    "Metric",
    "bare_name",
    "matching",
    "metric_bounds",
    "metric_label",
    "metric_of",
    "metric_unit",
    "metrics",
    "repeated_in",
    "window_of",
]


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a metric.

    Attributes:
        entity: Entity that reports it: `flow`, `flows` (all flows), `link`, `wlan` or `agent`.
        name: Last component of the full name: `delay_p95_s` of `flow.voice.delay_p95_s`.
        label: Label in tables and figures, without unit.
        unit: `bps`, `s`, `bytes`, `%` (values are fractions of 1), or empty for counts.
        minimum: Minimum value.
        maximum: Maximum value; infinite without a limit.
        preferred: `higher`, `lower` or `neither`.
        aggregation: Aggregation over several flows: `sum`, `mean` or `max`.
        windowed: Whether it is also reported for the windows of a run.
        about: Definition.
        was: Former name, which selections accept until the next minor version; empty if none.
    """

    entity: str
    name: str
    label: str
    unit: str
    minimum: float
    maximum: float
    preferred: str
    aggregation: str
    windowed: bool
    about: str
    was: str = ""


@functools.cache
def metrics() -> tuple[Metric, ...]:
    """Returns all metrics declared by the engine."""
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
    """Returns the declaration of a metric, given its full name or last component.

    A name that is not declared, as in results of another version, has neither unit nor bounds.
    """
    _, name = window_of(name)
    entity, last = name.partition(".")[0] if "." in name else "", name.rpartition(".")[2]
    if entity == "flows" and name.count(".") > 1:
        # Aggregated over the flows of a table with `count`.
        entity = "flow"
    known = _by_name().get((entity, last))
    if known is not None:
        return known
    label = last.replace("_", " ")
    label = label[:1].upper() + label[1:]
    return Metric(entity, last, label, "", -math.inf, math.inf, "neither", "mean", False, "")


def window_of(name: str) -> tuple[str, str]:
    """Returns the window of a metric, and its name in the whole run.

    `window.late.flow.web.goodput_bps` is `late` and `flow.web.goodput_bps`; the window of a metric
    of the whole run is empty.
    """
    if not name.startswith("window."):
        return "", name
    _, window, rest = name.split(".", 2)
    return window, rest


@functools.cache
def _former() -> dict[str, str]:
    return {one.was: one.name for one in metrics() if one.was}


def present_name(pattern: str) -> str:
    """Replaces a former metric name in a name or pattern by the present one, with a warning."""
    former = pattern.rpartition(".")[2]
    if (present := _former().get(former)) is None:
        return pattern
    warn_renamed(
        f"{pattern}: renamed to `{present}`; the next minor version will reject `{former}`"
    )
    return pattern.removesuffix(former) + present


def metric_unit(metric: str) -> str:
    """Returns the unit of a metric: `bps`, `s`, `bytes`, `%` for fractions, or empty."""
    return metric_of(metric).unit


def metric_bounds(metric: str) -> tuple[float, float]:
    """Returns the minimum and maximum value of a metric."""
    known = metric_of(metric)
    return known.minimum, known.maximum


def metric_label(metric: str) -> str:
    """Returns the label of a metric: `flow.web.delay_p95_s` is `Delay, 95th percentile`."""
    return metric_of(metric).label


def bare_name(metric: str) -> str:
    """Returns a metric's name without unit: `delay_p99_s` is `delay_p99`."""
    unit = metric_unit(metric)
    return metric.removesuffix(f"_{unit}") if unit else metric


def repeated_in(scenario: Mapping[str, Any], flow: str) -> str | None:
    """Returns the table with `count` that declares a flow; None if the flow has its own table."""
    tables = scenario.get("flow", {})
    table = flow.rstrip("0123456789")
    # A table may end in a digit itself: `voip2` with `count` has the flow `voip21`.
    candidates = (flow[:end] for end in range(len(table), len(flow)))
    return next((name for name in candidates if "count" in tables.get(name, {})), None)


def matching(name: str, known: Sequence[str]) -> list[str]:
    """Returns the metrics of `known` that a name selects, in their order; empty if none.

    A name is a full name (`flow.web.goodput_bps`), its last components (`web.goodput_bps`,
    `goodput_bps`), each of these without the unit (`goodput`), or a pattern of these with `*` and
    `?`. Full names take precedence. Last components select metrics of the whole run before those
    of windows, and the aggregate of a table with `count`, not its flows. A former name selects the
    metric with the present one, with a warning.
    """
    return _matching(name, known) or _matching(present_name(name), known)


def _matching(name: str, known: Sequence[str]) -> list[str]:
    for pattern in (name, f"*.{name}"):
        found = [one for one in known if fnmatchcase(one, pattern)]
        found = found or [one for one in known if fnmatchcase(bare_name(one), pattern)]
        if found:
            if pattern != name:
                found = [one for one in found if not window_of(one)[0]] or found
            tables = {one.split(".")[1] for one in found if one.startswith("flows.")} - {""}
            if pattern == name or not tables:
                return found
            return [one for one in found if not _is_member(one, tables)]
    return []


def _is_member(metric: str, tables: Iterable[str]) -> bool:
    """Whether a metric is of a flow such as `web3` of one of the tables with `count`."""
    kind, _, rest = metric.partition(".")
    flow = rest.partition(".")[0]
    return kind == "flow" and any(
        flow.startswith(table) and flow[len(table) :].isdigit() for table in tables
    )
