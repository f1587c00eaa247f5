"""Results of a sweep in sentences: the best configuration, and differences from a baseline."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.evaluating.cells import rounded
from lasthop.evaluating.comparison import LEVEL, from_baseline
from lasthop.evaluating.metric import metric_label, metric_of, metric_unit, window_of
from lasthop.evaluating.statistics.means import interval
from lasthop.showing.labels import measured, point_label, scaled
from lasthop.showing.terminal import HEADLINES

if TYPE_CHECKING:
    from lasthop.evaluating.results import Results

__all__ = ["sentences"]

MOST_METRICS = 3
"""Maximum number of metrics that are compared in sentences."""

# Keys that describe the environment of a configuration and its load.
ENVIRONMENT = re.compile(
    r"\.(rate|delay|errors|downlink_errors|mtu|between|from|to|start|count|spacing|app|x|y"
    r"|stations)(\.|$)"
)


def sentences(results: Results, baseline: tuple[str, Any] | None = None) -> list[str]:
    """Returns the main results of a sweep, the recommended configuration first.

    Args:
        results: The results.
        baseline: A swept key and its value at the reference points; None: the first swept key that
            is not of the environment, with its first value.

    Returns:
        Sentences; empty without a sweep or without a main metric that has a preference.
    """
    points = [point.parameters for point in results.points]
    varied = [
        key
        for key in dict.fromkeys(key for point in points for key in point)
        if len({repr(point.get(key)) for point in points}) > 1
    ]
    metrics = _main_metrics(results)
    choices = [key for key in varied if not ENVIRONMENT.search(key)]
    if not varied or not metrics:
        return []
    is_named = len({metric.rpartition(".")[0] for metric in metrics}) > 1
    found = _recommended(results, metrics[0], choices, is_named=is_named) if choices else []
    if baseline is None and choices:
        baseline = choices[0], next(one[choices[0]] for one in points if choices[0] in one)
    if baseline is not None:
        for metric in metrics:
            found += _differences(results, metric, *baseline, is_named=is_named)
    return found


def _main_metrics(results: Results) -> list[str]:
    """Returns the main metrics with a preferred direction that differ between points."""
    found = []
    for pattern in HEADLINES:
        for metric in results.metrics:
            if not fnmatchcase(metric, pattern) or metric_of(metric).preferred == "neither":
                continue
            means = [results.samples(metric, index) for index in range(len(results.points))]
            values = {float(np.nanmean(one)) for one in means if not np.isnan(one).all()}
            if len(values) > 1:
                found.append(metric)
    aggregates = [one for one in found if one.startswith("flows.")]
    # Many flows are described by their aggregate.
    own = aggregates + [one for one in found if one not in aggregates] if aggregates else found
    return own[:MOST_METRICS]


def _recommended(
    results: Results, metric: str, choices: Sequence[str], *, is_named: bool
) -> list[str]:
    """Returns the configuration that is best, or not significantly worse, most often."""
    sign = -1.0 if metric_of(metric).preferred == "lower" else 1.0
    groups: dict[str, dict[str, int]] = {}
    labels: dict[str, Mapping[str, Any]] = {}
    for index, point in enumerate(results.points):
        own = {key: value for key, value in point.parameters.items() if key in choices}
        rest = {key: value for key, value in point.parameters.items() if key not in choices}
        labels.setdefault(repr(own), own)
        groups.setdefault(repr(rest), {})[repr(own)] = index
    wins = dict.fromkeys(labels, 0)
    best_at = dict.fromkeys(labels, 0)
    contested = 0
    for group in groups.values():
        samples = {name: sign * results.samples(metric, index) for name, index in group.items()}
        samples = {name: one for name, one in samples.items() if not np.isnan(one).all()}
        if len(samples) < 2:
            continue
        contested += 1
        best = max(samples, key=lambda name: float(np.nanmean(samples[name])))
        best_at[best] += 1
        for name, one in samples.items():
            count = min(len(one), len(samples[best]))
            gap = interval(samples[best][:count] - one[:count])
            if name == best or not gap.mean - gap.ci95 > 0.0:
                wins[name] += 1
    if not contested:
        return []
    chosen = max(labels, key=lambda name: (wins[name], best_at[name]))
    what = _quantity(metric, is_named=is_named)
    superlative = "lowest" if sign < 0 else "highest"
    text = f"Recommended: {point_label(labels[chosen])}"
    if contested == 1:
        index = next(iter(groups.values()))[chosen]
        found = interval(results.samples(metric, index))
        unit = scaled(metric_unit(metric), [found.mean])
        value = f"{measured(found.mean, found.ci95, unit)} {unit.name}".strip()
        ties = [point_label(labels[name]) for name, won in wins.items() if won and name != chosen]
        equal = f"; not significantly worse: {', '.join(ties)}" if ties else ""
        rank = (
            f"the {superlative} {what}"
            if best_at[chosen]
            else f"a {what} that is not significantly worse than the best"
        )
        return [f"{text}, which has {rank}, {value}{equal}."]
    others = f", and is not significantly worse at {wins[chosen] - best_at[chosen]} more"
    tied = others if wins[chosen] > best_at[chosen] else ""
    rivals = [point_label(labels[one]) for one in wins if wins[one] == contested and one != chosen]
    equal = f"; not significantly worse at any: {', '.join(rivals)}" if rivals else ""
    return [
        f"{text}, which has the {superlative} {what} at {best_at[chosen]} of {contested} "
        f"combinations of the other swept keys{tied}{equal}."
    ]


def _differences(
    results: Results, metric: str, key: str, value: object, *, is_named: bool
) -> list[str]:
    """Returns one sentence per other value of a key: the paired differences from the baseline."""
    found = []
    rows = from_baseline(results, [metric], key, value).to_dicts()
    others = dict.fromkeys(repr(row[key]) for row in rows)
    reference = point_label({key: value})
    what = _quantity(metric, is_named=is_named)
    is_plural = metric_label(metric).endswith("s") and not metric_label(metric).endswith("ss")
    be, differ = ("are", "differ") if is_plural else ("is", "differs")
    for other in others:
        own = [row for row in rows if repr(row[key]) == other and row["ratio"] is not None]
        if not own:
            continue
        changes = [100.0 * (row["ratio"] - 1.0) for row in own]
        moved = [row["p_holm"] is not None and row["p_holm"] <= LEVEL for row in own]
        low, high = (_signed(end) for end in (min(changes), max(changes)))
        name = point_label({key: _table(own[0][key])})
        start = f"With {name}, {what}"
        if len(own) == 1:
            way = "higher" if changes[0] > 0 else "lower"
            by = f"{rounded(abs(changes[0]))} % {way} than with {reference}"
            found.append(f"{start} {be} {by}{'' if moved[0] else ', which is not significant'}.")
            continue
        up = sum(one and change > 0 for one, change in zip(moved, changes, strict=True))
        down = sum(one and change < 0 for one, change in zip(moved, changes, strict=True))
        if not any(changes):
            found.append(f"With {name}, {what} {be} equal to that with {reference} at all points.")
            continue
        of = f"of {len(own)} points ({low} % to {high} %)"
        if not up and not down:
            found.append(f"{start} {differ} significantly from {reference} at none {of}.")
            continue
        ways = [f"{way} at {n}" for way, n in (("higher", up), ("lower", down)) if n]
        found.append(f"{start} {be} significantly {' and '.join(ways)} {of} than with {reference}.")
    return found


def _table(value: object) -> object:
    """Returns a swept value of a data frame, in which tables are JSON."""
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(value)
    return value


def _signed(percent: float) -> str:
    """Returns a change with its sign."""
    return rounded(percent, 2 if abs(percent) < 10.0 else 3, sign=True).replace("-", "−")


def _quantity(metric: str, *, is_named: bool) -> str:
    """Returns a metric in words: `goodput`, or `goodput of download` if there are several flows."""
    window, metric = window_of(metric)
    rest = metric.partition(".")[2]
    label = metric_label(metric)
    label = label[:1].lower() + label[1:]
    named = f"{label} of {rest.partition('.')[0]}" if is_named and "." in rest else label
    return f"{named} in window {window}" if window else named
