"""What a figure shows: which numbers of a table, by which parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lasthop.evaluating import statistics
from lasthop.evaluating.cells import quantity_of
from lasthop.evaluating.metric import metric_bounds
from lasthop.evaluating.statistics import Confidence, Floats
from lasthop.evaluating.swept import Parameter, names_of, parameter, same_quantity
from lasthop.running.replications import run
from lasthop.running.tracing import Trace, trace
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
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
    link: str | None = None,
    start: float | None = None,
    end: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draws results or the course of one replication, ready for print.

    Args:
        data: Results (or their tidy table, or the file or folder where `lasthop run --out` wrote
            it), a trace (or the folder of `lasthop trace`), or a scenario (or its file), which is
            run. Several traces of one scenario stand on one time axis, by `sequence` or `ladder`.
        x: A swept key, or the end of one; the one with numbers if there is just one.
        y: A metric by its full name, the end of one (`goodput_bps`), or a pattern with `*`; of a
            trace `cwnd`, `queue`, or the name of a flow (`sequence`). The first metric if None.
        by: Swept keys that distinguish curves; those that are not `x` if None.
        where: Swept keys and the value that points must have to be drawn.
        kind: `line` (mean over `x`, with 95 % intervals), `cdf` (distribution over replications);
            of a trace `series` (window and queues over time), `sequence` (sequence numbers over
            time) or `ladder` (frames of a link as arrows). By default `line` or `series`.
        log: Axes with a logarithmic scale: `x`, `y`, `xy` or `none`. If it is not said, lines
            have one where values span two decades.
        size: `column` (3.4 inches wide) or `full` (7 inches).
        xlabel: Instead of what the key says.
        ylabel: Instead of what the metric says.
        title: Above the figure; papers have captions instead.
        link: Of a ladder: which link.
        start: Of a trace: from when, in seconds.
        end: Of a trace: until when.
        ax: Draw lines or distributions into these axes of a figure of one's own.

    Returns:
        The figure; notebooks show it as it is.

    Raises:
        PlotError: If there is nothing of that name, or the table does not say how to draw it.
        lasthop.ScenarioError: If the scenario is refused.
        OSError: If a file cannot be read.
    """
    # Matplotlib takes a quarter of a second.
    from lasthop.showing.figures import results, traces

    if kind is not None and kind not in KINDS:
        raise PlotError(f"kind: found {kind!r}; allowed: {', '.join(KINDS)}")
    if log not in ("", "x", "y", "xy", "none"):
        raise PlotError(f"log: found {log!r}; allowed: x, y, xy, none")
    if isinstance(data, (str, Path)):
        data = read(Path(data), kind)
    several = list(data) if isinstance(data, (list, tuple)) else []
    if not all(isinstance(one, Trace) for one in several):
        raise PlotError("data: found a list of other things; allowed: traces of one scenario")
    if kind in OF_TRACES or several or isinstance(data, Trace):
        if ax is not None:
            raise PlotError("ax: found axes; allowed: of kind line and cdf")
        others: dict[str, Any] = {
            "x": x,
            "by": by,
            "where": where,
            "xlabel": xlabel,
            "ylabel": ylabel,
        }
        of = dict.fromkeys(others, "line and cdf")
    else:
        others = {"from": start, "to": end}
        of = dict.fromkeys(others, ", ".join(OF_TRACES))
    if kind != "ladder":
        others["link"], of["link"] = link, "ladder"
    for name, value in others.items():
        if value not in (None, (), [], {}):
            raise PlotError(f"{name}: found {value!r}; allowed: of kind {of[name]}")
    if isinstance(data, Scenario):
        data = trace(data) if kind in OF_TRACES else run(data)
    if isinstance(data, (Trace, list, tuple)):
        kind = kind or "series"
        if kind not in OF_TRACES:
            raise PlotError(f"kind: found {kind} of a trace; allowed: {', '.join(OF_TRACES)}")
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
            f"kind: found {kind} of a results table; allowed: a scenario, or the folder that "
            "lasthop trace wrote"
        )
    table = Table(data if isinstance(data, pl.DataFrame) else data.frame).where(where or {})
    across, curves = table.curves(x, y, by, over_x=kind == "line")
    draw = results.draw_line if kind == "line" else results.draw_cdf
    return draw(
        across, curves, log=log, size=size, xlabel=xlabel, ylabel=ylabel, title=title, ax=ax
    )


