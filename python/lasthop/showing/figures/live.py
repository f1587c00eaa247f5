"""Data of a figure, for an interactive chart.

A figure is drawn once, by Matplotlib. The data of the chart is read from that figure, so that the
interactive chart and the printed picture agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

__all__ = ["chart"]

# Separates the label of an x-axis from the note on error bars (`labels.bars_note`).
BARS = r"(^|\n)(?=((thin|thick) )?(bars|band): )"
DASHES = {"--": [8, 4], "-.": [10, 3, 2, 3], ":": [2, 3]}


def chart(figure: Figure) -> dict[str, Any] | None:
    """Returns the curves of a figure's first panel.

    Returns:
        `xlabel`, `ylabel`, `note` (on the error bars), `xlog`, `ylog`, `words` (place and word of
        an x-axis without numbers) and `curves`, each with `label`, `colour`, `dash`, `points`
        (whether points are marked), `line` (whether they are joined), `x`, `y`, `low`, `high`; None
        if there is no curve.
    """
    if not figure.axes:
        return None
    axes = figure.axes[0]
    curves = [*_with_bars(axes), *_plain(axes)]
    if not curves:
        return None
    label, _, note = re.sub(BARS, "\0", axes.get_xlabel(), count=1).partition("\0")
    return {
        "xlabel": " ".join(label.split()),
        "note": " ".join(note.split()),
        "ylabel": " ".join(axes.get_ylabel().split()),
        "xlog": axes.get_xscale() == "log",
        "ylog": axes.get_yscale() == "log",
        "words": _words(axes),
        "curves": curves,
    }


def _curve(
    line: Line2D, label: str, low: Sequence[float] = (), high: Sequence[float] = ()
) -> dict[str, Any]:
    style = str(line.get_linestyle())
    return {
        "label": "" if label.startswith("_") else " ".join(label.split()),
        "colour": _colour(line),
        "dash": DASHES.get(style, []),
        "points": str(line.get_marker()) not in ("None", "none", "", " "),
        "line": style not in ("None", "none", "", " "),
        "x": _numbers(line.get_xdata()),
        "y": _numbers(line.get_ydata()),
        "low": _numbers(low),
        "high": _numbers(high),
    }


def _colour(line: Line2D) -> str:
    colour: Any = line.get_color()
    return to_hex(colour)


def _with_bars(axes: Axes) -> list[dict[str, Any]]:
    found = []
    for container in axes.containers:
        if not isinstance(container, ErrorbarContainer):
            continue
        line, _, bars = container
        if line is None:
            continue
        segments = bars[0].get_segments() if bars and isinstance(bars[0], LineCollection) else []
        low = [float(one[0][1]) for one in segments]
        high = [float(one[-1][1]) for one in segments]
        found.append(_curve(line, str(container.get_label()), low, high))
    return found


def _plain(axes: Axes) -> list[dict[str, Any]]:
    """Yields curves without bars; a band is the interval of its curve. Omits single points."""
    barred = {
        part
        for container in axes.containers
        if isinstance(container, ErrorbarContainer)
        for part in (container[0], *container[1])
    }
    bands = [one for one in axes.collections if isinstance(one, PolyCollection)]
    found = []
    for line in axes.lines:
        if line in barred or len(np.atleast_1d(line.get_xdata())) < 2:
            continue
        low, high = (), ()
        count = len(np.atleast_1d(line.get_xdata()))
        for band in bands:
            corners = np.asarray(band.get_paths()[0].vertices)
            face: Any = band.get_facecolor()[0]
            same = to_hex(face) == _colour(line)
            if same and len(corners) == 2 * count + 3:
                low = tuple(corners[1 : count + 1, 1])
                high = tuple(corners[count + 2 : 2 * count + 2, 1][::-1])
                break
        found.append(_curve(line, str(line.get_label()), low, high))
    return found


def _words(axes: Axes) -> list[list[Any]] | None:
    """Returns places and words of an x-axis with words."""
    words: list[list[Any]] = [
        [float(place), " ".join(text.get_text().split())]
        for place, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=False)
    ]

    def is_number(text: str) -> bool:
        try:
            float(text.replace("−", "-").replace(" ", ""))
        except ValueError:
            return False
        return True

    shown = [word for word in words if word[1]]
    if not shown or any(is_number(word[1]) for word in shown) or any("$" in w[1] for w in shown):
        return None
    return shown


def _numbers(values: Any) -> list[float | None]:
    flat = np.asarray(values, dtype=np.float64).ravel()
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in flat]
