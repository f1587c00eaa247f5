"""Tables and figures of a study: their axes, what they compare, which cells they show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from lasthop.studies.claims import Cell, Grid

__all__ = ["Artefact", "Axis", "Column", "Quantity"]

CURVE_POINTS = 80
"""Points of a model curve, where its axis does not count."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A coordinate as rows of tables, as the x-axis of figures, and as what columns differ in.

    Attributes:
        name: The coordinate.
        label: What axes call it, with its unit.
        heading: What the rows of tables are headed by; the label if empty.
        column: What a number of it is called where columns differ in it; `{}` is the number.
        scale: `linear` or `log`.
        whole: Whether it counts something, so that curves have points at whole numbers only.
        zero: Whether figures have the point 0 besides the rows that are listed.
        words: What its words are called, where not as they are.
    """

    name: str
    label: str
    heading: str = ""
    column: str = "{}"
    scale: str = "linear"
    whole: bool = False
    zero: bool = False
    words: Mapping[str, str] = field(default_factory=dict)

    def call(self, value: Any) -> str:
        """What a column is called that has this value."""
        if isinstance(value, str):
            return self.words.get(value, value)
        return self.column.format(f"{value:g}")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What can be asked of a cell.

    Attributes:
        name: What claims call it.
        label: What axes call it.
        unit: What it is printed in.
        digits: Decimal places that are printed.
        metric: Name of the metric; `{flow}` stands for the cell's flow. With `*` all metrics that
            match, combined.
        combine: How: `sum`, or `jain` for their fairness index, (Σx)² / (n Σx²).
        per: What one such unit is, in the metric's own.
        value: Instead of a metric, an expression of other quantities, as claims have them.
        scale: `linear` or `log`, of the axis of figures.
        low: Where that axis begins; if it is logarithmic, 0 for where the values do.
    """

    name: str
    label: str
    unit: str
    digits: int
    metric: str = ""
    combine: Literal["sum", "jain"] = "sum"
    per: float = 1.0
    value: str = ""
    scale: str = "linear"
    low: float = 0.0


@dataclass(frozen=True, slots=True)
class Column:
    """One thing that an artefact compares with others.

    Attributes:
        name: What it is called.
        where: Its coordinates.
        beside: Name of the column whose model curve it is; empty for any other.
        is_model: Whether it is theory.
    """

    name: str
    where: Mapping[str, Any]
    beside: str = ""
    is_model: bool = False


@dataclass(frozen=True, slots=True)
class Artefact:
    """A table or a figure.

    Attributes:
        kind: `table` or `figure`.
        name: What the paper calls it, or what it shows if the paper only describes it.
        caption: What it shows.
        base: Coordinates that all its cells share.
        rows: Its rows, or the points on its x-axis, in the unit of `axis`.
        columns: Names of what it compares; the first is the baseline.
        quantity: What it shows of them.
        grid: The study's coordinates.
        spread: Whether it shows the standard deviation too.
        axis: The coordinate of its rows.
        series: The columns, in the same order.
        model: Value of a cell of theory.
        is_absolute: Whether a table shows values of all columns, rather than improvements over
            the first.
    """

    kind: str
    name: str
    caption: str
    base: Mapping[str, Any]
    rows: tuple[float, ...]
    columns: tuple[str, ...]
    quantity: Quantity
    grid: Grid
    spread: bool
    axis: Axis
    series: tuple[Column, ...]
    model: Callable[[Cell], float]
    is_absolute: bool = False

    @property
    def has_gains(self) -> bool:
        """Whether columns other than the first are improvements over it, in per cent."""
        return self.kind == "table" and not self.is_absolute

    @property
    def title(self) -> str:
        """Its name and caption; a name that tells a figure from a table says so only there."""
        return f"{self.name.removesuffix(' (figure)')}. {self.caption}"

    @property
    def file_name(self) -> str:
        """Name of its picture, without suffix."""
        name = re.sub(r"[^a-z0-9]+", "-", self.name.lower().removesuffix(" (figure)"))
        return name.strip("-")

    def cell(self, row: float, column: str) -> Cell:
        """One of its cells."""
        (where,) = (one.where for one in self.series if one.name == column)
        return self.grid.cell({**self.base, **where, self.axis.name: row})

    def curve(self, column: str) -> tuple[list[float], list[float]]:
        """A model curve, with points between the rows."""
        low, high = min(self.rows), max(self.rows)
        if self.axis.whole:
            across = [float(n) for n in range(round(low), round(high) + 1)]
        elif self.axis.scale == "log":
            across = np.geomspace(low, high, CURVE_POINTS).tolist()
        else:
            across = np.linspace(low, high, CURVE_POINTS).tolist()
        points = [int(x) if self.axis.whole else x for x in across]
        return across, [self.model(self.cell(x, column)) for x in points]
