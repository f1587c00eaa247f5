"""Sequential replication until metrics reach their target half-width.

The loop is independent of engines and stores: a callable runs replications, so that a store can
return stored ones. See `lasthop.statistics.sequential` for the coverage of the intervals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lasthop.evaluating.metric import matching
from lasthop.evaluating.results import Results, Stopped
from lasthop.evaluating.statistics import InterimResult, SequentialPlan, interval
from lasthop.evaluating.statistics.sequential import FIRST, LEAST, MOST
from lasthop.scenarios.arguments import ArgumentError, UnknownMetric, unknown

__all__ = [
    "RunMore",
    "Target",
    "Until",
    "expected_counts",
    "extend_until",
    "from_counts",
    "targets",
]

RunMore: TypeAlias = Callable[[Sequence[int], int, int], Results]
"""Function that runs replications: takes indices of points, index of the first replication and
number of replications; returns results of these points in the same order."""

Until: TypeAlias = "str | Iterable[str] | Mapping[str, str | float]"
"""Stopping rule: `"flow.transfer.goodput_bps=2%"`, several of these, or a mapping."""


@dataclass(frozen=True, slots=True)
class Target:
    """Target half-width of metrics.

    Attributes:
        pattern: Name of the metrics, as for `lasthop.evaluating.metric.matching`.
        width: Target half-width of the 95 % confidence interval: relative to the mean, or in the
            metric's unit.
        relative: Whether the half-width is relative.
    """

    pattern: str
    width: float
    relative: bool

    @classmethod
    def parse(cls, metric: str, width: str | float) -> Target:
        """Parses a half-width: `2%`, `2 %` (of the mean), or a number in the metric's unit.

        Raises:
            ValueError: If the text is neither.
        """
        text = str(width).strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            number = math.nan
        if not metric.strip() or not 0.0 < number < math.inf:
            found = f"{metric.strip()}={text}" if text else metric.strip()
            raise ArgumentError(
                f"invalid value `{found}` for `until`: expected METRIC=WIDTH, where WIDTH is a "
                "percentage of the mean such as 2%, or a number in the metric's unit, above 0"
            )
        is_relative = text.endswith("%")
        return cls(metric.strip(), number / 100.0 if is_relative else number, is_relative)

    def __str__(self) -> str:
        width = f"{100.0 * self.width:g} %" if self.relative else f"{self.width:g}"
        return f"{self.pattern} to ± {width}"


def targets(until: Until) -> list[Target]:
    """Parses the argument `until`.

    Raises:
        ValueError: If a target is invalid, or without a target.
    """
    if isinstance(until, Mapping):
        found = [Target.parse(metric, width) for metric, width in until.items()]
    else:
        found = []
        for text in [until] if isinstance(until, str) else until:
            metric, _, width = text.partition("=")
            found.append(Target.parse(metric, width))
    if not found:
        raise ArgumentError("missing `until`: expected METRIC=WIDTH")
    return found


def extend_until(
    points: int,
    until: Until,
    run_more: RunMore,
    *,
    first: int = FIRST,
    most: int = MOST,
) -> Results:
    """Runs replications of each point until its metrics reach their target half-widths.

    A point stops at the first interim analysis at which all its targets are reached. The remaining
    points are run together with the same replication indices, so that paired comparisons remain
    possible.

    Args:
        points: Number of points.
        until: The targets.
        run_more: Runs replications.
        first: Replications before the first interim analysis; at least 10 are run.
        most: Maximum number of replications per point.

    Returns:
        All results; `stopped` states where and why each point stopped.

    Raises:
        KeyError: If no metric matches a target.
        ValueError: If a target or a number is invalid.
    """
    wanted = targets(until)
    first = max(first, LEAST)
    if most < first:
        raise ArgumentError(
            f"invalid value `{most}` for `max_replications`: expected {first} or more"
        )
    plans = [SequentialPlan(t.width, t.relative, first, most) for t in wanted]
    results: Results | None = None
    going, done, looks = list(range(points)), 0, list(plans[0].looks())
    stopped: dict[int, list[Stopped]] = {}
    for look in looks:
        part = run_more(going, done, look - done)
        results = part if results is None else results.joined(part, going)
        done = look
        if not results.complete:
            break
        for point in list(going):
            found = dict(_looks(results, point, wanted, plans, done))
            if all(one.enough for one in found.values()):
                stopped[point] = [
                    Stopped(point, metric, one.interval, one.reached)
                    for metric, one in found.items()
                ]
                going.remove(point)
        if not going:
            break
    assert results is not None  # noqa: S101 - there is at least one look
    return results.with_stops([stop for point in sorted(stopped) for stop in stopped[point]])


def expected_counts(results: Results, until: Until, *, first: int, most: int) -> list[int]:
    """Estimates the replications per point that `extend_until` needs, from a pilot.

    The half-width of an interval is proportional to the inverse square root of the number of
    replications.

    Args:
        results: The pilot.
        until: The targets.
        first: Replications before the first interim analysis.
        most: Maximum number of replications per point.

    Raises:
        KeyError: If no metric matches a target.
        ValueError: If a target is invalid.
    """
    wanted = targets(until)
    first = max(first, LEAST)
    if most < first:
        raise ArgumentError(
            f"invalid value `{most}` for `max_replications`: expected {first} or more"
        )
    counts = []
    for point in range(len(results.points)):
        count = float(first)
        for target in wanted:
            for metric in _metrics(results, target):
                found = interval(results.samples(metric, point))
                width = target.width * (abs(found.mean) if target.relative else 1.0)
                if found.n < 2 or found.ci95 == 0.0:
                    continue
                count = max(count, found.n * (found.ci95 / width) ** 2 if width else math.inf)
        counts.append(math.ceil(min(count, most)))
    return counts


def from_counts(points: int, run_counts: Callable[[Sequence[int]], Results]) -> RunMore:
    """Adapts a function that takes total replications per point for `extend_until`.

    Args:
        points: Number of points.
        run_counts: Takes the total number of replications per point; returns results of all points
            with at least these.
    """
    counts = [0] * points

    def run_more(chosen: Sequence[int], first: int, count: int) -> Results:
        for point in chosen:
            counts[point] = first + count
        return run_counts(list(counts)).part(chosen, first)

    return run_more


def _looks(
    results: Results,
    point: int,
    wanted: Sequence[Target],
    plans: Sequence[SequentialPlan],
    done: int,
) -> Iterable[tuple[str, InterimResult]]:
    """Yields the interim result of each target metric at a point."""
    for target, plan in zip(wanted, plans, strict=True):
        for metric in _metrics(results, target):
            samples = results.samples(metric, point)[:done]
            if not np.isnan(samples).all():
                yield metric, plan.look(samples)


def _metrics(results: Results, target: Target) -> list[str]:
    """Returns the metrics that match a target."""
    metrics = matching(target.pattern, results.metrics)
    if not metrics:
        near = re.split(r"[.*?]", target.pattern)[-1]
        known = [n for n in results.metrics if near in n] or results.metrics
        raise UnknownMetric(unknown("metric", target.pattern, known, "until"))
    return metrics
