"""Timeline of a live run or a recording: state of a link, queue, delay and throughput.

The data of a timeline is computed once, for the picture and for the interactive chart of a report.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lasthop.showing.figures import style
from lasthop.showing.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lasthop.running.live.outcome import Outcome

__all__ = ["conversation_name", "draw", "timelines"]

# Conversations with separate curves; the others are added up.
SHOWN = 5
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY, BLACK)
# Looks of the two directions.
WAYS: tuple[tuple[str, list[int]], ...] = ((BLUE, []), (RED, [6, 3]))

Points = list[float | None]


def timelines(links: Mapping[str, Mapping[str, Any]], outcome: Outcome) -> list[dict[str, Any]]:
    """Returns the timeline of each link.

    Args:
        links: Tables of the links of the scenario.
        outcome: The results, with samples.

    Returns:
        For each link `name`, `between`, `time` (s), `panels` and `marks` (time, text and number of
        changes during the run). A panel has `title`, `unit` and `curves`, each with `label`,
        `colour`, `dash` and its values `y`, of the interval that ends at each time. With `steps`, a
        value applies to the whole interval.
    """
    return [
        _timeline(name, link, outcome, 2 * index)
        for index, (name, link) in enumerate(links.items())
    ]


def _timeline(name: str, link: Mapping[str, Any], outcome: Outcome, first: int) -> dict[str, Any]:
    """Returns the timeline of the link whose directions are `first` and the next one."""
    samples, sides = outcome.samples, [first, first + 1]
    ways = [f"to {host}" for host in reversed(link["between"])]
    queues = _each(sides, ways, lambda side: _of(samples, side, "queue"))
    panels = [
        *_rate(samples, sides, ways),
        _panel("Frame loss", "%", _each(sides, ways, lambda side: _loss(samples, side))),
        _panel("Queue", "packets", queues),
        _delay(samples, sides, ways),
        *_throughput(outcome, sides),
    ]
    changes = [
        {"time": change["time"], "text": change["text"], "number": number}
        for number, change in enumerate(outcome.changes, 1)
        if change.get("link") in (None, name)
    ]
    return {
        "name": name,
        "between": list(link["between"]),
        "time": [round(sample["time"], 3) for sample in samples],
        "panels": panels,
        "marks": changes,
    }


def _each(sides: Sequence[int], ways: Sequence[str], values: Any) -> list[dict[str, Any]]:
    """Returns a curve for each direction."""
    return [
        {"label": way, "colour": colour, "dash": dash, "y": values(side)}
        for side, way, (colour, dash) in zip(sides, ways, WAYS, strict=True)
    ]


def _panel(title: str, unit: str, curves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rounded = [
        {**curve, "y": [None if y is None else float(f"{y:.5g}") for y in curve["y"]]}
        for curve in curves
    ]
    return {"title": title, "unit": unit, "curves": rounded}


def _of(samples: Sequence[Mapping[str, Any]], side: int, name: str, factor: float = 1.0) -> Points:
    values = (sample["directions"][side][name] for sample in samples)
    return [None if value is None else value * factor for value in values]


def _steps(samples: Sequence[Mapping[str, Any]], side: int, name: str) -> Iterator[float]:
    """Yields the increase of a counter in each interval."""
    before = 0.0
    for sample in samples:
        value = sample["directions"][side][name]
        yield value - before
        before = value


def _loss(samples: Sequence[Mapping[str, Any]], side: int) -> Points:
    pairs = zip(_steps(samples, side, "lost"), _steps(samples, side, "frames"), strict=True)
    return [100 * lost / frames if frames else None for lost, frames in pairs]


def _scale(most: float) -> tuple[float, str]:
    """Returns the factor and the unit for rates up to `most` bits per second."""
    for size, unit in ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps")):
        if most >= size:
            return 1 / size, unit
    return 1.0, "bps"


def _rate(
    samples: Sequence[Mapping[str, Any]], sides: Sequence[int], ways: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yields the panel of the rate, unless it is unlimited."""
    rates = [one for side in sides for one in _of(samples, side, "rate_bps") if one is not None]
    if rates:
        factor, unit = _scale(max(rates))
        curves = _each(sides, ways, lambda side: _of(samples, side, "rate_bps", factor))
        yield {**_panel("Link rate", unit, curves), "steps": True}


def _delay(
    samples: Sequence[Mapping[str, Any]], sides: Sequence[int], ways: Sequence[str]
) -> dict[str, Any]:
    means = _each(sides, ways, lambda side: _of(samples, side, "delay_mean_s", 1e3))
    most = [
        {**curve, "label": f"{curve['label']}, maximum", "thin": True}
        for curve in _each(sides, ways, lambda side: _of(samples, side, "delay_max_s", 1e3))
    ]
    return _panel("One-way delay", "ms", [*means, *most])