@dataclass(frozen=True)
class Curve:
    """What is drawn in one colour.

    Attributes:
        metric: Its metric by its full name.
        label: What the legend says; empty if it is the only one.
        words: What tells it from the others, one for each thing that does.
        places: Shape (points,): indices of values of the x-axis.
        samples: For each of them, one number per replication, without NaN.
        points: Their numbers in the table.
        complete: Of a flow with transfers that were not: how many were, and how many there were.
    """

    metric: str
    label: str
    words: tuple[str, ...]
    places: tuple[int, ...]
    samples: tuple[Floats, ...]
    points: tuple[int, ...] = ()
    complete: tuple[int, int] | None = None

    @property
    def note(self) -> str:
        """What a reader of the figure has to know: how many transfers of the flow were complete."""
        if self.complete is None:
            return ""
        done, total = self.complete
        left_out = ", others left out" if self.metric.endswith(".duration_s") else ""
        return f"{done} of {total} transfers complete{left_out}"

    def estimates(self) -> list[Confidence]:
        """Means with the intervals that suit the samples."""
        bounds = metric_bounds(self.metric)
        return [statistics.confidence(samples).within(bounds) for samples in self.samples]


class Table:
    """A tidy table of results."""

    def __init__(self, frame: pl.DataFrame) -> None:
        """Takes a table with the columns of `Results.frame`."""
        needed = ("point", "replication", "scenario_hash", "kind", "name")
        missing = [name for name in needed if name not in frame.columns]
        if missing:
            raise PlotError(
                f"table: found no column {missing[0]!r}; allowed: what lasthop run --out or "
                "Results.frame gives"
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
                # Of the others it is only known that they are longer.
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
        """A swept key by its name or the end of it."""
        if name in self.keys:
            return name
        found = [key for key in self.keys if key.endswith(f".{name}")]
        if len(found) != 1:
            allowed = ", ".join(found or self.keys) or "none: nothing is swept"
            raise PlotError(f"{what}: found {name!r}; allowed: {allowed}")
        return found[0]

    def where(self, wanted: Mapping[str, Any]) -> Table:
        """The part of it where swept keys have these values."""
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
                allowed = ", ".join(dict.fromkeys(map(str, cells.values())))
                raise PlotError(f"where: found {name}={value}; allowed: {allowed}")
            frame = frame.filter(pl.col("point").is_in(found))
        return Table(frame)

    def metric(self, name: str) -> list[str]:
        """Metrics by a name, the end of a name, or a pattern."""
        found = [m for m in self.metrics if fnmatchcase(m, name)]
        found = found or [m for m in self.metrics if fnmatchcase(m, f"*.{name}")]
        if not found:
            quantity = name.rpartition(".")[2]
            near = [m for m in self.metrics if quantity and quantity in m] or self.metrics
            raise PlotError(f"y: found {name!r}; allowed: such as {', '.join(near[:4])}")
        return found

    def curves(
        self,
        x: str | None,
        y: str | Sequence[str] | None,
        by: str | Sequence[str] | None,
        *,
        over_x: bool,
    ) -> tuple[Parameter | None, list[Curve]]:
        """What a figure shows: the x-axis (if it is a parameter), and the curves."""
        if not self.metrics:
            raise PlotError("table: found no numbers; allowed: finished replications")
        wanted = [self.metrics[0]] if y is None else [y] if isinstance(y, str) else list(y)
        metrics = list(dict.fromkeys(m for name in wanted for m in self.metric(name)))
        quantities = {m.rpartition(".")[2] for m in metrics}
        if len(quantities) > 1:
            raise PlotError(
                f"y: found {', '.join(sorted(quantities))}; allowed: one quantity a figure"
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
                f"by: found nothing about {left[0]}, which varies too; allowed: by it, or one of "
                "its values with where"
            )
        axis = None
        place: dict[int, int] = {}
        if across is not None:
            axis, place = parameter(across, cells[across])
        return axis, self._group(metrics, groups, cells, place, over_x=over_x)

    def _cells(self, key: str) -> dict[int, Any]:
        """The value of a swept key at each point."""
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
            allowed = f"{', '.join(self.keys)}, one of them not in by; or kind cdf"
        else:
            allowed = ", ".join(free) or "kind cdf, since nothing is swept"
        raise PlotError(f"x: found nothing; allowed: {allowed}")

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
                label = ", ".join(words)
                own.sort(key=lambda point: place.get(point, 0))
                places = tuple(place.get(point, 0) for point in own)
                if len(set(places)) < len(places):
                    raise PlotError(
                        f"{'x' if over_x else 'by'}: found several points at one place of "
                        f"{label or metric}; allowed: keys that tell all points apart"
                    )
                found_samples = tuple(samples[p] for p in own)
                complete = self.complete.get(entity)
                curves.append(
                    Curve(metric, label, words, places, found_samples, tuple(own), complete)
                )
        return curves
