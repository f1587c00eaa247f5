"""Results of a run: tidy table, summary and paired differences."""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lasthop.evaluating import statistics
from lasthop.evaluating.cells import UNITS, number, plain, quantity_of
from lasthop.evaluating.metric import metric_bounds
from lasthop.evaluating.statistics import Floats
from lasthop.running.engine import Engine, distinct, engine
from lasthop.scenarios.arguments import check_point, unknown

__all__ = ["Point", "Results", "Stopped"]


SEQUENTIAL = "sequential t"
"""Interval method of metrics given by `until`; see `statistics.sequential`."""


@dataclass(frozen=True, slots=True)
class Point:
    """One parameter point.

    Attributes:
        parameters: Swept dotted keys and their values at this point.
        scenario_hash: Hash of all inputs of its results except the seed.
    """

    parameters: Mapping[str, Any]
    scenario_hash: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Reason why a point was stopped; see `lasthop.statistics.sequential`.

    Attributes:
        point: Index of the point.
        metric: Metric with a target half-width.
        interval: Mean and interval, corrected for the interim analyses.
        reached: Whether the target half-width is reached; otherwise the replication limit is.
    """

    point: int
    metric: str
    interval: statistics.Interval
    reached: bool


@dataclass(frozen=True)
class Results:
    """The metrics of all replications of all points.

    Attributes:
        scenario: The scenario as nested tables.
        points: The points of the sweep.
        metrics: Names such as `flow.transfer.goodput_bps`; names end with the unit, except counts
            and fractions.
        point: Shape (rows,): index into `points`.
        replication: Shape (rows,).
        values: Shape (rows, metrics); NaN where a metric does not apply.
        seed: Master seed.
        complete: False if the run was interrupted.
        engines: Engines that computed the results.
        stopped: Reasons why points stopped, for a run with target half-widths.
        recorded: Per point, number of frames in loss recordings, by direction; empty if none.
        unmarked: Per point, LT-TCP flows on paths with queues that set no ECN marks, and the links
            of these queues; empty if none.
        limits: Per point, metrics limited by a window, with bound and explanation; empty if
            unknown.
    """

    scenario: Mapping[str, Any]
    points: Sequence[Point]
    metrics: Sequence[str]
    point: NDArray[np.uint32]
    replication: NDArray[np.uint64]
    values: Floats
    seed: int
    complete: bool = True
    engines: Sequence[Engine] = field(default_factory=lambda: (engine(),))
    stopped: Sequence[Stopped] = ()
    recorded: Sequence[Mapping[str, int]] = ()
    unmarked: Sequence[Mapping[str, Sequence[str]]] = ()
    limits: Sequence[Mapping[str, tuple[float, str]]] = ()

    def __repr__(self) -> str:
        name = str(self.scenario.get("name", ""))
        state = "" if self.complete else ", incomplete"
        return (
            f"<Results{f' of {name!r}' if name else ''}: {len(self.points)} points, "
            f"{len(self.point)} replications, {len(self.metrics)} metrics{state}>"
        )

    @property
    def engine_version(self) -> str:
        """Versions of the engines, with their builds if ambiguous."""
        return ", ".join(distinct(self.engines))

    @cached_property
    def _column(self) -> dict[str, int]:
        return {metric: index for index, metric in enumerate(self.metrics)}

    def index_of(self, metric: str) -> int:
        """Returns the column of a metric in `values`.

        Raises:
            KeyError: If there is no such metric.
        """
        if metric not in self._column:
            raise KeyError(unknown("metric", metric, sorted(self.metrics)))
        return self._column[metric]

    @cached_property
    def _rows_of_point(self) -> list[NDArray[np.intp]]:
        order = np.argsort(self.point, kind="stable")
        bounds = np.searchsorted(self.point[order], np.arange(len(self.points) + 1))
        return [order[start:end] for start, end in itertools.pairwise(bounds)]

    @cached_property
    def _replications(self) -> NDArray[np.uint64]:
        # `numpy.unique` would import `numpy.ma`, which takes 10 % of a short run.
        ordered = np.sort(self.replication)
        is_new: NDArray[np.bool_] = np.diff(ordered, prepend=~ordered[:1]) != 0
        return ordered[is_new]

    def samples(self, metric: str, point: int, *, censored: bool = False) -> Floats:
        """Returns the samples of one metric at one point.

        Args:
            metric: Full name of the metric.
            point: Index of the point.
            censored: Whether to include durations of incomplete transfers: the observation times,
                from which the rates of such transfers are computed.

        Returns:
            Shape (replications of the run,), in order of replication; NaN if the replication is not
            finished, if the metric does not apply, or for a duration of an incomplete transfer
            without `censored`.

        Raises:
            KeyError: If there is no such metric.
            ValueError: If there is no such point.
        """
        column = self.index_of(metric)
        check_point(point, len(self.points))
        rows = self._rows_of_point[point]
        samples = np.full(self._replications.size, np.nan)
        places = np.searchsorted(self._replications, self.replication[rows])
        values = self.values if censored else self._known
        samples[places] = values[rows, column]
        return samples

    def known(self, point: int | None = None) -> Floats:
        """Returns `values` without durations of incomplete transfers, of one point or of all."""
        return self._known if point is None else self._known[self._rows_of_point[point]]

    @cached_property
    def _known(self) -> Floats:
        """`values` without durations of incomplete transfers, whose true durations are longer."""
        known = self.values.copy()
        for metric, column in self._column.items():
            complete = self._column.get(f"{metric.rpartition('.')[0]}.complete")
            if metric.endswith(".duration_s") and complete is not None:
                known[self.values[:, complete] == 0.0, column] = np.nan
        return known

    @cached_property
    def unfinished(self) -> frozenset[str]:
        """Metrics `flow.NAME.complete` of flows with an incomplete transfer."""
        return frozenset(
            metric
            for metric, column in self._column.items()
            if metric.endswith(".complete") and bool(np.any(self.values[:, column] == 0.0))
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the results, one sentence each; see `lasthop.evaluating.notes`."""
        from lasthop.evaluating.notes import notes

        return tuple(notes(self))

    def joined(self, more: Results, points: Sequence[int] | None = None) -> Results:
        """Returns these results with further replications of all or some points.

        Args:
            more: Further replications with the same seed.
            points: Indices of the points of `more` in these results; None: all in order.

        Raises:
            ValueError: If seed or scenarios differ, or if a replication is in both.
        """
        places = np.arange(len(more.points)) if points is None else np.asarray(points)
        places = places.astype(np.uint32)
        if self.seed != more.seed:
            raise ValueError(f"invalid seed {more.seed} of `more`: expected {self.seed}")
        if len(places) != len(more.points) or any(
            self.points[place].scenario_hash != point.scenario_hash
            for place, point in zip(places, more.points, strict=True)
        ):
            raise ValueError("invalid points of `more`: expected replications of the same points")
        metrics = list(dict.fromkeys([*self.metrics, *more.metrics]))
        column = {name: index for index, name in enumerate(metrics)}
        parts = []
        for part in (self, more):
            values = np.full((len(part.point), len(metrics)), np.nan)
            values[:, [column[name] for name in part.metrics]] = part.values
            parts.append(values)
        point = np.concatenate([self.point, places[more.point]])
        replication = np.concatenate([self.replication, more.replication])
        order = np.lexsort((replication, point))
        point, replication = point[order], replication[order]
        if np.any((np.diff(point) == 0) & (np.diff(replication) == 0)):
            raise ValueError("duplicate replication in `more`: expected other replications")
        return replace(
            self,
            metrics=metrics,
            point=point,
            replication=replication,
            values=np.concatenate(parts)[order],
            complete=self.complete and more.complete,
            engines=tuple(dict.fromkeys([*self.engines, *more.engines])),
        )

    def part(self, points: Sequence[int], first: int = 0) -> Results:
        """Returns the replications of some points, starting at index `first`.

        Args:
            points: Indices of the points, in the resulting order.
            first: Index of the first replication.
        """
        place = np.full(len(self.points), -1, dtype=np.int64)
        place[list(points)] = np.arange(len(points))
        limits = dict(enumerate(self.limits))
        keep = (place[self.point] >= 0) & (self.replication >= first)
        return replace(
            self,
            points=[self.points[index] for index in points],
            point=place[self.point[keep]].astype(np.uint32),
            replication=self.replication[keep],
            values=self.values[keep],
            stopped=(),
            recorded=[self.recorded[index] for index in points] if self.recorded else (),
            unmarked=[self.unmarked[index] for index in points] if self.unmarked else (),
            limits=[limits.get(index, {}) for index in points],
        )

    def only(self, patterns: Sequence[str]) -> Results:
        """Returns these results with some metrics only.

        Args:
            patterns: Full names, with `*` and `?`.

        Raises:
            KeyError: If no metric matches.
        """
        keep = [self._column[name] for name in self._matching(patterns)]
        chosen = [self.metrics[index] for index in keep]
        return replace(
            self,
            metrics=chosen,
            # Durations of incomplete transfers are identified by `complete`.
            values=self._known[:, keep],
            stopped=[stop for stop in self.stopped if stop.metric in chosen],
        )

    def with_stops(self, stopped: Sequence[Stopped]) -> Results:
        """Returns a copy with the stops of points, whose intervals `summary` then uses."""
        return replace(self, stopped=tuple(stopped))

    def parameter_columns(self, rows: NDArray[Any] | pl.Series) -> dict[str, pl.Series]:
        """Returns the swept keys as columns, for rows of the given points."""
        names = list(dict.fromkeys(name for point in self.points for name in point.parameters))
        columns = {}
        for name in names:
            cells = [plain(point.parameters.get(name)) for point in self.points]
            if len({type(cell) for cell in cells if cell is not None}) > 1:
                cells = [None if cell is None else str(cell) for cell in cells]
            columns[name] = pl.Series(name, cells).gather(rows)
        return columns

    def quantity_columns(self, rows: NDArray[Any]) -> dict[str, pl.Series]:
        """Returns swept keys whose values are quantities as numbers in SI units.

        `link.wireless.rate` with `"64 kbps"` becomes the column `link.wireless.rate_bps` with
        64000; fractions (`"5 %"`) end in `_share`, counts in `_packets`, `_segments` or `_frames`.
        """
        columns = {}
        for name in dict.fromkeys(name for point in self.points for name in point.parameters):
            cells = [point.parameters.get(name) for point in self.points]
            found = [quantity_of(cell) for cell in cells]
            units = {one[1] for one in found if one is not None and one[1]}
            if len(units) != 1 or any(
                one is None and cell is not None for one, cell in zip(found, cells, strict=True)
            ):
                continue
            unit = units.pop()
            label = name + UNITS.get(unit, f"_{unit}")
            numbers = [None if one is None else one[0] for one in found]
            columns[label] = pl.Series(label, numbers, dtype=pl.Float64).gather(rows)
        return columns

    def _provenance(self) -> dict[str, pl.Series]:
        hashes = pl.Series("scenario_hash", [point.scenario_hash for point in self.points])
        rows = len(self.point)
        return {
            "point": pl.Series("point", self.point),
            "replication": pl.Series("replication", self.replication),
            **self.parameter_columns(self.point),
            "scenario_hash": hashes.cast(pl.String).gather(self.point),
            "seed": pl.Series("seed", np.full(rows, self.seed, dtype=np.uint64)),
            "engine_version": pl.Series("engine_version", [self.engine_version] * rows),
            **self.quantity_columns(self.point),
        }

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Tidy table: one row per (point, replication, flow or link).

        Columns: `point`, `replication`, the swept keys with their values as in the scenario,
        `scenario_hash`, `seed`, `engine_version`, swept quantities as numbers (see
        `quantity_columns`), `kind` (`flow` or `link`), `name` (of a link with its direction:
        `wireless.forward`), then all metrics with units in their names; null if a metric does not
        apply.
        """
        entities: dict[tuple[str, str], dict[str, int]] = {}
        columns: dict[str, None] = {}
        for index, metric in enumerate(self.metrics):
            kind, _, rest = metric.partition(".")
            name, _, quantity = rest.rpartition(".")
            entities.setdefault((kind, name), {})[quantity] = index
            columns[quantity] = None
        provenance = self._provenance()
        rows = len(self.point)
        empty = pl.Series("", [None] * rows, dtype=pl.Float64)
        frames = []
        for (kind, name), own in entities.items():
            cells = {
                quantity: pl.Series(quantity, self.values[:, own[quantity]], nan_to_null=True)
                if quantity in own
                else empty.alias(quantity)
                for quantity in columns
            }
            # Points without this flow or link have no row.
            there = ~np.isnan(self.values[:, list(own.values())]).all(axis=1)
            frame = pl.DataFrame(
                {
                    **provenance,
                    "kind": pl.Series("kind", [kind] * rows, dtype=pl.String),
                    "name": pl.Series("name", [name] * rows, dtype=pl.String),
                    **cells,
                }
            )
            frames.append(frame.filter(pl.Series(there)))
        if not frames:
            return pl.DataFrame(provenance)
        return pl.concat(frames).sort(["point", "replication"], maintain_order=True)

    @cached_property
    def wide(self) -> pl.DataFrame:
        """Returns one row per (point, replication), one column per metric by its full name."""
        metrics = {
            metric: pl.Series(metric, self.values[:, index], nan_to_null=True)
            for index, metric in enumerate(self.metrics)
        }
        return pl.DataFrame({**self._provenance(), **metrics})

    def summary(self) -> pl.DataFrame:
        """Returns mean and 95 % confidence interval of each metric at each point.

        Columns: `point`, the swept keys, `metric`, `mean`, `ci95` (half the length of the
        interval), `n`, `low`, `high` (ends of the interval), and `method` (see
        `lasthop.statistics.mean_interval`). The columns of the interval are null for fewer than 2
        replications. A metric that does not apply at a point has no row. The interval of a metric
        with a target half-width is corrected for the interim analyses.
        """
        found = [
            (index, name, interval)
            for index in range(len(self.points))
            for name, interval in self.point_intervals(index).items()
        ]
        # As lists: for arrays, Polars imports `numpy.ma` to check for masks.
        index_column = pl.Series("point", [index for index, _, _ in found], dtype=pl.UInt32)

        def numbers(name: str) -> pl.Series:
            values = [getattr(interval, name) for _, _, interval in found]
            return pl.Series(name, values, dtype=pl.Float64)

        return pl.DataFrame(
            {
                "point": index_column,
                **self.parameter_columns(index_column),
                "metric": pl.Series("metric", [name for _, name, _ in found], dtype=pl.String),
                "mean": numbers("mean"),
                "ci95": numbers("ci95").fill_nan(None),
                "n": pl.Series("n", [interval.n for _, _, interval in found], dtype=pl.UInt32),
                "low": numbers("low").fill_nan(None),
                "high": numbers("high").fill_nan(None),
                "method": pl.Series(
                    "method", [interval.method or None for _, _, interval in found], dtype=pl.String
                ),
            }
        )

    def point_intervals(self, point: int) -> dict[str, statistics.Interval]:
        """Returns mean and 95 % confidence interval of each metric that applies at a point."""
        if point not in self._intervals:
            rows = self._known[self._rows_of_point[point]]
            intervals = {
                name: statistics.mean_interval(rows[:, column])
                for column, name in enumerate(self.metrics)
            }
            for stop in self.stopped:
                if stop.point == point:
                    intervals[stop.metric] = replace(stop.interval, method=SEQUENTIAL)
            self._intervals[point] = {
                name: interval.within(metric_bounds(name))
                for name, interval in intervals.items()
                if interval.n > 0
            }
        return self._intervals[point]

    @cached_property
    def _intervals(self) -> dict[int, dict[str, statistics.Interval]]:
        """Cache of intervals, by point."""
        return {}

    def intervals(
        self, *metrics: str, statistic: str = "mean", method: str = "auto"
    ) -> pl.DataFrame:
        """Returns means or quantiles over replications, with suitable intervals.

        Args:
            metrics: Full names, with `*` and `?`; empty: all.
            statistic: `mean`, `median`, or a percentile such as `p95`.
            method: `auto`, `t` or `bootstrap`; see `lasthop.statistics.confidence`.

        Returns:
            `point`, the swept keys, `metric`, `statistic`, `value`, `low`, `high` (ends of the 95 %
            confidence interval, null if unknown), `n`, `method` of the interval.

        Raises:
            KeyError: If no metric matches.
            ValueError: If statistic or method is invalid.
        """
        chosen = self._matching(metrics or ("*",))
        rows = []
        for index in range(len(self.points)):
            for name in chosen:
                found = statistics.confidence(self.samples(name, index), statistic, method=method)
                if found.n > 0:
                    rows.append((index, name, found.within(metric_bounds(name))))
        return self._confidences(rows, {"statistic": statistic})

    def fairness(self, metric: str = "flow.*.goodput_bps") -> pl.DataFrame:
        """Returns the mean over replications of Jain's index over flows.

        Args:
            metric: Metrics of the flows, with `*` and `?`; missing flows are ignored.

        Returns:
            Columns as in `intervals`, without `metric` and `statistic`.

        Raises:
            KeyError: If no metric matches.
        """
        chosen = self._matching((metric,))
        rows = []
        for index in range(len(self.points)):
            shares = np.stack([self.samples(name, index) for name in chosen], axis=-1)
            found = statistics.confidence(statistics.jain_index(shares))
            if found.n > 0:
                rows.append((index, "", found.within((0.0, 1.0))))
        return self._confidences(rows, {}).drop("metric")

    def shares(self, metric: str = "flow.*.goodput_bps") -> pl.DataFrame:
        """Returns the mean over replications of each flow's share of the sum over all flows.

        Args:
            metric: Metrics of the flows, with `*` and `?`.

        Returns:
            Columns as in `intervals`, without `statistic`; `value` is between 0 and 1.

        Raises:
            KeyError: If no metric matches.
        """
        chosen = self._matching((metric,))
        rows = []
        for index in range(len(self.points)):
            rates = np.stack([self.samples(name, index) for name in chosen])
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = rates / np.nansum(rates, axis=0)
            for name, own in zip(chosen, shares, strict=True):
                found = statistics.confidence(own)
                if found.n > 0:
                    rows.append((index, name, found.within((0.0, 1.0))))
        return self._confidences(rows, {})

    def _matching(self, patterns: Sequence[str]) -> list[str]:
        found = []
        for pattern in patterns:
            if pattern in self._column:
                found.append(pattern)
                continue
            names = [name for name in self.metrics if fnmatchcase(name, pattern)]
            if not names:
                self.index_of(pattern)
            found += names
        return list(dict.fromkeys(found))

    def _confidences(
        self, rows: Sequence[tuple[int, str, statistics.Confidence]], more: Mapping[str, str]
    ) -> pl.DataFrame:
        points = np.asarray([index for index, _, _ in rows], dtype=np.uint32)
        ends = {
            name: pl.Series(name, [getattr(one, name) for _, _, one in rows], dtype=pl.Float64)
            for name in ("value", "low", "high")
        }
        return pl.DataFrame(
            {
                "point": pl.Series("point", points),
                **self.parameter_columns(points),
                "metric": pl.Series("metric", [name for _, name, _ in rows], dtype=pl.String),
                **{key: pl.Series(key, [text] * len(rows)) for key, text in more.items()},
                **{name: column.fill_nan(None) for name, column in ends.items()},
                "n": pl.Series("n", [one.n for _, _, one in rows], dtype=pl.UInt32),
                "method": pl.Series("method", [one.method for _, _, one in rows], dtype=pl.String),
            }
        )

    def differences(self, metric: str, *, by: str, baseline: Any) -> pl.DataFrame:
        """Returns paired differences under common random numbers.

        Args:
            metric: Full name of a metric.
            by: Swept key whose values are compared.
            baseline: Reference value of `by`.

        Returns:
            One row per other value of `by` at each setting of the other swept keys: these keys,
            `by`, `baseline`, `mean` (of value minus baseline), `ci95` (half-width), `n`
            (pairs), `p_value` (paired t-test), `p_holm` (Holm's correction over the rows of this
            table), `ratio` (of means), `ratio_ci95` (half-width, delta method), `ratio_low` and
            `ratio_high` (percentile-t bootstrap; null for fewer than 10 pairs).

        Raises:
            KeyError: If there is no such metric, or `by` is not swept.
            ValueError: If `by` never takes the value `baseline`.
        """
        # Imported late: the module imports this class.
        from lasthop.evaluating.paired import differences

        return differences(self, metric, by=by, baseline=baseline)

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that `lasthop run --format json` prints.

        It has `scenario`, `notes`, and `points`, each with `parameters` and `metrics` as in
        `summary`: `mean`, `ci95`, `n`, `low`, `high`, `method` (None if unknown), and `reached` for
        a metric with a target half-width.
        """
        reached = {(stop.point, stop.metric): stop.reached for stop in self.stopped}
        return {
            "scenario": dict(self.scenario),
            "points": [
                {
                    "parameters": dict(point.parameters),
                    "metrics": {
                        name: {
                            "mean": number(interval.mean),
                            "ci95": number(interval.ci95),
                            "n": interval.n,
                            "low": number(interval.low),
                            "high": number(interval.high),
                            "method": interval.method or None,
                            **(
                                {"reached": reached[index, name]}
                                if (index, name) in reached
                                else {}
                            ),
                        }
                        for name, interval in self.point_intervals(index).items()
                    },
                }
                for index, point in enumerate(self.points)
            ],
            "notes": list(self.notes),
        }

    def to_pandas(self) -> Any:
        """Returns `frame` as a `pandas.DataFrame`.

        Raises:
            ImportError: If pandas or pyarrow is not installed (`pip install lasthop[pandas]`).
        """
        _need("pandas", "pyarrow")
        return self.frame.to_pandas()

    def to_arrow(self) -> Any:
        """Returns `frame` as a `pyarrow.Table`.

        Raises:
            ImportError: If pyarrow is not installed (`pip install lasthop[pandas]`).
        """
        _need("pyarrow")
        return self.frame.to_arrow()

    def _repr_html_(self) -> str:
        """Returns means with intervals and their provenance as HTML for notebooks."""
        from lasthop.showing.html import results_html

        return results_html(self)

    def to_json(self) -> str:
        """Returns `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=2)


def _need(*modules: str) -> None:
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise ImportError(
                f"needs {name}: run `pip install 'lasthop[pandas]'`, or use the Polars frame "
                "results.frame, which most libraries accept"
            )
