"""Pictures: the figures of studies, and the course of one replication.

Drawing needs no display. Colours are those of Okabe and Ito, which people with any common colour
blindness can tell apart; each combination of protocols also has its own marker and line, the same
in every figure. Of TCP variants over links, colour tells the transport, the line tells the link.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

if TYPE_CHECKING:
    from lasthop.artefacts import Artefact
    from lasthop.studies import ReportCell
    from lasthop.tracing import Trace

__all__ = ["draw_figure", "draw_trace", "save"]

BLACK = "#000000"
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
)
STYLES = {
    "Reno/Raw": (BLUE, "o", "--"),
    "SACK/Raw": (RED, "s", "--"),
    "Reno/SR": (BLUE, "^", "-"),
    "SACK/SR": (RED, "D", "-"),
    "Raw link": (BLACK, "o", "--"),
    "Go-Back-N": (ORANGE, "v", "--"),
    "Selective Repeat": (BLUE, "^", "-"),
    "Karn RLP": (RED, "D", "-"),
    "Karn RLP, no keep-alives": (PURPLE, "d", ":"),
    "Berkeley Snoop": (GREEN, "s", "-."),
    "Snoop, one state a host pair": (GREEN, "x", ":"),
    "XOR FEC": (SKY, "P", "-."),
    "Out-of-Sequence RLP": (PURPLE, "X", "-"),
}
OTHERS = (
    (GREEN, "v", "-."),
    (PURPLE, "P", "-."),
    (ORANGE, "X", ":"),
    (SKY, "*", ":"),
    (BLUE, "o", "--"),
    (RED, "D", "-"),
    (BLACK, "s", "--"),
)


THEORY = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
"""Lines of model curves that have no points beside them, one after the other."""

LONG_NAME = 26
"""Letters of the longest name with which a legend has three columns."""

MOST_TICKS = 9
"""Points of an x-axis that each have a tick."""

FORMATS: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}
"""What a picture can be written as, and what has to be left out for the same bytes each time."""


def draw_figure(artefact: Artefact, cells: Sequence[ReportCell]) -> Figure:
    """Draws a quantity over a coordinate, one curve a column, with 95 % intervals.

    Theory is a line without markers. Where a column has its model beside it, only markers show what
    was simulated.

    Where the artefact shows the spread, thin bars with caps are plus and minus one standard
    deviation, thick ones the 95 % interval of the mean; markers are hollow, so that curves that
    coincide all show.

    Args:
        artefact: The figure.
        cells: The report's cells; those of other artefacts are left out.
    """
    spread = artefact.spread
    figure = Figure(
        figsize=(5.2, 4.4 if spread or any(one.is_model for one in artefact.series) else 3.9),
        layout="constrained",
    )
    axes = figure.subplots()
    unit = artefact.quantity.unit
    own = [cell for cell in cells if cell.artefact == artefact.name and cell.unit == unit]
    columns = list(dict.fromkeys(cell.column for cell in own))
    styles = _styles(artefact, columns)
    modelled = {one.beside for one in artefact.series}
    _draw_curves(axes, artefact, styles)
    theory = [one.name for one in artefact.series if one.is_model]
    for column in columns:
        if column in theory:
            continue
        colour, marker, line = styles[column]
        points = [cell for cell in own if cell.column == column and not math.isnan(cell.value)]
        across = [float(cell.row) for cell in points]
        up = [cell.value for cell in points]
        ci95 = [0.0 if math.isnan(cell.ci95) else cell.ci95 for cell in points]
        sd = [0.0 if math.isnan(cell.sd) else cell.sd for cell in points]
        axes.errorbar(
            across,
            up,
            yerr=sd if spread else ci95,
            label=_pretty(column),
            color=colour,
            marker=marker,
            linestyle="none" if column in modelled else line,
            markersize=5,
            markerfacecolor="none" if spread else "white",
            linewidth=1.1 if spread else 1.3,
            elinewidth=0.7 if spread else None,
            capsize=2.5,
            clip_on=not spread,
        )
        if spread:
            axes.errorbar(across, up, yerr=ci95, fmt="none", ecolor=colour, elinewidth=2.6)
    axes.set_xlabel(_pretty(artefact.axis.label))
    axes.set_ylabel(
        _pretty(" ".join(filter(None, (artefact.quantity.label, unit and f"({unit})"))))
    )
    _scale(axes, artefact)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    title = f"{artefact.name.removesuffix(' (figure)')}. {artefact.caption}"
    outside = spread or bool(theory)
    axes.set_title(_pretty(_wrapped(title) if outside else title), fontsize=9)
    if columns and outside:
        # Outside, where it hides no curve.
        shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        order = [_pretty(one.name) for one in artefact.series if _pretty(one.name) in shown]
        shown = {name: shown[name] for name in order}
        if modelled - {""}:
            shown["lines: model"] = Line2D([], [], color=BLACK, linewidth=1.3)
        figure.legend(
            shown.values(),
            shown.keys(),
            frameon=False,
            fontsize=8,
            ncols=3 if max(map(len, order)) <= LONG_NAME else 2,
            loc="outside lower center",
        )
    elif columns:
        axes.legend(frameon=False, fontsize=8)
    return figure


def _styles(artefact: Artefact, columns: Sequence[str]) -> dict[str, tuple[str, str, Any]]:
    """Colour, marker and line of each column; a model curve has the colour of what it is beside."""
    spare = iter(OTHERS * len(columns))
    lines = iter(THEORY * len(columns))
    styles: dict[str, tuple[str, str, Any]] = {}
    for one in artefact.series:
        if one.beside in styles:
            colour, marker, _ = styles[one.beside]
            styles[one.name] = colour, marker, "-"
        elif one.name in columns:
            colour, marker, line = STYLES.get(one.name) or next(spare)
            styles[one.name] = colour, marker, next(lines) if one.is_model else line
    return styles


def _draw_curves(
    axes: Axes, artefact: Artefact, styles: Mapping[str, tuple[str, str, Any]]
) -> None:
    """Draws what theory says."""
    for one in artefact.series:
        if one.is_model and one.name in styles:
            colour, _, line = styles[one.name]
            label = None if one.beside else _pretty(one.name)
            curve = artefact.curve(one.name)
            axes.plot(*curve, label=label, color=colour, linestyle=line, linewidth=1.3)


def _scale(axes: Axes, artefact: Artefact) -> None:
    """Scales and ticks of both axes."""
    rows = artefact.rows
    axes.set_xscale(artefact.axis.scale)
    if len(rows) <= MOST_TICKS:
        axes.set_xticks(list(rows), [f"{row:g}" for row in rows])
        axes.minorticks_off()
    axes.set_yscale(artefact.quantity.scale)
    if artefact.quantity.scale == "linear" or artefact.quantity.low > 0.0:
        axes.set_ylim(bottom=artefact.quantity.low)


def _wrapped(title: str) -> str:
    """A title in lines that do not part a value from its name and unit."""
    return textwrap.fill(re.sub(r" = ([\d.]+)( m?s\b)?", _whole, title), 68)


def _whole(value: re.Match[str]) -> str:
    return value[0].replace(" ", "\N{NO-BREAK SPACE}")


def _pretty(text: str) -> str:
    """Names such as M_t with a true index."""
    return re.sub(r"\b([A-Za-z])_([A-Za-z])\b", r"$\1_\2$", text)


def draw_trace(trace: Trace) -> Figure:
    """Draws one replication: congestion windows, sequence numbers, queues, losses, over time."""
    panels = [
        ("Congestion window (segments)", _draw_windows),
        ("Sequence number (kB)", _draw_sequences),
        ("Queue (packets)", _draw_queues),
        ("Link events", _draw_link_events),
    ]
    frame = _of_data_senders(trace.frame)
    figure = Figure(figsize=(8.0, 10.0), layout="constrained")
    rows = figure.subplots(len(panels), 1, sharex=True)
    for axes, (label, draw) in zip(rows, panels, strict=True):
        draw(axes, frame)
        axes.set_ylabel(label, fontsize=8)
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        handles, names = axes.get_legend_handles_labels()
        if handles:
            # Above the panel, where it hides nothing; one entry a name.
            named = dict(zip(names, handles, strict=True))
            axes.legend(
                named.values(),
                named.keys(),
                frameon=False,
                fontsize=7,
                ncols=4,
                markerscale=2,
                loc="lower left",
                bbox_to_anchor=(0, 1),
                borderaxespad=0.2,
            )
    figure.suptitle(trace.name, fontsize=10)
    rows[-1].set_xlabel("Time (s)")
    return figure


def _of_data_senders(frame: pl.DataFrame) -> pl.DataFrame:
    """Without the TCP ends that send no data: their windows and their ACKs' numbers say nothing."""
    senders = frame.filter((pl.col("event") == "segment_sent") & (pl.col("value") > 0))["entity"]
    is_link = pl.col("entity").str.starts_with("link.")
    return frame.filter(is_link | pl.col("entity").is_in(senders.unique().implode()))


