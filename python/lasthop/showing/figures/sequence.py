"""Sequence numbers over time: segments sent, lost, retransmitted and acknowledged.

As in tcptrace, segments are points, cumulative acknowledgments a staircase and SACK blocks bars.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lasthop.evaluating.transfers import lost, transfers_of
from lasthop.running.tracing import Trace
from lasthop.showing.figures import style
from lasthop.showing.figures.sources import PlotError
from lasthop.showing.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Unit

__all__ = ["draw_sequence", "end_of", "senders", "window_of"]


def end_of(trace: Trace) -> float:
    """Returns the time of the last event of a trace."""
    last = trace.frame["time_s"].max()
    return float(last) if isinstance(last, (int, float)) else 0.0


def senders(frame: pl.DataFrame) -> list[str]:
    """Returns the TCP endpoints that send data, ordered by name."""
    sent = frame.filter((pl.col("event") == "segment_sent") & (pl.col("value") > 0))
    return sorted(sent["entity"].unique())


def window_of(events: pl.DataFrame, start: float, end: float) -> pl.DataFrame:
    """Returns the events from start to end, preceded by the last earlier one, which still holds."""
    before = events.filter(pl.col("time_s") < start).tail(1).with_columns(time_s=pl.lit(start))
    inside = events.filter(pl.col("time_s").is_between(start, end))
    # Extend the last value to the end of the figure.
    both = pl.concat([before, inside])
    return pl.concat([both, both.tail(1).with_columns(time_s=pl.lit(end))])


def draw_sequence(
    traces: Sequence[Trace], y: str | Sequence[str] | None, size: str, start: float, end: float
) -> Figure:
    """Draws the segments of one flow; several traces have one panel each, with equal axes."""
    entities = [_chosen(trace, y) for trace in traces]
    shown = []
    for trace, entity in zip(traces, entities, strict=True):
        own = transfers_of(trace.frame)[entity]
        inside = (own.sent >= start) & (own.sent <= end)
        if not inside.any():
            name = entity.removeprefix("flow.")
            where = f" ({trace.point})" if len(traces) > 1 else ""
            raise PlotError(f"no segment of {name}{where} between {start:g} s and {end:g} s")
        shown.append(own.sequence[inside])
    unit = style.scaled("bytes", np.concatenate(shown))
    height = style.SIZES[size][1] + 0.2 + 1.5 * (len(traces) - 1)
    figure, panels = style.new_figure(size, len(traces), height=height)
    for axes, trace, entity in zip(panels, traces, entities, strict=True):
        _draw(axes, trace, entity, unit, start, end)
        if len(traces) > 1:
            axes.set_title(style.folded(trace.point, 0.9 * figure.get_figwidth()))
    top = max(axes.get_ylim()[1] for axes in panels)
    low = max(min(axes.get_ylim()[0] for axes in panels), -0.02 * top)
    for axes in panels:
        axes.set_xlim(start, end)
        axes.set_ylim(low, top)
        axes.set_ylabel(unit.label("Sequence number"))
    for axes in panels[:-1]:
        axes.tick_params(labelbottom=False)
    panels[-1].set_xlabel("Time (s)")
    style.legend(figure, *panels)
    return figure


def _chosen(trace: Trace, y: str | Sequence[str] | None) -> str:
    """Returns the requested flow, by default the first one."""
    known = [name.removeprefix("flow.") for name in senders(trace.frame)]
    if not known:
        raise PlotError("the trace has no TCP sender: expected a flow over TCP")
    name = known[0] if y is None else y if isinstance(y, str) else y[0]
    if name.removeprefix("flow.") not in known:
        raise PlotError(f"invalid value `{name}` for `y`: expected {', '.join(known)}")
    return f"flow.{name.removeprefix('flow.')}"


def _draw(axes: Axes, trace: Trace, entity: str, unit: Unit, start: float, end: float) -> None:
    own = transfers_of(trace.frame)[entity]
    events = trace.frame.filter(pl.col("entity") == entity)
    inside = pl.col("time_s").is_between(start, end)
    shown = (own.sent >= start) & (own.sent <= end)
    repeated = own.repeated()
    missed = lost(own, end_of(trace))
    many = int(shown.sum())
    looks = (
        (~repeated, "sent", BLUE, ".", 2.2 if many > 300 else 4.0, 2),
        (repeated, "retransmitted", RED, "x", 3.2, 3),
        (missed, "lost", BLACK, "o", 6.0, 4),
    )
    for chosen, label, colour, marker, points, order in looks:
        part = shown & chosen
        if part.any():
            axes.plot(
                own.sent[part],
                own.sequence[part] / unit.per,
                linestyle="none",
                marker=marker,
                markersize=points,
                markerfacecolor="none" if marker == "o" else colour,
                markeredgewidth=0.8,
                color=colour,
                label=label,
                zorder=order,
                rasterized=many > 5000,
            )
    needless = events.filter((pl.col("event") == "spurious_retransmission") & inside)
    if needless.height:
        axes.plot(
            needless["time_s"],
            needless["sequence"] / unit.per,
            linestyle="none",
            marker="s",
            markersize=6.0,
            markerfacecolor="none",
            markeredgewidth=0.8,
            color=SKY,
            label="not needed",
            zorder=4,
        )
    blocks = events.filter((pl.col("event") == "sack_block") & inside)
    if blocks.height:
        ends = blocks["sequence"] + blocks["value"]
        axes.vlines(
            blocks["time_s"].to_list(),
            (blocks["sequence"] / unit.per).to_list(),
            (ends / unit.per).to_list(),
            color=PURPLE,
            lw=1.0,
            label="SACK block",
        )
    acks = events.filter(pl.col("event") == "ack_received").with_columns(
        value=pl.col("sequence").cum_max()
    )
    again = acks.filter((pl.col("value") == pl.col("value").shift(1)) & inside)
    if again.height:
        axes.plot(
            again["time_s"],
            again["value"] / unit.per,
            linestyle="none",
            marker="|",
            markersize=4.0,
            color=GREEN,
            label="duplicate ACK",
        )
    stairs = window_of(acks, start, end)
    axes.step(
        stairs["time_s"],
        stairs["value"] / unit.per,
        where="post",
        color=GREEN,
        lw=0.8,
        label="acknowledged",
    )
    mistakes = set(events.filter(pl.col("event") == "spurious_timeout")["time_s"])
    drawn = set()
    for time in events.filter((pl.col("event") == "timeout") & inside)["time_s"]:
        label, dashes = ("spurious timeout", ":") if time in mistakes else ("timeout", "--")
        shown_label = "_" if label in drawn else label
        drawn.add(label)
        axes.axvline(time, color=ORANGE, lw=0.8, linestyle=dashes, label=shown_label, zorder=1)
