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
        label: Label of axes, with the unit.
        heading: Heading of the column of rows in tables; the label if empty.
        column: Name of a column whose coordinate is a number; `{}` is the number.
        scale: `linear` or `log`.
        whole: Whether its values are integers, so that curves have points at integers only.
        zero: Whether figures have the point 0 in addition to the listed rows.
        words: Labels of its words, where a label differs from the word.
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
        """Returns the name of the column that has this value."""
        if isinstance(value, str):
            return self.words.get(value, value)
        return self.column.format(f"{value:g}")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity that a cell has.

    Attributes:
        name: Its name in claims.
        label: Label of axes.
        unit: The unit in which it is printed.
        digits: Decimal places that are printed.
        metric: Name of the metric; `{flow}` stands for the cell's flow. With `*` all metrics that
            match, combined.
        combine: How: `sum`, or `jain` for their fairness index, (Σx)² / (n Σx²).
        per: One `unit` in the unit of the metric.
        value: Instead of a metric, an expression of other quantities, in the syntax of claims.
        scale: `linear` or `log`, of the axis of figures.
        low: Lower end of that axis; on a logarithmic axis, 0 stands for the smallest value.
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
    """One column that an artefact compares with others.

    Attributes:
        name: Its name.
        where: Its coordinates.
        beside: Name of the column whose model curve this is; empty for other columns.
        is_model: Whether it is computed by a model.
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
        name: Its name in the paper, or its content if the paper only describes it.
        caption: Its content.
        base: Coordinates that all its cells share.
        rows: Its rows, or the points on its x-axis, in the unit of `axis`.
        columns: Names of the compared columns; the first is the baseline.
        quantity: The quantity shown.
        grid: The study's coordinates.
        spread: Whether it shows the standard deviation too.
        axis: The coordinate of its rows.
        series: The columns, in the same order.
        model: Value of a cell that a model computes.
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
        """Its name and caption, without the suffix that distinguishes a figure from a table."""
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