def conversation_name(one: Mapping[str, Any], addresses: Mapping[str, str]) -> str:
    """Returns the label of a conversation, such as `tcp server:80 → client` or `… (IPv6)`."""
    if "from" not in one:
        return "other"
    source, target = (addresses.get(one[end], one[end]) for end in ("from", "to"))
    if one["port"]:
        port = f":{one['port']}"
        source, target = (source + port, target) if one["from_server"] else (source, target + port)
    family = " (IPv6)" if ":" in one["from"] else ""
    return f"{one['protocol']} {source} → {target}{family}"


def _throughput(outcome: Outcome, sides: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yields the panel of the throughput by conversation, if packets were delivered."""
    samples, tick = outcome.samples, outcome.tick
    if not samples or tick is None:
        return
    times = [0.0, *(sample["time"] for sample in samples)]
    lengths = [max(end - begin, 1e-9) for begin, end in itertools.pairwise(times)]

    def rates(side: int, number: int) -> list[float]:
        counts = [0]
        for sample in samples:
            known = sample["directions"][side]["conversations"]
            counts.append(known[number] if number < len(known) else 0)
        steps = zip(counts, counts[1:], lengths, strict=False)
        return [8 * (now - was) / length for was, now, length in steps]

    every = [
        (one["bytes"], side, number, one)
        for side in sides
        for number, one in enumerate(tick["links"][side]["conversations"])
        if one["bytes"]
    ]
    every.sort(key=lambda found: -found[0])
    named = [found for found in every if "from" in found[3]][:SHOWN]
    if not named:
        return
    curves: list[dict[str, Any]] = [
        {
            "label": conversation_name(one, outcome.addresses),
            "colour": colour,
            "dash": [] if side == sides[0] else [6, 3],
            "y": rates(side, number),
        }
        for (_, side, number, one), colour in zip(named, COLOURS, strict=False)
    ]
    if len(every) > len(named):
        total = [0.0] * len(samples)
        for side in sides:
            steps = zip(_steps(samples, side, "delivered_bytes"), lengths, strict=True)
            total = [a + 8 * b / length for a, (b, length) in zip(total, steps, strict=True)]
        shown = [sum(column) for column in zip(*(curve["y"] for curve in curves), strict=True)]
        rest: list[float] = [max(a - b, 0.0) for a, b in zip(total, shown, strict=True)]
        curves.append({"label": "others", "colour": BLACK, "dash": [2, 2], "y": rest})
    factor, unit = _scale(max(max(curve["y"]) for curve in curves))
    for curve in curves:
        curve["y"] = [y * factor for y in curve["y"]]
    yield _panel("Throughput", unit, curves)


def draw(timeline: Mapping[str, Any], *, size: str = "full", title: str | None = None) -> Figure:
    """Draws the timeline of a link: panels over one time axis.

    Args:
        timeline: Data of `timelines`.
        size: Width of the figure, as for `lasthop.plot`.
        title: Title; default: the link and its hosts.
    """
    import numpy as np

    panels = timeline["panels"]
    with style.sheet():
        figure, axes = style.new_figure(size, len(panels), height=0.7 + 1.15 * len(panels))
        times = np.asarray(timeline["time"], dtype=float)
        for panel, place in zip(panels, axes, strict=True):
            for curve in panel["curves"]:
                values = np.asarray([np.nan if y is None else y for y in curve["y"]], dtype=float)
                is_thin = curve.get("thin", False)
                place.plot(
                    times,
                    values,
                    color=curve["colour"],
                    linestyle=(0, tuple(curve["dash"])) if curve["dash"] else "-",
                    drawstyle="steps-pre" if panel.get("steps") else "default",
                    linewidth=0.5 if is_thin else 1.0,
                    alpha=0.5 if is_thin else 1.0,
                    label=None if is_thin else curve["label"],
                )
            for mark in timeline["marks"]:
                place.axvline(mark["time"], color=BLACK, linewidth=0.6, linestyle=":")
            place.set_ylabel(f"{panel['title']}\n({panel['unit']})")
            place.set_ylim(bottom=0.0)
            _, labels = place.get_legend_handles_labels()
            columns = style.columns(labels, figure.get_figwidth() - 0.9)
            place.legend(
                frameon=False,
                ncols=columns,
                loc="lower left",
                bbox_to_anchor=(0.0, 0.98),
                borderaxespad=0.0,
                handlelength=1.8,
                columnspacing=1.0,
            )
        for mark in timeline["marks"]:
            axes[0].annotate(
                textwrap.shorten(mark["text"], 24, placeholder=" …"),
                (mark["time"], 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, -2),
                textcoords="offset points",
                fontsize=6.0,
                rotation=90,
                va="top",
            )
        axes[-1].set_xlabel("Time (s)")
        if len(times):
            axes[-1].set_xlim(0.0, float(times[-1]))
        between = timeline["between"]
        figure.suptitle(
            title if title is not None else f"{timeline['name']}: {between[0]} – {between[1]}",
            fontsize=8.0,
        )
    return figure
