"""Figures of results: means over a parameter, distributions over replications."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from lasthop.evaluating.statistics import Confidence, Floats
from lasthop.evaluating.swept import Parameter
from lasthop.showing.figures import style
from lasthop.showing.figures.selection import Curve
from lasthop.showing.figures.sources import PlotError
from lasthop.showing.figures.style import Unit
from lasthop.showing.labels import bars_note

__all__ = ["draw_cdf", "draw_line"]

Rows = Sequence[Sequence[tuple[str, Artist]]]
"""Entries of a legend by row."""

MOST_CURVES, MOST_IN_PANEL = 48, 12
MOST_TOGETHER = 6
"""Maximum number of curves per panel that two or more keys distinguish."""

MOST_TICKS = 8
MOST_BARS = 24
"""Maximum number of points with error bars; longer curves have a band."""
LINE = 0.13
"""Height in inches of a line below the axis."""

MOST_SLANTED = 18
"""Maximum length of slanted words below the axis; longer ones are wrapped."""

LEAST_FOLDED = 10
"""Minimum line length of wrapped words; otherwise they are vertical."""

DECADES = 100.0
"""Minimum ratio of the largest to the smallest value for a logarithmic axis by default."""

LEAST_GAP = 0.07
"""Minimum distance of labelled ticks, as a fraction of the axis."""


def draw_line(
    across: Parameter | None,
    curves: Sequence[Curve],
    *,
    log: str,
    size: str,
    xlabel: str | None,
    ylabel: str | None,
    title: str | None,
    paper: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Draws means over a parameter with 95 % intervals; arguments as for `lasthop.plot`."""
    if across is None:
        raise PlotError("missing `x`: expected a swept key")
    _check(curves)
    with style.sheet():
        panels = _panels(curves) if ax is None else [("", list(curves))]
        figure, places = _places(size, len(panels), ax)
        metric = curves[0].metric
        found = [[curve.estimates() for curve in own] for _, own in panels]
        values = [one.value for panel in found for own in panel for one in own]
        unit = style.scaled(style.metric_unit(metric), values)
        along = style.scaled(across.kind, across.positions)
        means = [value / unit.per for value in values]
        log = log or _scales(across, means)
        shown = [curve for _, own in panels for curve in own]
        looks, rows = _looks(shown), _rows(shown)
        most = max(len(own) for _, own in panels)
        for axes, (panel, own), estimates in zip(places, panels, found, strict=True):
            for number, (curve, points) in enumerate(zip(own, estimates, strict=True)):
                at = across.positions[list(curve.places)] / along.per
                aside = _aside(across, along, log, number, most)
                is_line = across.words is None
                _curve(axes, at, aside, points, unit, curve.label, looks[curve.words], is_line)
            if panel:
                axes.set_title(panel)
        for axes in places:
            if len(panels) > 1 and across.words is not None:
                axes.set_xticks(across.positions, [style.folded(w, 1.0) for w in across.words])
                axes.tick_params(axis="x", rotation=90 if len(across.words) > 3 else 0)
            else:
                _scale_x(figure, axes, across, along, log)
            _scale_y(axes, means, log)
        xlabel = along.label(across.label) if xlabel is None else xlabel
        longest = max(len(own) for panel in found for own in panel)
        shown_as = "band" if across.words is None and longest > MOST_BARS else "bars"
        intervals = [(one.method, one.n) for panel in found for own in panel for one in own]
        ylabel = unit.label(style.metric_label(metric)) if ylabel is None else ylabel
        notes = [*_notes(curves), bars_note(intervals, shown_as)]
        xlabel = _explain(figure, xlabel, ylabel, notes, paper=paper)
        if len(panels) == 1:
            _finish(figure, places[0], xlabel, ylabel, title, is_own=ax is None, rows=rows)
            return figure
        width, height = figure.get_size_inches()
        label = style.folded(xlabel, 0.9 * width)
        figure.supxlabel(label, fontsize=8.0)
        figure.set_figheight(height + LINE * label.count("\n"))
        figure.supylabel(style.folded(ylabel, 0.8 * height), fontsize=8.0)
        if title is not None:
            figure.suptitle(style.folded(title, 0.9 * width), fontsize=8.0)
        style.legend(figure, *places, rows=rows)
    return figure


def _curve(
    axes: Axes,
    at: Floats,
    aside: Callable[[Floats], Floats],
    points: Sequence[Confidence],
    unit: Unit,
    label: str,
    look: style.Style,
    is_line: bool,
) -> None:
    """Draws means with intervals as bars or, for many points, as a band."""
    colour, marker, line = look
    value, low, high = (
        np.array([getattr(one, name) for one in points]) / unit.per
        for name in ("value", "low", "high")
    )
    # Points without an interval have no bar.
    off = np.nan_to_num(np.maximum([value - low, high - value], 0.0))
    if is_line and at.size > MOST_BARS:
        axes.plot(at, value, label=label or None, color=colour, linestyle=line)
        band = (value - off[0], value + off[1])
        axes.fill_between(at, *band, color=colour, alpha=0.25, linewidth=0.0)
        return
    axes.errorbar(
        aside(at),
        value,
        yerr=off,
        label=label or None,
        color=colour,
        marker=marker,
        # No lines between words.
        linestyle=line if is_line else "none",
        markerfacecolor="white",
        markeredgewidth=0.9,
        elinewidth=0.9,
        capsize=2.0,
        capthick=0.9,
    )


