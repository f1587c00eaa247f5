"""Figures of one replication: window and queues over time, and dispatch by kind.

`sequence` draws sequence numbers, `ladder` the frames of a link.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lasthop.evaluating.transfers import RECOVERY, TIMEOUT, recoveries, transfers_of
from lasthop.running.tracing import PHASE, Trace
from lasthop.showing.figures import style
from lasthop.showing.figures.ladder import draw_link
from lasthop.showing.figures.sequence import draw_sequence, end_of, senders, window_of
from lasthop.showing.figures.sources import PlotError
from lasthop.showing.figures.style import ORANGE, RED

__all__ = ["draw", "draw_panel", "shade_recoveries"]

PANELS = {
    "cwnd": "Congestion window (segments)",
    "ssthresh": "Slow start threshold (segments)",
    "pacing_rate_bps": "Pacing rate (bit/s)",
    "max_bw_bps": "Bandwidth estimate (bit/s)",
    "min_rtt_s": "Minimum RTT (s)",
    "bw_shortterm_bps": "Short-term rate bound (bit/s)",
    "inflight_shortterm": "Short-term bound (segments)",
    "inflight_longterm": "Long-term bound (segments)",
    "extra_acked": "ACK aggregation (segments)",
    "smoothed_rtt_s": "Smoothed RTT (s)",
    "latest_rtt_s": "RTT sample (s)",
    "in_flight_bytes": "In flight (B)",
    "phase": "Phase",
    "queue": "Queue (packets)",
}
SCALE = 0.7
"""Width in inches of labels and numbers of a vertical axis."""


def draw(
    traces: Sequence[Trace],
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
    """Draws traces on one time axis; arguments as for `lasthop.plot`."""
    trace = traces[0]
    if len(traces) > 1 and (kind == "series" or len({one.name for one in traces}) > 1):
        raise PlotError(
            f"cannot draw {len(traces)} replications with kind {kind}; use kind sequence or ladder "
            "with several points of one scenario"
        )
    if kind == "ladder":
        if link is None:
            raise PlotError(f"missing `link`: expected {', '.join(trace.hosts)}")
        if log:
            raise PlotError("`log` requires kind line, cdf or series")
        try:
            return draw_link(traces, link, start, end, title=title, size=size)
        except ValueError as error:
            raise PlotError(str(error)) from None
    if log not in ("", "none") and (kind != "series" or log != "y"):
        expected = "y or none" if kind == "series" else "none"
        raise PlotError(f"invalid value `{log}` for `log`: expected {expected} for kind {kind}")
    first = 0.0 if start is None else start
    until = max(end_of(one) for one in traces) if end is None else end
    if not first < until:
        raise PlotError(f"invalid value `{first:g} s` for `from`: expected before {until:g} s")
    with style.sheet():
        if kind == "series":
            figure = _series(trace.frame, y, size, first, until)
        else:
            figure = draw_sequence(traces, y, size, first, until)
        if log == "y":
            for axes in figure.axes:
                axes.set_yscale("log")
                axes.set_ylim(bottom=0.9)
        # Show the point of a sweep.
        if title is None:
            title = trace.point if len(traces) == 1 else ""
        if title:
            text = style.folded(title, 0.9 * figure.get_figwidth())
            # A legend above the figure leaves no space for its title.
            if figure.legends:
                figure.axes[0].set_title(text)
            else:
                figure.suptitle(text, fontsize=8.0)
    return figure


def _series(
    frame: pl.DataFrame, y: str | Sequence[str] | None, size: str, start: float, end: float
) -> Figure:
    present = set(frame["event"].unique())
    if any(name.startswith(PHASE) for name in present):
        present.add("phase")
    known = [name for name in PANELS if name in present]
    wanted = [y] if isinstance(y, str) else list(y or [n for n in ("cwnd", "queue") if n in known])
    for name in wanted:
        if name not in known:
            raise PlotError(f"invalid value `{name}` for `y`: expected {', '.join(known)}")
    if not wanted:
        raise PlotError("the trace has neither windows nor queues")
    figure, panels = style.new_figure(size, len(wanted), height=0.5 + 1.35 * len(wanted))
    for name, axes in zip(wanted, panels, strict=True):
        axes.set_ylabel(PANELS[name].replace(" (", "\n("))
        if name == "phase":
            _phases(axes, frame, start, end)
        else:
            draw_panel(axes, frame, name, start, end)
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


def draw_panel(axes: Axes, frame: pl.DataFrame, event: str, start: float, end: float) -> None:
    """Draws windows with thresholds and recoveries (event `cwnd`), or queues, over time."""
    own = frame.filter(pl.col("event") == event)
    if event == "queue":
        # Omit directions that never queue a packet behind the one being sent.
        busy = own.group_by("entity").agg(pl.col("value").max()).filter(pl.col("value") > 1)
        entities = sorted(busy["entity"]) or sorted(own["entity"].unique())
    else:
        entities = [name for name in senders(frame) if name in set(own["entity"])]
    for entity, (colour, _, _) in zip(entities, style.looks(entities), strict=True):
        values = own.filter(pl.col("entity") == entity)
        label = entity.partition(".")[2]
        # A finished flow has no window.
        last = frame.filter(pl.col("entity") == entity)["time_s"][-1] if event != "queue" else end
        events = window_of(values, start, min(end, max(last, start)))
        finite = events.filter(pl.col("value").is_finite())
        axes.step(
            finite["time_s"], finite["value"], where="post", label=label, color=colour, lw=0.8
        )
        if event == "cwnd" and finite.height:
            _threshold(axes, frame, entity, colour, (start, end), max(finite["value"].to_list()))
    if event == "cwnd":
        _timeouts(axes, frame, entities, start, end)
        if len(entities) == 1:
            shade_recoveries(axes, frame, entities[0], start, end)
    axes.margins(y=0.08)


def shade_recoveries(
    axes: Axes, frame: pl.DataFrame, entity: str, start: float, end: float
) -> None:
    """Shades loss recovery of a sender, distinguishing fast recovery and timeouts."""
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
    """Draws the slow start threshold; its high initial value is not shown."""
    events = frame.filter((pl.col("event") == "ssthresh") & (pl.col("entity") == entity))
    shown = window_of(events, *times).with_columns(
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


def _phases(axes: Axes, frame: pl.DataFrame, start: float, end: float) -> None:
    """Draws the phases of senders over time, one level per phase."""
    own = frame.filter(pl.col("event").str.starts_with(PHASE))
    names = own["event"].unique(maintain_order=True).to_list()
    own = own.with_columns(value=pl.col("event").replace_strict(names, range(len(names))))
    entities = [name for name in senders(frame) if name in set(own["entity"])]
    for entity, (colour, _, _) in zip(entities, style.looks(entities), strict=True):
        values = window_of(own.filter(pl.col("entity") == entity), start, end)
        label = entity.partition(".")[2]
        axes.step(values["time_s"], values["value"], where="post", label=label, color=colour)
    labels = [name.removeprefix(PHASE).replace("_", " ") for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.margins(y=0.08)


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
