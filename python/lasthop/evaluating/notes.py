"""Warnings about results, one sentence each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop.evaluating.metric import window_of
from lasthop.evaluating.statistics.means import finite, interval
from lasthop.evaluating.swept import point_words

if TYPE_CHECKING:
    from lasthop import _lasthop
    from lasthop.evaluating.results import Results

__all__ = [
    "notes",
    "point_name",
    "rate_limits_of",
    "recorded_frames",
    "unmarked_links",
    "unmarked_queues",
    "unmarked_words",
]

MOST_NAMED = 3
"""Maximum number of points named in a sentence."""


def point_name(results: Results, index: int) -> str:
    """Returns the label of a point, as in tables; empty for a single point.

    Args:
        results: The results.
        index: Index of the point.
    """
    words = point_words(results.points)
    return ", ".join(words[key][index] for key in results.points[index].parameters)


def notes(results: Results) -> Iterator[str]:
    """Yields warnings about results that would otherwise be misleading.

    The warnings concern transfers that were incomplete at the end of the run, whose durations are
    excluded from means; windows that ended after the run; loss recordings that are shorter than a
    run and repeat; LT-TCP with queues that set no ECN marks, so that it detects no congestion; and
    rates limited by windows instead of the network.

    Args:
        results: The results.
    """
    yield from _unfinished(results)
    yield from _missed_windows(results)
    yield from _short_recordings(results)
    yield from _unmarked(results)
    yield from _limited(results)


def _unfinished(results: Results) -> Iterator[str]:
    for metric in results.metrics:
        flow, _, quantity = metric.rpartition(".")
        if quantity != "complete":
            continue
        incomplete = []
        for index in range(len(results.points)):
            found = finite(results.columns(index)[metric])
            done = sum(one != 0.0 for one in found)
            if done < len(found):
                incomplete.append((index, f"{done} of {len(found)}"))
        if incomplete:
            where = _where(results, incomplete)
            yield (
                f"{flow}: {where} transfers were complete at the end of the run; duration_s "
                "excludes the others, goodput_bps includes them up to the end of the run"
            )


def _missed_windows(results: Results) -> Iterator[str]:
    for window in results.scenario.get("window", {}):
        # Every flow has this metric.
        metric = next((m for m in results.metrics if _is_delivered(m, window)), None)
        if metric is None:
            continue
        missed = []
        for index in range(len(results.points)):
            samples = results.columns(index)[metric]
            count = sum(math.isnan(one) for one in samples)
            if count:
                missed.append((index, f"{count} of {len(samples)}"))
        if missed:
            yield (
                f"window.{window}: {_where(results, missed)} replications were complete before the "
                "end of the window; its metrics exclude them"
            )


def _is_delivered(metric: str, window: str) -> bool:
    return window_of(metric)[0] == window and metric.endswith(".delivered_bytes")


def recorded_frames(
    scenario: Mapping[str, Any] | None, points: Sequence[_lasthop.Point]
) -> tuple[dict[str, int], ...]:
    """Returns the number of frames in loss recordings, per point and direction.

    Args:
        scenario: The scenario.
        points: Its points.

    Returns:
        Number of frames by direction (`link.NAME.forward`) for each point; empty if there are no
        recordings.
    """
    if '"trace"' not in json.dumps(scenario, default=str):
        return ()
    return tuple(
        {
            f"link.{name}.{side}": link[side]["recorded_frames"]
            for name, link in json.loads(point.resolved())["links"].items()
            for side in ("forward", "reverse")
            if link[side]["recorded_frames"] is not None
        }
        for point in points
    )


def _short_recordings(results: Results) -> Iterator[str]:
    short: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for index, recorded in enumerate(results.recorded):
        for direction, frames in recorded.items():
            metric = f"{direction}.frames_sent"
            if metric in results.metrics:
                most = max(finite(results.columns(index)[metric]), default=0.0)
                if most > frames:
                    short.setdefault((direction, frames), []).append((index, f"{most:.0f}"))
    for (direction, frames), found in short.items():
        yield (
            f"{direction}: the loss recording has {frames} frames, but a run sends up to "
            f"{_where(results, found)}: the recording repeats, and replications are not independent"
        )


def unmarked_links(flow: Mapping[str, Any], links: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the links on the path of an LT-TCP flow whose queues set no ECN marks.

    Args:
        flow: Resolved flow.
        links: All resolved links.
    """

    def marks(queue: Mapping[str, Any]) -> bool:
        return bool(queue.get("ecn", queue.get("kind") in ("step", "dualpi2")))

    if (flow.get("tcp") or {}).get("variant") != "lt-tcp":
        return ()
    route = flow["route"]
    return tuple(name for name, side, *_ in route if not marks(links[name][side]["queue"]))