def draw_cdf(
    across: Parameter | None,  # noqa: ARG001 - as for the other kind
    curves: Sequence[Curve],
    *,
    log: str,
    size: str,
    xlabel: str | None,
    ylabel: str | None,
    title: str | None,
    paper: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """Draws distributions over replications; arguments as for `lasthop.plot`."""
    _check(curves)
    with style.sheet():
        figure, axes = _place(size, ax)
        metric = curves[0].metric
        pooled = np.concatenate([samples for curve in curves for samples in curve.samples])
        unit = style.scaled(style.metric_unit(metric), pooled)
        if "x" in log and pooled.min() <= 0.0:
            raise PlotError(f"cannot use a logarithmic axis: {metric} has values of 0 or less")
        looks, rows = _looks(curves), _rows(curves, marked=False)
        for curve in curves:
            colour, _, line = looks[curve.words]
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
        ylabel = "Fraction of replications" if ylabel is None else ylabel
        xlabel = _explain(figure, xlabel, ylabel, _notes(curves), paper=paper)
        _finish(figure, axes, xlabel, ylabel, title, is_own=ax is None, rows=rows)
    return figure


def _place(size: str, ax: Axes | None) -> tuple[Figure, Axes]:
    """Returns a new figure, or the figure of the given axes."""
    if ax is None:
        figure, (axes,) = style.new_figure(size)
        return figure, axes
    found = ax.get_figure(root=True)
    if found is None:
        raise PlotError("invalid axes for `ax`: expected axes in a figure")
    return found, style.clean(ax)


def _scales(across: Parameter, means: Sequence[float]) -> str:
    """Returns axes whose small values could not be distinguished on a linear scale."""

    def spans(values: Sequence[float]) -> bool:
        known = [value for value in values if math.isfinite(value)]
        return len(known) > 2 and min(known) > 0.0 and max(known) >= DECADES * min(known)

    x = across.words is None and spans(across.positions.tolist())
    return ("x" if x else "") + ("y" if spans(means) else "") or "none"


def _aside(
    across: Parameter, along: Unit, log: str, number: int, curves: int
) -> Callable[[Floats], Floats]:
    """Offsets the points of a curve slightly, so that error bars do not overlap."""
    positions = across.positions / along.per
    is_log = "x" in log and bool(positions[0] > 0.0)
    scale = np.log(positions) if is_log else positions
    room = 0.3 if across.words is not None else 0.0
    if positions.size > 1:
        gap = float(np.diff(scale).min())
        # There is space next to words; points at numbers must remain close to their values.
        words = across.words is not None
        room = 0.5 * gap if words else min(0.15 * gap, 0.03 * float(np.ptp(scale)))
    offset = room / max(curves - 1, 1) * (number - (curves - 1) / 2)
    return lambda at: at * math.exp(offset) if is_log else at + offset


def _panels(curves: Sequence[Curve]) -> list[tuple[str, list[Curve]]]:
    """Assigns curves to panels; few curves share one panel.

    Within a panel, curves are distinguished by keys with their own colours (protocols, TCPs) and by
    other keys as long as there is space. Panels distinguish the remaining keys.
    """
    words = [curve.words for curve in curves]
    values = [list(dict.fromkeys(column)) for column in zip(*words, strict=True)]
    varying = [thing for thing, own in enumerate(values) if len(own) > 1]
    if len(curves) <= MOST_TOGETHER or len(varying) < 2:
        return [("", list(curves))]
    varying.sort(key=lambda thing: not style.have_looks(values[thing]))
    inside, count = [varying[0]], len(values[varying[0]])
    for thing in varying[1:]:
        if count * len(values[thing]) <= MOST_TOGETHER:
            inside.append(thing)
            count *= len(values[thing])
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        outside = tuple(curve.words[thing] for thing in sorted(set(varying) - set(inside)))
        name = replace(curve, words=outside).label
        own = tuple(curve.words[thing] for thing in sorted(inside))
        found.setdefault(name, []).append(replace(curve, words=own))
    return list(found.items())


def _places(size: str, panels: int, ax: Axes | None) -> tuple[Figure, list[Axes]]:
    """Returns a grid of axes that share their scales."""
    if panels == 1:
        figure, axes = _place(size, ax)
        return figure, [axes]
    columns = min(panels, 3) if size == "full" else min(panels, 2)
    rows = math.ceil(panels / columns)
    return style.grid(size, rows, columns, panels)


def _notes(curves: Sequence[Curve]) -> list[str]:
    """Returns the different notes of curves."""
    return list(dict.fromkeys(curve.note for curve in curves if curve.note))


def _explain(figure: Figure, xlabel: str, ylabel: str, notes: Sequence[str], *, paper: bool) -> str:
    """Returns the label of the x-axis with the notes below it; of a paper, sets the caption."""
    notes = [note for note in notes if note]
    if paper and isinstance(figure, style.Picture):
        figure.caption = f"{'; '.join([f'{ylabel} over {xlabel}', *notes])}."
        return xlabel
    return "\n".join([xlabel, *notes])


def _check(curves: Sequence[Curve]) -> None:
    if not curves:
        raise PlotError("the metric for `y` has no values")
    if len(curves) > MOST_CURVES:
        raise PlotError(
            f"{len(curves)} curves: expected at most {MOST_CURVES}; select points with `where`"
        )
    for _, own in _panels(curves):
        if len(own) > MOST_IN_PANEL:
            raise PlotError(
                f"{len(own)} curves in one panel: expected at most {MOST_IN_PANEL}; select points "
                "with `where`"
            )


def _looks(curves: Sequence[Curve]) -> dict[tuple[str, ...], style.Style]:
    """Returns the style of each curve by its labels, equal in every panel."""
    words = list(dict.fromkeys(curve.words for curve in curves))
    return dict(zip(words, style.curve_looks(words), strict=True))


def _rows(curves: Sequence[Curve], *, marked: bool = True) -> Rows | None:
    """Returns rows of a legend that names two keys separately, if it is shorter than the curves."""
    words = list(dict.fromkeys(curve.words for curve in curves))
    found = style.factors(words)
    if found is None or len(words) <= len(found.colours) + len(found.lines):
        return None
    names = curves[0].names
    rows = found.rows(marked=marked)
    return [[(names.get(word, word), artist) for word, artist in row] for row in rows]


def _finish(
    figure: Figure,
    axes: Axes,
    xlabel: str,
    ylabel: str,
    title: str | None,
    *,
    is_own: bool,
    rows: Rows | None = None,
) -> None:
    if not is_own:
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if title is not None:
            axes.set_title(title)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
        return
    width, height = figure.get_size_inches()
    label = style.folded(xlabel, 0.9 * width)
    axes.set_xlabel(label)
    # The figure grows by the height of the notes below the axis.
    figure.set_figheight(height + LINE * label.count("\n"))
    axes.set_ylabel(style.folded(ylabel, 0.8 * height))
    if title is not None:
        axes.set_title(style.folded(title, 0.9 * width))
    style.legend(figure, axes, rows=rows)


def _scale_x(figure: Figure, axes: Axes, across: Parameter, unit: Unit, log: str) -> None:
    positions = across.positions / unit.per
    if across.words is not None:
        if "x" in log:
            raise PlotError("cannot use a logarithmic x-axis: its values are words")
        _word_ticks(figure, axes, positions, across.words)
        axes.set_xlim(-0.4, len(positions) - 0.6)
        return
    if "x" in log:
        if positions[0] <= 0.0:
            raise PlotError(f"cannot use a logarithmic x-axis: it has the value {positions[0]:g}")
        axes.set_xscale("log")
    _ticks(axes, positions, is_log="x" in log)


def _word_ticks(figure: Figure, axes: Axes, positions: np.ndarray, words: Sequence[str]) -> None:
    """Sets words below the axis: horizontal if they fit, else slanted, wrapped or vertical."""
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
    # Vertical words have as many lines as fit next to each other.
    upright = 1.2 * letter * max(map(len, words)) / max(int(room / line), 1)
    most = room if is_flat else max(upright, 0.5 * height)
    # Lines of wrapped words are usually narrower than the limit.
    lines = [style.folded(word, most, 0.85 * letter) for word in words]
    axes.set_xticks(positions, lines)
    if is_flat:
        more = line * max(text.count("\n") for text in lines)
    else:
        more = letter * max(len(part) for text in lines for part in text.split("\n"))
        for text in axes.get_xticklabels():
            text.set(rotation=90)
    # The figure grows by the height of long words.
    figure.set_figheight(height + more)


def _ticks(axes: Axes, positions: np.ndarray, *, is_log: bool) -> None:
    """Sets ticks at the values if they fit."""
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
            raise PlotError("cannot use a logarithmic y-axis: a mean is 0 or less")
        axes.set_yscale("log")
        _plain(axes, "y")
    elif known and 0.0 <= min(known) <= 0.6 * max(known):
        # Start at 0 unless that would hide the differences.
        axes.set_ylim(bottom=0.0)


def _plain(axes: Axes, which: str) -> None:
    """Formats short values as numbers instead of powers of ten."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
    if low >= 1e-3 and high <= 1e5:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if high / low < 100.0:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_formatter(NullFormatter())