def _entities(frame: pl.DataFrame, event: str) -> Iterable[tuple[str, pl.DataFrame, str]]:
    """Per entity that has such events: its name, the events, a colour."""
    own = frame.filter(pl.col("event") == event)
    colours = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
    for index, entity in enumerate(own["entity"].unique(maintain_order=True)):
        yield entity, own.filter(pl.col("entity") == entity), colours[index % len(colours)]


def _draw_windows(axes: Axes, frame: pl.DataFrame) -> None:
    for entity, events, colour in _entities(frame, "cwnd"):
        axes.step(
            events["time_s"], events["value"], where="post", label=entity, color=colour, lw=0.9
        )


def _draw_sequences(axes: Axes, frame: pl.DataFrame) -> None:
    for event, marker, size in (("segment_sent", ".", 1.5), ("ack_received", "_", 3.0)):
        for entity, events, colour in _entities(frame, event):
            axes.plot(
                events["time_s"],
                events["sequence"] / 1000.0,
                linestyle="none",
                marker=marker,
                markersize=size,
                color=colour if event == "segment_sent" else GREEN,
                label=f"{entity} {event.replace('_', ' ')}",
                rasterized=True,
            )
    for entity, events, _ in _entities(frame, "timeout"):
        for index, time in enumerate(events["time_s"]):
            label = f"{entity} timeout" if index == 0 else None
            axes.axvline(time, color=ORANGE, linewidth=0.5, label=label)


