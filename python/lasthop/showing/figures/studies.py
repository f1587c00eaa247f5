"""The figures of studies: simulated values with intervals, and theory."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lasthop.showing.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    STYLES,
    Picture,
)
from lasthop.showing.labels import bars_note

if TYPE_CHECKING:
    from lasthop.studies import Artefact, ReportCell

__all__ = ["draw_figure"]

OTHERS = (
    (GREEN, "v", "-."),
    (PURPLE, "P", "-."),
    (ORANGE, "X", ":"),
    (SKY, "*", ":"),
    (BLUE, "o", "--"),
    (RED, "D", "-"),
    (BLACK, "s", "--"),
)
"""Colours, markers and lines of curves without an assigned style."""

CROSS: dict[str, Any] = {"marker": "x", "markersize": 5.5, "markeredgewidth": 1.2}
BOLD: dict[str, Any] = {
    "marker": "X",
    "markersize": 7.0,
    "markeredgecolor": BLACK,
    "markeredgewidth": 0.8,
}
"""Markers of published values, and of those from which ours differ significantly."""

THEORY = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
"""Lines of model curves without points, in order of use."""

LONG_NAME = 26
"""Maximum length of names in a legend with three columns."""

MOST_INSIDE = 5
"""Maximum number of curves with a legend inside the axes."""

HIDES = 0.03
"""Maximum distance of curves that hide each other, as a fraction of the range of all values."""

MOST_TICKS = 9
"""Maximum number of points of an x-axis with a tick each."""


def draw_figure(artefact: Artefact, cells: Sequence[ReportCell]) -> Figure:
    """Draws a quantity over a coordinate, one curve per column, with 95 % confidence intervals.

    Theory is a line without markers. Simulated values of a column with a model are shown only as
    markers.

    If the artefact shows the spread, thin bars with caps are plus and minus one standard deviation,
    thick bars the 95 % confidence interval of the mean. Markers are hollow, so that coinciding
    curves remain visible.

    Args:
        artefact: The figure.
        cells: Cells of the report; those of other artefacts are ignored.
    """
    spread = artefact.spread
    figure = Picture(
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
    drawn = {
        name: [cell for cell in own if cell.column == name and not math.isnan(cell.value)]
        for name in columns
        if name not in theory
    }
    # Points with a model are not offset; hollow ones with a spread remain visible.
    aside = {} if theory or modelled - {""} or spread else _aside(artefact, list(drawn))
    for column, points in drawn.items():
        colour, marker, line = styles[column]
        move = aside.get(column, float)
        across = [move(float(cell.row)) for cell in points]
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
            linewidth=1.1 if spread else 3.0 if _is_covered(column, drawn) else 1.3,
            elinewidth=0.7 if spread else None,
            capsize=2.5,
            clip_on=not spread,
        )
        if spread:
            axes.errorbar(across, up, yerr=ci95, fmt="none", ecolor=colour, elinewidth=2.6)
        _draw_published(axes, points, colour, move)
    axes.set_xlabel(_pretty(_noted(artefact, own)))
    figure.set_figheight(figure.get_figheight() + 0.17)
    axes.set_ylabel(
        _pretty(" ".join(filter(None, (artefact.quantity.label, unit and f"({unit})"))))
    )
    _scale(axes, artefact)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(_pretty(_wrapped(artefact.title)), fontsize=9)
    outside = spread or bool(theory) or len(columns) > MOST_INSIDE
    if columns and outside:
        # Outside the axes, where it hides no curve.
        shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        order = [_pretty(one.name) for one in artefact.series if _pretty(one.name) in shown]
        shown = {name: shown[name] for name in order}
        shown |= _published_handles(own)
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
        shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        shown |= _published_handles(own)
        axes.legend(shown.values(), shown.keys(), frameon=False, fontsize=8)
    return figure


def _noted(artefact: Artefact, cells: Sequence[ReportCell]) -> str:
    """Returns the label of the x-axis with the note on error bars."""
    note = bars_note(("t", cell.n) for cell in cells if cell.n > 1 and math.isfinite(cell.ci95))
    if artefact.spread and note:
        note = "thin bars: ± one standard deviation; thick " + note
    return "\n".join(filter(None, [artefact.axis.label, note]))


def _aside(artefact: Artefact, columns: Sequence[str]) -> dict[str, Callable[[float], float]]:
    """Offsets each curve slightly along the x-axis, so that equal points remain visible."""
    is_log = artefact.axis.scale == "log"
    rows = [math.log(row) if is_log else row for row in map(float, artefact.rows)]
    gaps = [after - before for before, after in itertools.pairwise(sorted(rows))]
    step = min(0.012 * (max(rows) - min(rows)), 0.12 * min(gaps)) if gaps else 0.0

    def moved(number: int) -> Callable[[float], float]:
        offset = step * (number - (len(columns) - 1) / 2)
        return lambda x: x * math.exp(offset) if is_log else x + offset

    return {name: moved(number) for number, name in enumerate(columns)}


def _is_covered(column: str, drawn: Mapping[str, Sequence[ReportCell]]) -> bool:
    """Returns `True` if a curve drawn later coincides with this one, which is then wider."""
    names = list(drawn)
    own = {cell.row: cell.value for cell in drawn[column]}
    values = [cell.value for points in drawn.values() for cell in points]
    for name in names[names.index(column) + 1 :]:
        gaps = [abs(cell.value - own[cell.row]) for cell in drawn[name] if cell.row in own]
        if len(gaps) > 1 and max(gaps) <= HIDES * (max(values) - min(values)):
            return True
    return False


def _draw_published(
    axes: Axes, points: Sequence[ReportCell], colour: str, move: Callable[[float], float]
) -> None:
    """Draws published values, with a ring if ours differ significantly."""
    for cell in points:
        if cell.published is not None:
            place = move(float(cell.row)), cell.published
            axes.plot(*place, color=colour, zorder=5, **(BOLD if cell.misses else CROSS))


def _published_handles(cells: Sequence[ReportCell]) -> dict[str, Line2D]:
    """Returns the legend entries of published values, if any."""
    handles = {}
    if any(cell.published is not None for cell in cells):
        handles["published"] = Line2D([], [], color="0.5", linestyle="none", **CROSS)
    if any(cell.misses for cell in cells):
        handles["significantly different"] = Line2D([], [], color="0.5", linestyle="none", **BOLD)
    return handles


def _styles(artefact: Artefact, columns: Sequence[str]) -> dict[str, tuple[str, str, Any]]:
    """Returns the style of each column; a model curve has the colour of its simulated column."""
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
    """Draws the theoretical curve."""
    for one in artefact.series:
        if one.is_model and one.name in styles:
            colour, _, line = styles[one.name]
            label = None if one.beside else _pretty(one.name)
            curve = artefact.curve(one.name)
            axes.plot(*curve, label=label, color=colour, linestyle=line, linewidth=1.3)


def _scale(axes: Axes, artefact: Artefact) -> None:
    """Sets scales and ticks of both axes."""
    rows = artefact.rows
    axes.set_xscale(artefact.axis.scale)
    if len(rows) <= MOST_TICKS:
        axes.set_xticks(list(rows), [f"{row:g}" for row in rows])
        axes.minorticks_off()
    axes.set_yscale(artefact.quantity.scale)
    if artefact.quantity.scale == "linear" or artefact.quantity.low > 0.0:
        axes.set_ylim(bottom=artefact.quantity.low)


def _wrapped(title: str) -> str:
    """Wraps a title without separating a value from its name and unit."""
    return textwrap.fill(re.sub(r" = ([\d.]+)( m?s\b)?", _whole, title), 68)


def _whole(value: re.Match[str]) -> str:
    return value[0].replace(" ", "\N{NO-BREAK SPACE}")


def _pretty(text: str) -> str:
    """Returns names such as M_t with a subscript."""
    return re.sub(r"\b([A-Za-z])_([A-Za-z])\b", r"$\1_\2$", text)