def unmarked_words(links: Sequence[str]) -> str:
    """Returns the warning for LT-TCP and links whose queues set no ECN marks."""
    return (
        "lt-tcp detects congestion only by ECN marks, but the queues of these links set none: "
        f"{', '.join(links)}"
    )


def unmarked_queues(
    scenario: Mapping[str, Any] | None, points: Sequence[_lasthop.Point]
) -> tuple[dict[str, tuple[str, ...]], ...]:
    """Returns LT-TCP flows and links on their paths whose queues set no ECN marks, per point.

    Args:
        scenario: The scenario.
        points: Its points.

    Returns:
        Links by flow, for each point; empty if there is no such flow.
    """
    if '"lt-tcp"' not in json.dumps(scenario, default=str):
        return ()
    found = []
    for point in points:
        resolved = json.loads(point.resolved())
        links = {
            name: unmarked_links(flow, resolved["links"])
            for name, flow in resolved["flows"].items()
        }
        found.append({name: silent for name, silent in links.items() if silent})
    return tuple(found)


def _unmarked(results: Results) -> Iterator[str]:
    unmarked: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for index, flows in enumerate(results.unmarked):
        for flow, links in flows.items():
            unmarked.setdefault((flow, tuple(links)), []).append(point_name(results, index))
    for (flow, links), found in unmarked.items():
        yield f"flow.{flow}{_at(found)}: {unmarked_words(links)}"


def _at(names: Sequence[str]) -> str:
    """Returns text such as ` (raw, sack; raw, reno and at 2 other points)`; empty for one point."""
    return f" ({_first(names, '; ')})" if names[0] else ""


def _first(texts: Sequence[str], separator: str) -> str:
    """Returns the first texts of points, and the number of the other points."""
    more = len(texts) - MOST_NAMED
    others = f" and at {more} other point{'s' if more > 1 else ''}" if more > 0 else ""
    return separator.join(texts[:MOST_NAMED]) + others


WINDOWS = ("limited_by_receive_window", "limited_by_send_buffer")
"""Fractions of the time in which a buffer of a host limits a flow."""

APPLICATION = "limited_by_application"
"""Fraction of the time in which a flow has sent all data; includes the end of each transfer."""

MOST_USED = {"utilization": 0.5, "airtime_idle": 0.5, "retransmissions": 0.01}
"""Bounds of a network that does not limit a flow: utilization of every link, minimum fraction of
idle time of every WLAN, retransmissions of the flow per segment."""

MOST_EXAMINED = 200
"""Maximum number of points whose windows are examined, which takes 1 ms per point."""


def rate_limits_of(points: Sequence[_lasthop.Point]) -> tuple[dict[str, tuple[float, str]], ...]:
    """Returns the metrics limited by a window, with threshold and explanation, per point.

    Args:
        points: The points; only the first 200 are examined, which takes 1 ms each.
    """
    from lasthop.scenarios.explain.limits import rate_limits

    examined = points[:MOST_EXAMINED]
    return tuple(rate_limits(json.loads(point.resolved())) for point in examined)


def _limited(results: Results) -> Iterator[str]:
    limited: dict[tuple[str, str], list[str]] = {}
    for index, limits in enumerate(results.limits):
        explained = set()
        for metric, (threshold, words) in limits.items():
            entity, _, quantity = metric.rpartition(".")
            # A note on the rate names the same window.
            is_repeated = quantity in WINDOWS and f"{entity}.goodput_bps" in explained
            if metric not in results.metrics or is_repeated:
                continue
            mean = interval(results.columns(index)[metric]).mean
            if quantity == APPLICATION and not _has_idle_path(results, index, entity):
                continue
            if mean >= threshold:
                explained.add(metric)
                limited.setdefault((entity, words), []).append(point_name(results, index))
    for (entity, words), names in limited.items():
        yield f"{entity}{_at(names)}: {words}"


def _has_idle_path(results: Results, index: int, flow: str) -> bool:
    """Whether no link is busy or loses segments of a flow, so that neither delays its data."""
    columns = results.columns(index)

    def mean(metric: str) -> float:
        return interval(columns[metric]).mean

    for metric in results.metrics:
        entity, _, quantity = metric.rpartition(".")
        if entity.startswith("link.") and quantity == "utilization":
            is_idle = mean(metric) <= MOST_USED[quantity]
        elif quantity == "airtime_idle":
            is_idle = mean(metric) >= MOST_USED[quantity]
        else:
            continue
        if not is_idle:
            return False
    retransmitted, sent = mean(f"{flow}.retransmissions"), mean(f"{flow}.segments_sent")
    return retransmitted <= MOST_USED["retransmissions"] * sent


def _where(results: Results, found: Sequence[tuple[int, str]]) -> str:
    """Returns text such as `0 of 10 (raw), 3 of 10 (selective-repeat)`."""
    names = [(point_name(results, index), text) for index, text in found]
    return _first([f"{text} ({name})" if name else text for name, text in names], ", ")