def _draw_queues(axes: Axes, frame: pl.DataFrame) -> None:
    for entity, events, colour in _entities(frame, "queue"):
        axes.step(
            events["time_s"], events["value"], where="post", label=entity, color=colour, lw=0.9
        )


def _draw_link_events(axes: Axes, frame: pl.DataFrame) -> None:
    shown = {
        "frame_lost": ("frame lost", "x", RED),
        "drop": ("dropped by the queue", "v", PURPLE),
        "nack_sent": ("NACK sent", "1", ORANGE),
        "retransmitted": ("frame sent again", ".", BLUE),
        "timed_out": ("link timeout", "|", GREEN),
        "abandoned": ("frame given up", "s", SKY),
    }
    own = frame.filter(pl.col("event").is_in(list(shown)))
    rows = {entity: row for row, entity in enumerate(sorted(own["entity"].unique()))}
    for index, (event, (label, marker, colour)) in enumerate(shown.items()):
        events = own.filter(pl.col("event") == event)
        if events.is_empty():
            continue
        # A little apart, so that a loss and what repairs it can both be seen.
        offset = 0.12 * (index - 2)
        axes.plot(
            events["time_s"],
            [rows[entity] + offset for entity in events["entity"]],
            linestyle="none",
            marker=marker,
            markersize=4,
            color=colour,
            label=label,
            rasterized=True,
        )
    axes.set_yticks(list(rows.values()), list(rows), fontsize=7)
    axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)


def save(figure: Figure, path: Path, *formats: str) -> list[Path]:
    """Writes a figure as `path` with each format's suffix; the same figure, the same bytes.

    Raises:
        OSError: If a file cannot be written.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once, not once a format
    written = []
    for suffix in formats:
        file = path.with_name(f"{path.name}.{suffix}")
        with rc_context({"svg.hashsalt": "lasthop", "pdf.fonttype": 42}):
            dpi = max(figure.get_dpi(), 150)
            figure.savefig(file, format=suffix, dpi=dpi, metadata=FORMATS[suffix])
        written.append(file)
    return written
