"""Common style of figures: colours, markers, sizes, units on axes, files.

Colours are those of Okabe and Ito, which are distinguishable with common colour blindness. Each
link protocol, TCP and published combination has the same colour, marker and line in every figure.
Sizes are those of papers: a column is 3.4 inches wide, a page 7 inches.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lasthop.evaluating.metric import metric_label, metric_unit
from lasthop.running.writing import write_file
from lasthop.showing.labels import Unit, scaled

__all__ = [
    "COLUMN",
    "FORMATS",
    "FULL",
    "SIZES",
    "STYLES",
    "Factors",
    "Picture",
    "Style",
    "Unit",
    "clean",
    "curve_looks",
    "factors",
    "folded",
    "grid",
    "have_looks",
    "legend",
    "looks",
    "metric_label",
    "metric_unit",
    "new_figure",
    "save",
    "scaled",
    "sheet",
]

BLACK = "#000000"
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
)

Style = tuple[str, str, str]
"""Colour, marker, line."""

STYLES: Mapping[str, Style] = {
    # Published combinations.
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
    # Links.
    "Stop-and-Wait": (ORANGE, "<", ":"),
    "RLC AM": (GREEN, "h", "-"),
    "Ideal SR": (BLACK, "*", ":"),
    # Transports.
    "Tahoe": (ORANGE, "v", "-."),
    "Reno": (BLUE, "o", "-"),
    "NewReno": (GREEN, "^", "--"),
    "SACK": (RED, "s", "-"),
    "CUBIC": (PURPLE, "D", "-"),
    "UDP": (BLACK, "x", ":"),
}
ALIASES = {
    "raw": "Raw link",
    "snoop": "Berkeley Snoop",
    "oos-rlp": "Out-of-Sequence RLP",
}
SPARE: tuple[Style, ...] = (
    (BLUE, "o", "-"),
    (RED, "s", "--"),
    (GREEN, "^", "-."),
    (PURPLE, "D", "-"),
    (ORANGE, "v", "--"),
    (SKY, "P", "-."),
    (BLACK, "x", ":"),
    # Repeated colours with other markers and lines.
    (BLUE, "v", "--"),
    (RED, "^", ":"),
    (GREEN, "s", "--"),
    (PURPLE, "P", "-."),
    (ORANGE, "x", "-"),
    (SKY, "D", ":"),
    (BLACK, "h", "-"),
)

LINES = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"))
"""Markers and lines for the second key that distinguishes curves."""

FORMATS: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
}
"""File formats, and the metadata to omit for reproducible files."""

CAPTIONS = {"png": "Description", "pdf": "Subject", "svg": "Description"}
"""Field of the metadata that contains the caption, by file format."""

COLUMN, FULL = 3.4, 7.0
"""Width and height in inches of a column and of a page."""

SIZES: Mapping[str, tuple[float, float]] = {"column": (COLUMN, 2.5), "full": (FULL, 3.2)}

SHEET: Any = {
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.8,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.35,
    "axes.axisbelow": True,
    # No offsets on axes.
    "axes.formatter.useoffset": False,
}

DOTS = {"column": 300, "full": 200}


@contextlib.contextmanager
def sheet() -> Iterator[None]:
    """Applies this style, independent of the user's settings."""
    with rc_context(SHEET):
        yield


class Picture(Figure):
    """A figure that notebooks display without a Matplotlib backend.

    Attributes:
        caption: Text for a caption, which `save` writes into the metadata and next to the picture.
    """

    caption = ""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=150, metadata=FORMATS["png"])
        return picture.getvalue()


