"""Figures of one replication: window and queues, sequence numbers, frames of a link."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lasthop.figures import style
from lasthop.figures.selection import PlotError
from lasthop.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED
from lasthop.tracing import Trace
from lasthop.transfers import RECOVERY, TIMEOUT, recoveries, transfers_of

__all__ = ["draw"]

PANELS = {
    "cwnd": "Congestion window (segments)",
    "ssthresh": "Slow start threshold (segments)",
    "queue": "Queue (packets)",
}
SCALE = 0.7
"""Inches that labels and numbers of a vertical axis take."""


def draw(
    trace: Trace,
    kind: str,
    *,
    y: str | Sequence[str] | None,
    log: str,
    size: str,
    title: str | None,
    link: str | None,
    start: float | None,
    end: float | None,
) -> Figure:
    """Draws a trace; arguments as for `lasthop.plot`."""
    if kind == "ladder":
        if link is None:
            raise PlotError(f"link: found nothing; allowed: {', '.join(trace.hosts)}")
        if log:
            raise PlotError(f"log: found {log} of a ladder; allowed: of line, cdf and series")
        try:
            return trace.plot_link(link, start=start, end=end, title=title, size=size)
        except ValueError as error:
            raise PlotError(str(error)) from None
    if log not in ("", "none") and (kind != "series" or log != "y"):
        raise PlotError(f"log: found {log} of {kind}; allowed: y of series, or of line and cdf")
    last = trace.frame["time_s"].max()
    first = 0.0 if start is None else start
    until = float(last) if end is None and isinstance(last, (int, float)) else (end or 0.0)
    if not first < until:
        raise PlotError(f"from: found {first:g} s; allowed: before {until:g} s")
    with style.sheet():
        draw_kind = _series if kind == "series" else _sequence
        figure = draw_kind(trace.frame, y, size, first, until)
        if log == "y":
            for axes in figure.axes:
                axes.set_yscale("log")
                axes.set_ylim(bottom=0.9)
        # Of a sweep the picture says which point it shows.
        title = trace.point if title is None else title
        if title:
            text = style.folded(title, 0.9 * figure.get_figwidth())
            # A legend above the figure leaves no room for a title of it.
            if figure.legends:
                figure.axes[0].set_title(text)
            else:
                figure.suptitle(text, fontsize=8.0)
    return figure


def _senders(frame: pl.DataFrame) -> list[str]:
    """TCP ends that send data, in the order of their names."""
    sent = frame.filter((pl.col("event") == "segment_sent") & (pl.col("value") > 0))
    return sorted(sent["entity"].unique())


def _series(
    frame: pl.DataFrame, y: str | Sequence[str] | None, size: str, start: float, end: float
) -> Figure:
    known = [name for name in PANELS if (frame["event"] == name).any()]
    wanted = [y] if isinstance(y, str) else list(y or [n for n in ("cwnd", "queue") if n in known])
    for name in wanted:
        if name not in known:
            raise PlotError(f"y: found {name!r}; allowed: {', '.join(known)}")
    if not wanted:
        raise PlotError("y: found neither windows nor queues; allowed: a run that has them")
    figure, panels = style.new_figure(size, len(wanted), height=0.5 + 1.35 * len(wanted))
    for name, axes in zip(wanted, panels, strict=True):
        _draw_panel(axes, frame, name, start, end)
        axes.set_ylabel(PANELS[name].replace(" (", "\n("))
        axes.set_ylim(bottom=0.0)
        _, labels = axes.get_legend_handles_labels()
        if len(labels) > 1 or name == "cwnd":
            axes.legend(
                frameon=False,
                ncols=style.columns(labels, figure.get_figwidth() - SCALE),
                loc="lower left",
                bbox_to_anchor=(0.0, 0.98),
                borderaxespad=0.0,
                handlelength=1.6,
                columnspacing=1.0,
            )
    panels[-1].set_xlim(start, end)
    panels[-1].set_xlabel("Time (s)")
    return figure


def _draw_panel(axes: Axes, frame: pl.DataFrame, event: str, start: float, end: float) -> None:
    own = frame.filter(pl.col("event") == event)
    if event == "queue":
        # Directions that never hold more than what they are sending say nothing.
        busy = own.group_by("entity").agg(pl.col("value").max()).filter(pl.col("value") > 1)
        entities = sorted(busy["entity"]) or sorted(own["entity"].unique())
    else:
        entities = [name for name in _senders(frame) if name in set(own["entity"])]
    for entity, (colour, _, _) in zip(entities, style.looks(entities), strict=True):
        values = own.filter(pl.col("entity") == entity)
        label = entity.partition(".")[2]
        # The window of a finished flow is no window.
        last = frame.filter(pl.col("entity") == entity)["time_s"][-1] if event != "queue" else end
        events = _window(values, start, min(end, max(last, start)))
        finite = events.filter(pl.col("value").is_finite())
        axes.step(
            finite["time_s"], finite["value"], where="post", label=label, color=colour, lw=0.8
        )
        if event == "cwnd" and finite.height:
            _threshold(axes, frame, entity, colour, (start, end), max(finite["value"].to_list()))
    if event == "cwnd":
        _timeouts(axes, frame, entities, start, end)
        if len(entities) == 1:
            _recoveries(axes, frame, entities[0], start, end)
    axes.margins(y=0.08)


def _recoveries(axes: Axes, frame: pl.DataFrame, entity: str, start: float, end: float) -> None:
    """Shades the time in which a sender recovers from losses, told apart by how it began."""
    own = transfers_of(frame).get(entity)
    last = frame["time_s"].max()
    if own is None or not isinstance(last, (int, float)):
        return
    looks = {RECOVERY: ("fast recovery", ORANGE), TIMEOUT: ("after a timeout", RED)}
    for first, until, kind in recoveries(own, frame.filter(entity=entity), float(last)):
        if until <= start or first >= end:
            continue
        text, colour = looks[kind]
        known = axes.get_legend_handles_labels()[1]
        axes.axvspan(
            max(first, start),
            min(until, end),
            color=colour,
            alpha=0.15,
            linewidth=0,
            label="_" if text in known else text,
        )


def _threshold(
    axes: Axes,
    frame: pl.DataFrame,
    entity: str,
    colour: str,
    times: tuple[float, float],
    most: float,
) -> None:
    """The slow start threshold beside the window; at first it is far above and not shown."""
    events = frame.filter((pl.col("event") == "ssthresh") & (pl.col("entity") == entity))
    shown = _window(events, *times).with_columns(
        value=pl.when(pl.col("value") <= 1.5 * most).then(pl.col("value"))
    )
    if shown["value"].null_count() < shown.height:
        axes.step(
            shown["time_s"],
            shown["value"],
            where="post",
            color=colour,
            lw=0.7,
            linestyle=":",
            label="ssthresh" if "ssthresh" not in axes.get_legend_handles_labels()[1] else "_",
        )


def _window(events: pl.DataFrame, start: float, end: float) -> pl.DataFrame:
    """What happens from start to end, with the last event before it, whose value still holds."""
    before = events.filter(pl.col("time_s") < start).tail(1).with_columns(time_s=pl.lit(start))
    inside = events.filter(pl.col("time_s").is_between(start, end))
    # And up to the end of the picture.
    both = pl.concat([before, inside])
    return pl.concat([both, both.tail(1).with_columns(time_s=pl.lit(end))])


def _timeouts(
    axes: Axes, frame: pl.DataFrame, entities: Sequence[str], start: float, end: float
) -> None:
    own = frame.filter((pl.col("event") == "timeout") & pl.col("entity").is_in(entities))
    times = own.filter(pl.col("time_s").is_between(start, end))["time_s"]
    if len(times):
        axes.plot(
            times,
            [0.0] * len(times),
            linestyle="none",
            marker=2,  # a tick upwards from the axis
            color=ORANGE,
            markersize=5.0,
            clip_on=False,
            label="timeout",
        )


def _sequence(
    frame: pl.DataFrame, y: str | Sequence[str] | None, size: str, start: float, end: float
) -> Figure:
    senders = _senders(frame)
    known = [name.removeprefix("flow.") for name in senders]
    if not senders:
        raise PlotError("kind: found no TCP sender in this trace; allowed: a flow over TCP")
    name = known[0] if y is None else y if isinstance(y, str) else y[0]
    if name.removeprefix("flow.") not in known:
        raise PlotError(f"y: found {name!r}; allowed: {', '.join(known)}")
    entity = f"flow.{name.removeprefix('flow.')}"
    own = frame.filter(pl.col("entity") == entity)
    inside = pl.col("time_s").is_between(start, end)
    sent = own.filter((pl.col("event") == "segment_sent") & (pl.col("value") > 0)).with_columns(
        repeated=pl.col("sequence") < (pl.col("sequence") + pl.col("value")).cum_max().shift(1)
    )
    acks = own.filter(pl.col("event") == "ack_received").with_columns(
        value=pl.col("sequence").cum_max()
    )
    figure, (axes,) = style.new_figure(size, height=style.SIZES[size][1] + 0.2)
    shown = sent.filter(inside)
    if shown.is_empty():
        raise PlotError(f"from: found no segment of {name} from {start:g} s to {end:g} s")
    unit = style.scaled("bytes", shown["sequence"])
    lost = _lost(sent, frame.filter(pl.col("entity") == f"{entity}.receiver"))
    looks = (
        (False, "sent", BLUE, ".", 2.2 if shown.height > 300 else 4.0),
        (True, "sent again", RED, "x", 3.2),
    )
    for repeated, label, colour, marker, points in looks:
        # The first segment has none before it.
        part = shown.filter(pl.col("repeated").fill_null(value=False) == repeated)
        if part.height:
            axes.plot(
                part["time_s"],
                part["sequence"] / unit.per,
                linestyle="none",
                marker=marker,
                markersize=points,
                color=colour,
                label=label,
                zorder=3 if repeated else 2,
                rasterized=part.height > 5000,
            )
    part = shown.join(lost, on=["time_s", "sequence"], how="semi")
    if part.height:
        axes.plot(
            part["time_s"],
            part["sequence"] / unit.per,
            linestyle="none",
            marker="o",
            markersize=6.0,
            markerfacecolor="none",
            color=BLACK,
            markeredgewidth=0.8,
            label="lost",
            zorder=4,
        )
    blocks = own.filter((pl.col("event") == "sack_block") & inside)
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
    repeated_acks = acks.filter((pl.col("value") == pl.col("value").shift(1)) & inside)
    if repeated_acks.height:
        axes.plot(
            repeated_acks["time_s"],
            repeated_acks["value"] / unit.per,
            linestyle="none",
            marker="|",
            markersize=4.0,
            color=GREEN,
            label="duplicate ACK",
        )
    stairs = _window(acks, start, end)
    axes.step(
        stairs["time_s"],
        stairs["value"] / unit.per,
        where="post",
        color=GREEN,
        lw=0.8,
        label="acknowledged",
    )
    times = own.filter((pl.col("event") == "timeout") & inside)["time_s"]
    for index, time in enumerate(times):
        label = "timeout" if index == 0 else "_"
        axes.axvline(time, color=ORANGE, lw=0.8, linestyle="--", label=label, zorder=1)
    axes.set_xlim(start, end)
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -0.02 * math.fabs(high)), high)
    axes.set_xlabel("Time (s)")
    axes.set_ylabel(unit.label("Sequence number"))
    style.legend(figure, axes)
    return figure


def _lost(sent: pl.DataFrame, receiver: pl.DataFrame) -> pl.DataFrame:
    """Segments (`time_s`, `sequence`) that never arrived.

    What arrives is taken for the last copy sent before: an earlier one would have arrived earlier.
    """
    arrived: dict[float, list[float]] = {}
    for time, sequence in receiver.filter(pl.col("event") == "segment_received")[
        "time_s", "sequence"
    ].iter_rows():
        arrived.setdefault(sequence, []).append(time)
    copies: dict[float, list[float]] = {}
    for time, sequence in sent["time_s", "sequence"].iter_rows():
        copies.setdefault(sequence, []).append(time)
    lost = []
    for sequence, times in copies.items():
        left = list(times)
        for at in arrived.get(sequence, ()):
            before = [time for time in left if time <= at]
            if before:
                left.remove(before[-1])
        lost += [(time, sequence) for time in left]
    return pl.DataFrame(lost, schema={"time_s": pl.Float64, "sequence": pl.Float64}, orient="row")
