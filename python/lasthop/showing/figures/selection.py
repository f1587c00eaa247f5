"""Selection of the data of a figure from a table of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lasthop.evaluating import statistics
from lasthop.evaluating.cells import quantity_of
from lasthop.evaluating.metric import matching, metric_bounds
from lasthop.evaluating.statistics import Confidence, Floats
from lasthop.evaluating.swept import Parameter, names_of, parameter, same_quantity
from lasthop.running.replications import run
from lasthop.running.tracing import Trace, trace
from lasthop.scenarios.arguments import unknown
from lasthop.scenarios.scenario import Scenario
from lasthop.showing.figures.sources import KINDS, OF_TRACES, HasFrame, PlotError, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curve", "Table", "plot"]


def plot(
    data: HasFrame | pl.DataFrame | Trace | list[Trace] | Scenario | str | Path,
    *,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    kind: str | None = None,
    log: str = "",
    size: str = "column",
    paper: bool = False,
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
    order: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    link: str | None = None,
    start: float | None = None,
    end: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plots results or one replication over time, in the style of a paper.

    Args:
        data: Results (or their tidy table, or the file or folder written by `lasthop run --out`),
            a trace (or the folder of `lasthop trace`), or a scenario (or its file), which is run.
            `sequence` and `ladder` draw several traces of one scenario on one time axis.
        x: Swept key, or its last components; None: the only numeric one.
        y: Full name of a metric, its last component (`goodput_bps`), or a pattern with `*`; of a
            trace: `cwnd`, `queue`, or the name of a flow (`sequence`). None: the first metric.
        by: Swept keys that distinguish curves; None: all except `x`.
        where: Swept keys and values that select points.
        kind: `line` (mean over `x`, with 95 % confidence intervals), `cdf` (distribution over
            replications); of a trace: `series` (window and queues over time), `sequence` (sequence
            numbers over time) or `ladder` (frames of a link as arrows). Default: `line` or
            `series`.
        log: Logarithmic axes: `x`, `y`, `xy` or `none`; default: axes of lines whose values span
            two decades.
        size: `column` (3.4 inches wide) or `full` (7 inches).
        paper: Whether notes on intervals and incomplete transfers become the caption (metadata and
            a text file next to the picture) instead of text below the axis.
        xlabel: Label of the x-axis; None: label of the key.
        ylabel: Label of the y-axis; None: label of the metric.
        title: Title above the figure; papers use captions instead.
        order: Labels of curves in the order of the legend; others follow.
        rename: New texts for labels of curves, panels and the x-axis. Colours and markers remain.
        link: Of a ladder: name of the link.
        start: Of a trace: start time in seconds.
        end: Of a trace: end time in seconds.
        ax: Existing axes for lines or distributions.

    Returns:
        The figure, which notebooks display.

    Raises:
        PlotError: If a name is unknown, or the table cannot be drawn.
        lasthop.ScenarioError: If the scenario is refused.
        OSError: If a file cannot be read.
    """
    # Matplotlib takes a quarter of a second.
    from lasthop.showing.figures import results, traces

    if kind is not None and kind not in KINDS:
        raise PlotError(f"invalid value `{kind}` for `kind`: expected {', '.join(KINDS)}")
    if log not in ("", "x", "y", "xy", "none"):
        raise PlotError(f"invalid value `{log}` for `log`: expected x, y, xy, none")
    if isinstance(data, (str, Path)):
        data = read(Path(data), kind)
    several = list(data) if isinstance(data, (list, tuple)) else []
    if not all(isinstance(one, Trace) for one in several):
        raise PlotError("invalid list for `data`: expected traces of one scenario")
    if kind in OF_TRACES or several or isinstance(data, Trace):
        if ax is not None:
            raise PlotError("`ax` requires kind line or cdf")
        others: dict[str, Any] = {
            "x": x,
            "by": by,
            "where": where,
            "xlabel": xlabel,
            "ylabel": ylabel,
            "paper": paper,
            "order": order,
            "rename": rename,
        }
        of = dict.fromkeys(others, "line or cdf")
    else:
        others = {"from": start, "to": end}
        of = dict.fromkeys(others, " or ".join(OF_TRACES))
    if kind != "ladder":
        others["link"], of["link"] = link, "ladder"
    for name, value in others.items():
        if value not in (None, False, (), [], {}):
            raise PlotError(f"`{name}` requires kind {of[name]}")
    if isinstance(data, Scenario):
        data = trace(data) if kind in OF_TRACES else run(data)
    if isinstance(data, (Trace, list, tuple)):
        kind = kind or "series"
        if kind not in OF_TRACES:
            raise PlotError(
                f"invalid value `{kind}` for `kind`: expected {', '.join(OF_TRACES)} for a trace"
            )
        return traces.draw(
            [data] if isinstance(data, Trace) else several,
            kind,
            y=y,
            log=log,
            size=size,
            title=title,
            link=link,
            start=start,
            end=end,
        )
    kind = kind or "line"
    if kind in OF_TRACES:
        raise PlotError(
            f"kind {kind} requires a scenario, or a folder written by `lasthop trace`, not a table "
            "of results"
        )
    table = Table(data if isinstance(data, pl.DataFrame) else data.frame).where(where or {})
    across, curves = table.curves(x, y, by, over_x=kind == "line")
    across, curves = _presented(across, curves, order or (), rename or {})
    draw = results.draw_line if kind == "line" else results.draw_cdf
    return draw(
        across,
        curves,
        log=log,
        size=size,
        xlabel=xlabel,
        ylabel=ylabel,
        title=title,
        paper=paper,
        ax=ax,
    )


