"""What a reader of results has to know beside the numbers: each in one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
"""Points that a sentence names; of more it says how many."""


def point_name(results: Results, index: int) -> str:
    """A point by the words of its swept values, as tables have them; empty for the only one.

    Args:
        results: Whose point.
        index: Which one.
    """
    words = point_words(results.points)
    return ", ".join(words[key][index] for key in results.points[index].parameters)


def notes(results: Results) -> Iterator[str]:
    """Sentences about results whose numbers would mislead without them.

    Transfers that were not complete when the run ended: of their duration all that is known is that
    it is longer, so that means leave it out. Recordings of losses that are shorter than a run: it
    meets the same losses again. LT-TCP where no queue marks: it hears of no congestion. Windows
    that limit a rate, not the network.

    Args:
        results: What to tell about.
    """
    yield from _unfinished(results)
    yield from _short_recordings(results)
    yield from _unmarked(results)
    yield from _limited(results)


def _unfinished(results: Results) -> Iterator[str]:
    for metric in results.metrics:
        flow, _, quantity = metric.rpartition(".")
        if quantity != "complete":
            continue
        told = []
        for index in range(len(results.points)):
            found = results.samples(metric, index)
            found = found[~np.isnan(found)]
            done = int(np.count_nonzero(found))
            if done < found.size:
                told.append((index, f"{done} of {found.size}"))
        if told:
            where = _where(results, told)
            yield (
                f"{flow}: complete when the run ended were {where} transfers; means of "
                "duration_s leave the others out, goodput_bps counts them up to the end of the run"
            )


def recorded_frames(
    scenario: Mapping[str, Any] | None, points: Sequence[_lasthop.Point]
) -> tuple[dict[str, int], ...]:
    """Frames of the recorded losses of each point, by direction: `link.NAME.forward`.

    Args:
        scenario: Whose points they are.
        points: The points.

    Returns:
        Empty if no link has any.
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
    told: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for index, recorded in enumerate(results.recorded):
        for direction, frames in recorded.items():
            metric = f"{direction}.frames_sent"
            if metric in results.metrics:
                sent = results.samples(metric, index)
                most = sent[~np.isnan(sent)].max(initial=0.0)
                if most > frames:
                    told.setdefault((direction, frames), []).append((index, f"{most:.0f}"))
    for (direction, frames), found in told.items():
        yield (
            f"{direction}: the recorded losses have {frames} frames and a run sends up to "
            f"{_where(results, found)}: it meets them again, and replications are not independent"
        )


def unmarked_links(flow: Mapping[str, Any], links: Mapping[str, Any]) -> tuple[str, ...]:
    """Links on the way of a flow of LT-TCP whose queues mark nothing; none of any other flow.

    Args:
        flow: As a resolved scenario has it.
        links: All of them, likewise.
    """

    def marks(queue: Mapping[str, Any]) -> bool:
        return bool(queue.get("ecn", queue.get("kind") in ("step", "dualpi2")))

    if (flow.get("tcp") or {}).get("variant") != "lt-tcp":
        return ()
    route = flow["route"]
    return tuple(name for name, side, *_ in route if not marks(links[name][side]["queue"]))


def unmarked_words(links: Sequence[str]) -> str:
    """What it means for LT-TCP that the queues before these links mark nothing."""
    return (
        "lt-tcp takes marks alone for congestion, and the queues before these links mark "
        f"nothing: {', '.join(links)}"
    )


def unmarked_queues(
    scenario: Mapping[str, Any] | None, points: Sequence[_lasthop.Point]
) -> tuple[dict[str, tuple[str, ...]], ...]:
    """Of each point the flows of LT-TCP and the links on their way whose queues mark nothing.

    Args:
        scenario: Whose points they are.
        points: The points.

    Returns:
        Empty if there is no such flow.
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
    told: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for index, flows in enumerate(results.unmarked):
        for flow, links in flows.items():
            told.setdefault((flow, tuple(links)), []).append(point_name(results, index))
    for (flow, links), found in told.items():
        where = ", ".join(found[:MOST_NAMED])
        more = len(found) - MOST_NAMED
        where += f" and so on at {more} more points" if more > 0 else ""
        yield f"flow.{flow}{f' ({where})' if where else ''}: {unmarked_words(links)}"


MOST_EXAMINED = 200
"""Points whose windows are examined; an examination takes a millisecond."""

REACHED = 0.8
"""Fraction of a bound from which on it is what limits a rate."""


def rate_limits_of(points: Sequence[_lasthop.Point]) -> tuple[dict[str, tuple[float, str]], ...]:
    """Returns, for each point, the metrics that a window bounds, with the bound and its name.

    Args:
        points: The points; the first 200 are examined, which takes a millisecond each.
    """
    from lasthop.scenarios.explain import rate_limits

    examined = points[:MOST_EXAMINED]
    return tuple(rate_limits(json.loads(point.resolved())) for point in examined)


def _limited(results: Results) -> Iterator[str]:
    told: dict[tuple[str, str], list[str]] = {}
    for index, limits in enumerate(results.limits):
        for metric, (bound, words) in limits.items():
            if metric not in results.metrics:
                continue
            found = results.samples(metric, index)
            found = found[~np.isnan(found)]
            if found.size and found.mean() >= REACHED * bound:
                entity = metric.rpartition(".")[0]
                told.setdefault((entity, words), []).append(point_name(results, index))
    for (entity, words), names in told.items():
        where = ", ".join(names[:MOST_NAMED])
        more = len(names) - MOST_NAMED
        where += f" and so on at {more} more points" if more > 0 else ""
        yield f"{entity}{f' ({where})' if where else ''}: {words}"


def _where(results: Results, told: Sequence[tuple[int, str]]) -> str:
    """`0 of 10 (raw), 3 of 10 (selective-repeat)`."""
    texts = []
    for index, text in told[:MOST_NAMED]:
        name = point_name(results, index)
        texts.append(f"{text} ({name})" if name else text)
    more = len(told) - MOST_NAMED
    return ", ".join(texts) + (f" and so on at {more} more points" if more > 0 else "")