def new_figure(
    size: str, rows: int = 1, *, height: float | None = None
) -> tuple[Figure, list[Axes]]:
    """Returns a figure of `size` with panels below each other that share their x-axis.

    Args:
        size: `column` or `full`.
        rows: Number of panels.
        height: Height in inches; default: by the size.

    Raises:
        ValueError: If there is no such size.
    """
    if size not in SIZES:
        raise ValueError(f"invalid value `{size}` for `size`: expected {', '.join(SIZES)}")
    width, usual = SIZES[size]
    figure = Picture(figsize=(width, usual if height is None else height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02)  # type: ignore[union-attr, call-arg]
    figure.set_dpi(DOTS[size])
    panels = figure.subplots(rows, 1, sharex=True, squeeze=False)
    return figure, [clean(axes) for axes in panels[:, 0]]


def grid(size: str, rows: int, columns: int, panels: int) -> tuple[Figure, list[Axes]]:
    """Returns a figure of `size` with a grid of panels that share both scales.

    Raises:
        ValueError: If there is no such size.
    """
    if size not in SIZES:
        raise ValueError(f"invalid value `{size}` for `size`: expected {', '.join(SIZES)}")
    width, _ = SIZES[size]
    tall = 0.72 * width / columns + 0.35
    figure = Picture(figsize=(width, rows * tall + 0.4), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.03)  # type: ignore[union-attr, call-arg]
    figure.set_dpi(DOTS[size])
    places = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in places[panels:]:
        axes.remove()
    for above in places[max(panels - columns, 0) : panels]:
        above.tick_params(labelbottom=True)
    return figure, [clean(axes) for axes in places[:panels]]


def clean(axes: Axes) -> Axes:
    """Adds a light grid and removes the frame on sides without a scale."""
    axes.grid(visible=True)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def looks(labels: Iterable[str]) -> list[Style]:
    """Returns the style of each label: the assigned one if any, otherwise a free one.

    In a label with commas, the first word with an assigned style decides: `transfer, reno`.
    """
    names = list(labels)
    known = {_word(name): style for name, style in STYLES.items()}
    known |= {alias: STYLES[name] for alias, name in ALIASES.items()}
    own = [
        next((known[w] for w in map(_word, (name, *name.split(", "))) if w in known), None)
        for name in names
    ]
    taken: list[Style] = []
    found = []
    for style in own:
        if style is None or style in taken:
            used = [*taken, *(s for s in own if s is not None)]
            free = [s for s in SPARE if s not in used]
            # Prefer unused colours, then unused lines: distributions have no markers.
            colours, lines = {s[0] for s in used}, {(s[0], s[2]) for s in used}
            free.sort(key=lambda s: (s[0] in colours, (s[0], s[2]) in lines))
            # Too many labels: styles repeat.
            style = free[0] if free else SPARE[len(taken) % len(SPARE)]
        taken.append(style)
        found.append(style)
    return found


@dataclass(frozen=True)
class Factors:
    """Styles of curves that two keys distinguish.

    Attributes:
        colours: Colour of each value of one key.
        lines: Marker and line of each value of the other one.
        styles: Style of each curve.
    """

    colours: Mapping[str, str]
    lines: Mapping[str, tuple[str, str]]
    styles: Sequence[Style]

    def rows(self, *, marked: bool = True) -> list[list[tuple[str, Artist]]]:
        """Entries of a legend: a row of the colours, and one of the lines, with their markers."""
        hues = [(name, Line2D([], [], color=hue, lw=2.4)) for name, hue in self.colours.items()]
        look = {"color": BLACK, "markerfacecolor": "white", "markeredgewidth": 0.9}
        lines = [
            (name, Line2D([], [], marker=marker if marked else "", linestyle=line, **look))  # type: ignore[arg-type]
            for name, (marker, line) in self.lines.items()
        ]
        return [list(hues), list(lines)]


def factors(words: Sequence[tuple[str, ...]]) -> Factors | None:
    """Returns the styles of curves that exactly two keys distinguish; None for others.

    One key, such as the TCP, decides the colour: the one with values that have assigned colours; of
    two such keys the one with more values, otherwise the first. The other one decides marker and
    line.

    Args:
        words: Labels of the keys, for each curve.
    """
    things = [column for column in zip(*words, strict=True) if len(set(column)) > 1]
    if len(things) != 2:
        return None
    first, second = things
    assigned = tuple(any(have_looks([name]) for name in names) for names in (first, second))
    if assigned == (False, True) or (all(assigned) and len(set(second)) > len(set(first))):
        first, second = second, first
    hues, lines = list(dict.fromkeys(first)), list(dict.fromkeys(second))
    if len(lines) > len(LINES) or len(hues) > len({style[0] for style in SPARE}):
        return None
    colours = {name: style[0] for name, style in zip(hues, looks(hues), strict=True)}
    if len(set(colours.values())) < len(hues):
        return None
    styles = [
        (colours[hue], *LINES[lines.index(line)]) for hue, line in zip(first, second, strict=True)
    ]
    return Factors(colours, dict(zip(lines, LINES, strict=False)), styles)


def curve_looks(words: Sequence[tuple[str, ...]]) -> list[Style]:
    """Returns the style of curves that one or several keys distinguish.

    Args:
        words: Labels of the keys, for each curve.
    """
    found = factors(words)
    return looks(", ".join(one) for one in words) if found is None else list(found.styles)


def have_looks(names: Sequence[str]) -> bool:
    """Returns `True` if every label has an assigned style."""
    known = {_word(name) for name in STYLES} | set(ALIASES)
    return all(_word(name) in known for name in names)


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9/]+", "-", name.lower()).strip("-")


