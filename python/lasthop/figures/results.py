"""Figures of results: means over a parameter, distributions over replications."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from lasthop.figures import style
from lasthop.figures.selection import Curve, Parameter, PlotError
from lasthop.figures.style import Unit

__all__ = ["draw_cdf", "draw_line"]

MOST_CURVES = 12
MOST_TICKS = 8
MOST_BARS = 24
"""Points of a curve with an error bar each; of more the interval is a band along the curve."""

MOST_SLANTED = 18
"""Letters of a word under the axis that may be slanted; longer ones are folded."""

LEAST_FOLDED = 10
"""Letters that a line of a folded word must have room for, or it stands upright."""

LEAST_GAP = 0.07
"""Of the width of an axis, between ticks whose labels must not touch."""


def draw_line(
    across: Parameter | None,
    curves: Sequence[Curve],
    *,
    log: str,
    size: str,
    xlabel: str | None,
    ylabel: str | None,
    title: str | None,
) -> Figure:
    """Draws means over a parameter with 95 % intervals; arguments as for `lasthop.plot`."""
    if across is None:
        raise PlotError("x: found nothing; allowed: a swept key")
    _check(curves)
    with style.sheet():
        figure, (axes,) = style.new_figure(size)
        found = [curve.estimates() for curve in curves]
        metric = curves[0].metric
        unit = style.scaled(style.metric_unit(metric), (one.value for own in found for one in own))
        along = style.scaled(across.kind, across.positions)
        for curve, own, look in zip(curves, found, _looks(curves), strict=True):
            colour, marker, line = look
            value, low, high = (
                np.array([getattr(one, name) for one in own]) / unit.per
                for name in ("value", "low", "high")
            )
            # Where there is no interval, there is no bar.
            off = np.nan_to_num(np.maximum([value - low, high - value], 0.0))
            at = across.positions[list(curve.places)] / along.per
            label = curve.label or None
            if across.words is None and at.size > MOST_BARS:
                axes.plot(at, value, label=label, color=colour, linestyle=line)
                band = (value - off[0], value + off[1])
                axes.fill_between(at, *band, color=colour, alpha=0.25, linewidth=0.0)
                continue
            axes.errorbar(
                at,
                value,
                yerr=off,
                label=label,
                color=colour,
                marker=marker,
                # Between words there is nothing that a line could show.
                linestyle=line if across.words is None else "none",
                markerfacecolor="white",
                markeredgewidth=0.9,
                elinewidth=0.9,
                capsize=2.0,
                capthick=0.9,
            )
        _scale_x(figure, axes, across, along, log)
        shown = [one.value / unit.per for own in found for one in own]
        _scale_y(axes, shown, log)
        xlabel = along.label(across.label) if xlabel is None else xlabel
        ylabel = unit.label(style.metric_label(metric)) if ylabel is None else ylabel
        _finish(figure, axes, xlabel, ylabel, title)
    return figure


def draw_cdf(
    across: Parameter | None,  # noqa: ARG001 - as for the other kind
    curves: Sequence[Curve],
    *,
    log: str,
    size: str,
    xlabel: str | None,
    ylabel: str | None,
    title: str | None,
) -> Figure:
    """Draws distributions over replications; arguments as for `lasthop.plot`."""
    _check(curves)
    with style.sheet():
        figure, (axes,) = style.new_figure(size)
        metric = curves[0].metric
        pooled = np.concatenate([samples for curve in curves for samples in curve.samples])
        unit = style.scaled(style.metric_unit(metric), pooled)
        if "x" in log and pooled.min() <= 0.0:
            raise PlotError(f"log: found {metric} of 0 or less; allowed: values above 0")
        for curve, (colour, _, line) in zip(curves, _looks(curves), strict=True):
            values = np.sort(np.concatenate(curve.samples)) / unit.per
            share = np.arange(values.size + 1) / values.size
            axes.step(
                np.concatenate([values[:1], values]),
                share,
                where="post",
                label=curve.label or None,
                color=colour,
                linestyle=line,
            )
        if "x" in log:
            axes.set_xscale("log")
            _plain(axes, "x")
        if "y" in log:
            axes.set_yscale("log")
            _plain(axes, "y")
        else:
            axes.set_ylim(0.0, 1.02)
        xlabel = unit.label(style.metric_label(metric)) if xlabel is None else xlabel
        ylabel = "Share of replications" if ylabel is None else ylabel
        _finish(figure, axes, xlabel, ylabel, title)
    return figure


def _check(curves: Sequence[Curve]) -> None:
    if not curves:
        raise PlotError("y: found no numbers; allowed: a metric of finished replications")
    if len(curves) > MOST_CURVES:
        raise PlotError(
            f"by: found {len(curves)} curves; allowed: at most {MOST_CURVES}, chosen with where"
        )


def _looks(curves: Sequence[Curve]) -> list[style.Style]:
    return style.looks(curve.label for curve in curves)


def _finish(figure: Figure, axes: Axes, xlabel: str, ylabel: str, title: str | None) -> None:
    width, height = figure.get_size_inches()
    axes.set_xlabel(style.folded(xlabel, 0.9 * width))
    axes.set_ylabel(style.folded(ylabel, 0.8 * height))
    if title is not None:
        axes.set_title(style.folded(title, 0.9 * width))
    style.legend(figure, axes)


def _scale_x(figure: Figure, axes: Axes, across: Parameter, unit: Unit, log: str) -> None:
    positions = across.positions / unit.per
    if across.words is not None:
        if "x" in log:
            raise PlotError("log: found words on the x-axis; allowed: numbers")
        _word_ticks(figure, axes, positions, across.words)
        axes.set_xlim(-0.4, len(positions) - 0.6)
        return
    if "x" in log:
        if positions[0] <= 0.0:
            raise PlotError(f"log: found {positions[0]:g} on the x-axis; allowed: above 0")
        axes.set_xscale("log")
    _ticks(axes, positions, is_log="x" in log)


def _word_ticks(figure: Figure, axes: Axes, positions: np.ndarray, words: Sequence[str]) -> None:
    """Words under the axis: flat if they have room, else slanted, folded or upright."""
    letter, line = 0.06, 0.12
    width, height = figure.get_size_inches()
    room = 0.8 * width / len(words)
    if max(map(len, words)) <= MOST_SLANTED:
        axes.set_xticks(positions, words)
        if sum(map(len, words)) * letter > 0.8 * width:
            for text in axes.get_xticklabels():
                text.set(rotation=25, ha="right", rotation_mode="anchor")
        return
    is_flat = room >= LEAST_FOLDED * letter
    # Upright ones have as many lines as stand beside each other.
    upright = 1.2 * letter * max(map(len, words)) / max(int(room / line), 1)
    most = room if is_flat else max(upright, 0.5 * height)
    # Words of several lines are hardly ever as wide as their letters may be.
    lines = [style.folded(word, most, 0.85 * letter) for word in words]
    axes.set_xticks(positions, lines)
    if is_flat:
        more = line * max(text.count("\n") for text in lines)
    else:
        more = letter * max(len(part) for text in lines for part in text.split("\n"))
        for text in axes.get_xticklabels():
            text.set(rotation=90)
    # Long words are not at the cost of the picture.
    figure.set_figheight(height + more)


def _ticks(axes: Axes, positions: np.ndarray, *, is_log: bool) -> None:
    """Ticks at the values themselves where they have room."""
    places = np.log(positions) if is_log else positions
    gaps = np.diff(places) / np.ptp(places) if positions.size > 1 else np.ones(1)
    if positions.size <= MOST_TICKS and gaps.min() >= LEAST_GAP:
        axes.set_xticks(positions, [f"{value:.4g}" for value in positions])
        axes.xaxis.set_minor_locator(NullLocator())
    elif is_log:
        _plain(axes, "x")


def _scale_y(axes: Axes, values: Sequence[float], log: str) -> None:
    known = [value for value in values if math.isfinite(value)]
    if "y" in log:
        if not known or min(known) <= 0.0:
            raise PlotError("log: found a mean of 0 or less; allowed: means above 0")
        axes.set_yscale("log")
        _plain(axes, "y")
    elif known and 0.0 <= min(known) <= 0.6 * max(known):
        # A scale that shows how much it is, unless only differences could be seen.
        axes.set_ylim(bottom=0.0)


def _plain(axes: Axes, which: str) -> None:
    """Numbers rather than powers of ten, where they are short."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
    if low >= 1e-3 and high <= 1e5:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if high / low < 100.0:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_formatter(NullFormatter())