def _presented(
    across: Parameter | None,
    curves: list[Curve],
    order: Sequence[str],
    rename: Mapping[str, str],
) -> tuple[Parameter | None, list[Curve]]:
    """Orders curves and replaces labels; the case of letters is ignored in given labels."""
    labels = list(dict.fromkeys(word for curve in curves for word in curve.words))
    places = list(across.words or ()) if across is not None else []

    def known(word: str, among: Sequence[str], name: str) -> str:
        for label in among:
            if label.casefold() == word.casefold():
                return label
        raise PlotError(unknown("label", word, among, name))

    ranks = {known(word, labels, "order"): rank for rank, word in enumerate(order)}
    names = {known(word, [*labels, *places], "rename"): text for word, text in rename.items()}
    curves = sorted(curves, key=lambda one: [ranks.get(word, len(ranks)) for word in one.words])
    if across is not None and across.words is not None:
        across = replace(across, words=tuple(names.get(word, word) for word in places))
    return across, [replace(curve, names=names) for curve in curves]


@dataclass(frozen=True)
class Curve:
    """A curve.

    Attributes:
        metric: Full name of the metric.
        words: Labels of the keys that distinguish it from other curves.
        places: Shape (points,): indices of values of the x-axis.
        samples: For each point, one number per replication, without NaN.
        points: Numbers of the points in the table.
        complete: Number of complete transfers and of all transfers, for a flow with incomplete
            ones.
        names: Texts that replace labels.
    """

    metric: str
    words: tuple[str, ...]
    places: tuple[int, ...]
    samples: tuple[Floats, ...]
    points: tuple[int, ...] = ()
    complete: tuple[int, int] | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Label in the legend; empty for a single curve."""
        return ", ".join(self.names.get(word, word) for word in self.words)

    @property
    def note(self) -> str:
        """Note on the number of complete transfers of the flow."""
        if self.complete is None:
            return ""
        done, total = self.complete
        left_out = ", others excluded" if self.metric.endswith(".duration_s") else ""
        return f"{done} of {total} transfers complete{left_out}"

    def estimates(self) -> list[Confidence]:
        """Means with intervals by a method suitable for the samples."""
        bounds = metric_bounds(self.metric)
        return [statistics.confidence(samples).within(bounds) for samples in self.samples]


class Table:
    """A tidy table of results."""

    def __init__(self, frame: pl.DataFrame) -> None:
        """Wraps a table with the columns of `Results.frame`."""
        needed = ("point", "replication", "scenario_hash", "kind", "name")
        missing = [name for name in needed if name not in frame.columns]
        if missing:
            raise PlotError(
                f"the table has no column `{missing[0]}`: expected a table written by "
                "`lasthop run --out`, or `Results.frame`"
            )
        columns = frame.columns
        self.complete: dict[str, tuple[int, int]] = {}
        if "complete" in columns:
            transfers = frame.filter(pl.col("complete").is_not_null())
            for (name,), part in transfers.group_by("name", maintain_order=True):
                done = int((part["complete"] > 0.0).sum())
                if done < part.height:
                    self.complete[f"flow.{name}"] = done, part.height
            if "duration_s" in columns:
                # Durations of incomplete transfers are unknown.
                longer = pl.col("complete") == 0.0
                frame = frame.with_columns(
                    pl.when(longer).then(None).otherwise(pl.col("duration_s")).alias("duration_s")
                )
        self.frame = frame
        self.keys = columns[columns.index("replication") + 1 : columns.index("scenario_hash")]
        quantities = columns[columns.index("name") + 1 :]
        self.metrics = [
            f"{kind}.{name}.{quantity}"
            for (kind, name), part in frame.group_by(["kind", "name"], maintain_order=True)
            for quantity in quantities
            if part[quantity].null_count() < part.height
        ]

    def key(self, name: str, what: str) -> str:
        """Returns a swept key, given its name or last components."""
        if name in self.keys:
            return name
        found = [key for key in self.keys if key.endswith(f".{name}")]
        if len(found) != 1:
            if not self.keys:
                raise PlotError(f"`{what}` requires a sweep: the results have a single point")
            if found:
                expected = ", ".join(found)
                raise PlotError(f"ambiguous swept key `{name}` for `{what}`: expected {expected}")
            raise PlotError(unknown("swept key", name, self.keys, what))
        return found[0]

    def where(self, wanted: Mapping[str, Any]) -> Table:
        """Returns the points at which swept keys have the given values."""
        frame = self.frame
        for name, value in wanted.items():
            key = self.key(name, "where")
            cells = self._cells(key)
            words = names_of(key, cells)
            number = quantity_of(value)
            found = [
                point
                for point, cell in cells.items()
                if str(value) in (str(cell), words[point])
                or same_quantity(number, quantity_of(cell))
            ]
            if not found:
                expected = ", ".join(dict.fromkeys(map(str, cells.values())))
                raise PlotError(
                    f"invalid value `{value}` of `{name}` for `where`: expected {expected}"
                )
            frame = frame.filter(pl.col("point").is_in(found))
        return Table(frame)

    def metric(self, name: str) -> list[str]:
        """Returns the metrics of a name: see `lasthop.evaluating.metric.matching`."""
        found = matching(name, self.metrics)
        if not found:
            quantity = name.rpartition(".")[2]
            near = [m for m in self.metrics if quantity and quantity in m] or self.metrics
            raise PlotError(unknown("metric", name, near, "y"))
        return found

    def curves(
        self,
        x: str | None,
        y: str | Sequence[str] | None,
        by: str | Sequence[str] | None,
        *,
        over_x: bool,
    ) -> tuple[Parameter | None, list[Curve]]:
        """Returns the x-axis, if it is a parameter, and the curves."""
        if not self.metrics:
            raise PlotError("the table has no finished replications")
        wanted = [self.metrics[0]] if y is None else [y] if isinstance(y, str) else list(y)
        metrics = list(dict.fromkeys(m for name in wanted for m in self.metric(name)))
        quantities = {m.rpartition(".")[2] for m in metrics}
        if len(quantities) > 1:
            raise PlotError(
                f"several quantities for `y`, {', '.join(sorted(quantities))}: expected one per "
                "figure"
            )
        cells = {key: self._cells(key) for key in self.keys}
        chosen_by = None if by is None else [by] if isinstance(by, str) else list(by)
        groups = None if chosen_by is None else [self.key(name, "by") for name in chosen_by]
        across = self._across(x, groups, cells) if over_x else None
        varying = [key for key in self.keys if len(set(map(str, cells[key].values()))) > 1]
        groups = [key for key in varying if key != across] if groups is None else groups
        left = [key for key in self.keys if key != across and key not in groups]
        left = [key for key in left if len(set(map(str, cells[key].values()))) > 1]
        if left:
            raise PlotError(
                f"missing key `{left[0]}` for `by`, which varies too; add it, or select one of its "
                "values with `where`"
            )
        axis = None
        place: dict[int, int] = {}
        if across is not None:
            axis, place = parameter(across, cells[across])
        return axis, self._group(metrics, groups, cells, place, over_x=over_x)

    def _cells(self, key: str) -> dict[int, Any]:
        """Returns the value of a swept key at each point."""
        rows = self.frame.select("point", key).unique("point", maintain_order=True)
        return dict(rows.sort("point").iter_rows())

    def _across(
        self, x: str | None, groups: list[str] | None, cells: Mapping[str, Mapping[int, Any]]
    ) -> str:
        if x is not None:
            return self.key(x, "x")
        free = [key for key in self.keys if key not in (groups or ())]
        numeric = [key for key in free if parameter(key, cells[key])[0].words is None]
        for found in (numeric, free):
            if len(found) == 1:
                return found[0]
        if groups and not free:
            expected = f"one of {', '.join(self.keys)} that is not used for `by`, or kind cdf"
        else:
            expected = ", ".join(free) or "a sweep, or kind cdf"
        raise PlotError(f"missing `x`: expected {expected}")

    def _group(
        self,
        metrics: Sequence[str],
        groups: Sequence[str],
        cells: Mapping[str, Mapping[int, Any]],
        place: Mapping[int, int],
        *,
        over_x: bool,
    ) -> list[Curve]:
        names = {key: names_of(key, cells[key], of_papers=True) for key in groups}
        points = self.frame["point"].unique().sort().to_list()
        entities = len({metric.rpartition(".")[0] for metric in metrics}) > 1
        curves = []
        for metric in metrics:
            entity, _, quantity = metric.rpartition(".")
            kind, _, name = entity.partition(".")
            rows = self.frame.filter((pl.col("kind") == kind) & (pl.col("name") == name))
            samples = {
                point: part[quantity].drop_nulls().drop_nans().to_numpy().astype(np.float64)
                for (point,), part in rows.group_by("point", maintain_order=True)
            }
            found: dict[tuple[str, ...], list[int]] = {}
            for point in points:
                words = tuple(names[key][point] for key in groups)
                if samples.get(point, np.empty(0)).size:
                    found.setdefault((name, *words) if entities else words, []).append(point)
            for words, own in found.items():
                own.sort(key=lambda point: place.get(point, 0))
                places = tuple(place.get(point, 0) for point in own)
                if len(set(places)) < len(places):
                    curve = ", ".join(words) or metric
                    raise PlotError(
                        f"several points of curve {curve} have the same place; add keys for "
                        f"`{'x' if over_x else 'by'}` that distinguish all points"
                    )
                found_samples = tuple(samples[p] for p in own)
                complete = self.complete.get(entity)
                curves.append(Curve(metric, words, places, found_samples, tuple(own), complete))
        return curves