def folded(text: str, inches: float, letter: float = 0.064) -> str:
    """Wraps text to a width in inches, assuming the mean width of an 8-point letter."""
    most = max(int(inches / letter), 1)
    return "\n".join(textwrap.fill(line, most) for line in text.split("\n"))


def columns(names: Collection[str], room: float) -> int:
    """Returns the number of legend columns with these names that fit a width in inches."""
    # A letter of 7 points is about 0.06 inches wide.
    widths = [max(map(len, name.split("\n"))) * 0.058 + 0.45 for name in names]
    return len(names) if sum(widths) <= room else max(1, int(room / max(widths)))


def legend(
    figure: Figure,
    *panels: Axes,
    width: float | None = None,
    rows: Sequence[Sequence[tuple[str, Artist]]] | None = None,
) -> None:
    """Adds a legend in one or more rows above the figure, where it hides nothing.

    Args:
        figure: The figure.
        panels: Axes whose curves are named.
        width: Width in inches; None: that of the figure.
        rows: Entries by row instead of those of the axes.
    """
    found = [axes.get_legend_handles_labels() for axes in panels]
    handles = [handle for own, _ in found for handle in own]
    names = [name for _, own in found for name in own]
    if not handles:
        return
    room = figure.get_figwidth() if width is None else width
    names = [folded(name, room - 0.45, 0.05) for name in names]
    # One entry per name.
    entries: list[tuple[str, Artist]] = list(dict(zip(names, handles, strict=True)).items())
    ncols = 0
    if rows is not None:
        entries = [entry for row in rows for entry in row]
        longest = max(len(row) for row in rows)
        if _fits(rows, room):
            # Legends are filled by column: rows of different lengths are padded.
            blank = ("", Line2D([], [], linestyle="none"))
            padded = [[*row, *[blank] * (longest - len(row))] for row in rows]
            entries = [entry for column in zip(*padded, strict=True) for entry in column]
            ncols = longest
    ncols = ncols or columns([name for name, _ in entries], room)
    lines = math.ceil(len(entries) / ncols) + sum(name.count("\n") for name, _ in entries)
    # The figure grows by the height of further rows, by at most a quarter.
    tall = 0.145 * lines + 0.06
    figure.set_figheight(max(figure.get_figheight() + 0.145 * (lines - 1), tall / 0.24))
    figure.legend(
        [handle for _, handle in entries],
        [name for name, _ in entries],
        # The legend is below a figure with a title.
        loc="outside lower center" if figure.get_suptitle() else "outside upper center",
        ncols=ncols,
        frameon=False,
        handlelength=2.2,
        columnspacing=1.2,
        handletextpad=0.5,
        borderaxespad=0.2,
    )


def _fits(rows: Sequence[Sequence[tuple[str, Artist]]], room: float) -> bool:
    """Whether columns of these rows fit a width in inches."""
    longest = max(len(row) for row in rows)
    widths = [
        max(len(row[place][0]) for row in rows if place < len(row)) * 0.058 + 0.45
        for place in range(longest)
    ]
    return sum(widths) <= room


def save(figure: Figure, path: Path, *formats: str) -> list[Path]:
    """Writes a figure as `path` with the suffix of each format; files are reproducible.

    A caption becomes metadata, and a text file next to the picture.

    Raises:
        OSError: If a file cannot be written.
    """
    figure.draw_without_rendering()
    # Computes the layout once for all formats. "none" would leave a placeholder engine, with which
    # each format is drawn twice.
    figure.set_layout_engine(None)
    written = []
    caption = figure.caption if isinstance(figure, Picture) else ""
    for suffix in formats:
        file = path.with_name(f"{path.name}.{suffix}")
        with rc_context({"svg.hashsalt": "lasthop", "pdf.fonttype": 42}):
            dpi = max(figure.get_dpi(), 150)
            picture = io.BytesIO()
            metadata = FORMATS[suffix] | ({CAPTIONS[suffix]: caption} if caption else {})
            figure.savefig(picture, format=suffix, dpi=dpi, metadata=metadata)
        write_file(file, picture.getvalue())
        written.append(file)
    if caption:
        file = path.with_name(f"{path.name}.txt")
        write_file(file, f"{caption}\n".encode())
        written.append(file)
    return written
