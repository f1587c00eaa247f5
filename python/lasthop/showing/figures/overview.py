"""The figure of `lasthop trace`: windows, sequence numbers, queues and link events over time.

The panel of windows has the slow start threshold and shaded recoveries.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lasthop.running.tracing import Trace
from lasthop.showing.figures.sequence import senders
from lasthop.showing.figures.style import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Picture
from lasthop.showing.figures.traces import draw_panel, shade_recoveries

__all__ = ["draw_trace"]


def draw_trace(trace: Trace) -> Figure:
    """Draws congestion windows, sequence numbers, queues and losses of a replication over time."""
    panels = [
        ("Congestion window (segments)", _draw_windows),
        ("Sequence number (kB)", _draw_sequences),
        ("Queue (packets)", _draw_queues),
        ("Link events", _draw_link_events),
    ]
    frame = _of_data_senders(trace.frame)
    figure = Picture(figsize=(8.0, 10.0), layout="constrained")
    rows = figure.subplots(len(panels), 1, sharex=True)
    for axes, (label, draw) in zip(rows, panels, strict=True):
        draw(axes, frame)
        axes.set_ylabel(label, fontsize=8)
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        handles, names = axes.get_legend_handles_labels()
        if handles:
            # Above the panel, where it hides nothing; one entry per name.
            named = dict(zip(names, handles, strict=True))
            axes.legend(
                named.values(),
                named.keys(),
                frameon=False,
                fontsize=7,
                ncols=6,
                markerscale=2,
                loc="lower left",
                bbox_to_anchor=(0, 1),
                borderaxespad=0.2,
            )
    figure.suptitle(trace.name, fontsize=10)
    rows[-1].set_xlabel("Time (s)")
    return figure


def _of_data_senders(frame: pl.DataFrame) -> pl.DataFrame:
    """Removes TCP endpoints that send no data, whose windows and numbers are not informative."""
    senders = frame.filter((pl.col("event") == "segment_sent") & (pl.col("value") > 0))["entity"]
    is_link = pl.col("entity").str.starts_with("link.")
    return frame.filter(is_link | pl.col("entity").is_in(senders.unique().implode()))


def _entities(frame: pl.DataFrame, event: str) -> Iterable[tuple[str, pl.DataFrame, str]]:
    """Yields name, events and colour of each entity with events of a kind."""
    own = frame.filter(pl.col("event") == event)
    colours = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
    for index, entity in enumerate(own["entity"].unique(maintain_order=True)):
        yield entity, own.filter(pl.col("entity") == entity), colours[index % len(colours)]


def _draw_windows(axes: Axes, frame: pl.DataFrame) -> None:
    """Draws windows, thresholds and recoveries, as the trace view of `lasthop explore` does."""
    draw_panel(axes, frame, "cwnd", 0.0, _end(frame))
    axes.set_ylim(bottom=0.0)


def _end(frame: pl.DataFrame) -> float:
    """The time of the last event in seconds."""
    last = frame["time_s"].max()
    return float(last) if isinstance(last, (int, float)) else 0.0


def _draw_sequences(axes: Axes, frame: pl.DataFrame) -> None:
    _shade(axes, frame)
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


def _shade(axes: Axes, frame: pl.DataFrame) -> None:
    """Shades the recoveries of a single sender; the panel of windows explains the colours."""
    names = senders(frame)
    if len(names) == 1:
        before = len(axes.patches)
        shade_recoveries(axes, frame, names[0], 0.0, _end(frame))
        for patch in axes.patches[before:]:
            patch.set_label("_")


def _draw_queues(axes: Axes, frame: pl.DataFrame) -> None:
    _shade(axes, frame)
    draw_panel(axes, frame, "queue", 0.0, _end(frame))


def _draw_link_events(axes: Axes, frame: pl.DataFrame) -> None:
    shown = {
        "frame_lost": ("frame lost", "x", RED),
        "drop": ("dropped by the queue", "v", PURPLE),
        "nack_sent": ("NACK sent", "1", ORANGE),
        "retransmitted": ("frame retransmitted", ".", BLUE),
        "timed_out": ("link timeout", "|", GREEN),
        "abandoned": ("frame discarded", "s", SKY),
    }
    own = frame.filter(pl.col("event").is_in(list(shown)))
    rows = {entity: row for row, entity in enumerate(sorted(own["entity"].unique()))}
    present = [event for event in shown if (own["event"] == event).any()]
    for index, event in enumerate(present):
        label, marker, colour = shown[event]
        events = own.filter(pl.col("event") == event)
        # Slightly offset, so that a loss and its recovery are both visible.
        offset = 0.12 * (index - (len(present) - 1) / 2)
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
