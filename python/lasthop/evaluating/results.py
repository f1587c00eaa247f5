"""Results of a run: tidy table, summary and paired differences."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lasthop.evaluating.cells import number
from lasthop.evaluating.metric import matching, metric_bounds
from lasthop.evaluating.points import Array, Point, Stopped
from lasthop.evaluating.statistics.means import Confidence, Interval, confidence, mean_interval
from lasthop.running.engine import Engine, distinct, engine
from lasthop.scenarios.arguments import check_point, unknown

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from lasthop.evaluating.statistics import Floats

__all__ = ["Point", "Results", "Stopped"]


SEQUENTIAL = "sequential t"
"""Interval method of metrics given by `until`; see `statistics.sequential`."""


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
            f"{self.rows} replications, {len(self.metrics)} metrics{state}>"
        )

    @property
    def rows(self) -> int:
        """Number of finished replications of all points."""
        point = self.__dict__["point"]
        return len(memoryview(point).cast("I")) if isinstance(point, bytes) else len(point)

    @property
    def engine_version(self) -> str:
        """Versions of the engines, with their builds if ambiguous."""
        return ", ".join(distinct(self.engines))

    @cached_property
    def _column(self) -> dict[str, int]:
        return {metric: index for index, metric in enumerate(self.metrics)}

    def index_of(self, metric: str) -> int:
        """Returns the column of a metric in `values`.

        Args:
            metric: Its name, or a form of it that selects no other metric: see
                `lasthop.evaluating.metric.matching`.

        Raises:
            KeyError: If there is no such metric, or more than one.
        """
        if metric in self._column:
            return self._column[metric]
        found = matching(metric, self.metrics)
        if len(found) != 1:
            raise KeyError(unknown("metric", metric, found or sorted(self.metrics)))
        return self._column[found[0]]

    @cached_property
    def _rows_of_point(self) -> list[NDArray[np.intp]]:
        import numpy as np

        order = np.argsort(self.point, kind="stable")
        bounds = np.searchsorted(self.point[order], np.arange(len(self.points) + 1))
        return [order[start:end] for start, end in itertools.pairwise(bounds)]

    @cached_property
    def _replications(self) -> NDArray[np.uint64]:
        import numpy as np

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
        import numpy as np

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
    def _complete_of(self) -> dict[int, int]:
        """Columns of durations, each with the column that states whether the transfer is complete.

        The true durations of incomplete transfers are longer.
        """
        pairs = {
            column: self._column.get(f"{metric.removesuffix('.duration_s')}.complete")
            for metric, column in self._column.items()
            if metric.endswith(".duration_s")
        }
        return {column: complete for column, complete in pairs.items() if complete is not None}

    @cached_property
    def _known(self) -> Floats:
        """`values` without durations of incomplete transfers."""
        known = self.values.copy()
        for column, complete in self._complete_of.items():
            known[self.values[:, complete] == 0.0, column] = math.nan
        return known

    def columns(self, point: int) -> dict[str, list[float]]:
        """Returns the values of each metric at a point, without an array.

        Args:
            point: Index of the point.

        Returns:
            Values by metric, in order of rows; NaN if the metric does not apply, or for a duration
            of an incomplete transfer.
        """
        if isinstance(values := self.__dict__["values"], bytes):
            width, flat = len(self.metrics), memoryview(values).cast("d")
            starts = [row * width for row in self._rows_in_buffer[point]]
            lists = [[flat[start + column] for start in starts] for column in range(width)]
            for column, complete in self._complete_of.items():
                for row, known in enumerate(lists[complete]):
                    lists[column][row] = math.nan if known == 0.0 else lists[column][row]
        else:
            lists = self.known(point).T.tolist()
        return dict(zip(self.metrics, lists, strict=True))

    @cached_property
    def _rows_in_buffer(self) -> list[list[int]]:
        """Rows of each point, if `point` is a buffer or an array."""
        rows: list[list[int]] = [[] for _ in self.points]
        for row, point in enumerate(memoryview(self.__dict__["point"]).cast("B").cast("I")):
            rows[point].append(row)
        return rows

    @cached_property
    def unfinished(self) -> frozenset[str]:
        """Metrics `flow.NAME.complete` of flows with an incomplete transfer."""
        names = [metric for metric in self.metrics if metric.endswith(".complete")]
        columns = map(self.columns, range(len(self.points))) if names else ()
        return frozenset(name for own in columns for name in names if 0.0 in own[name])

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
        import numpy as np

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
        import numpy as np

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

    def parameter_columns(self, rows: Sequence[int] | NDArray[Any]) -> dict[str, pl.Series]:
        """Returns the swept keys as columns, for rows of the given points."""
        from lasthop.evaluating import frames  # late: imports Polars

        return frames.parameter_columns(self, rows)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """Tidy table: one row per (point, replication, flow or link).

        Columns: `point`, `replication`, the swept keys with their values as in the scenario,
        `scenario_hash`, `seed`, `engine_version`, swept quantities as numbers (`"64 kbps"` of
        `link.wireless.rate` as 64000 in `link.wireless.rate_bps`; fractions end in `_share`, counts
        in `_packets`, `_segments` or `_frames`), `kind` (`flow` or `link`), `name` (of a link with
        its direction: `wireless.forward`), then all metrics with units in their names; null if a
        metric does not apply.
        """
        from lasthop.evaluating import frames

        return frames.tidy(self)

    @cached_property
    def wide(self) -> pl.DataFrame:
        """Returns one row per (point, replication), one column per metric by its full name."""
        from lasthop.evaluating import frames

        return frames.wide(self)

    def summary(self) -> pl.DataFrame:
        """Returns mean and 95 % confidence interval of each metric at each point.

        Columns: `point`, the swept keys, `metric`, `mean`, `ci95` (half the length of the
        interval), `n`, `low`, `high` (ends of the interval), and `method` (see
        `lasthop.statistics.mean_interval`). The columns of the interval are null for fewer than 2
        replications. A metric that does not apply at a point has no row. The interval of a metric
        with a target half-width is corrected for the interim analyses.
        """
        from lasthop.evaluating import frames

        return frames.summary(self)

    def summary_rows(self) -> list[dict[str, Any]]:
        """Returns the rows of `summary`, without the swept keys and without a data frame."""
        return [
            {
                "point": index,
                "metric": name,
                "mean": interval.mean,
                "ci95": number(interval.ci95),
                "n": interval.n,
                "low": number(interval.low),
                "high": number(interval.high),
                "method": interval.method or None,
            }
            for index in range(len(self.points))
            for name, interval in self.point_intervals(index).items()
        ]

    def point_intervals(self, point: int) -> dict[str, Interval]:
        """Returns mean and 95 % confidence interval of each metric that applies at a point."""
        if point not in self._intervals:
            intervals = {
                name: mean_interval(samples) for name, samples in self.columns(point).items()
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
    def _intervals(self) -> dict[int, dict[str, Interval]]:
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
            columns = self.columns(index)
            for name in chosen:
                found = confidence(columns[name], statistic, method=method)
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
        found = self.fairness_by_point(metric)
        rows = [(index, "", one) for index, one in found.items()]
        return self._confidences(rows, {}).drop("metric")

    def fairness_by_point(self, metric: str = "flow.*.goodput_bps") -> dict[int, Confidence]:
        """Returns the estimates of `fairness` by point."""
        from lasthop.evaluating.statistics import jain_index

        chosen = self._matching((metric,))
        found = {}
        for index in range(len(self.points)):
            columns = self.columns(index)
            one = confidence(jain_index([columns[name] for name in chosen], axis=0))
            if one.n > 0:
                found[index] = one.within((0.0, 1.0))
        return found

    def shares(self, metric: str = "flow.*.goodput_bps") -> pl.DataFrame:
        """Returns the mean over replications of each flow's share of the sum over all flows.

        Args:
            metric: Metrics of the flows, with `*` and `?`.

        Returns:
            Columns as in `intervals`, without `statistic`; `value` is between 0 and 1.

        Raises:
            KeyError: If no metric matches.
        """
        found = self.shares_by_point(metric)
        return self._confidences([(*key, one) for key, one in found.items()], {})

    def shares_by_point(
        self, metric: str = "flow.*.goodput_bps"
    ) -> dict[tuple[int, str], Confidence]:
        """Returns the estimates of `shares` by point and metric."""
        import numpy as np

        chosen = self._matching((metric,))
        found = {}
        for index in range(len(self.points)):
            columns = self.columns(index)
            rates = np.array([columns[name] for name in chosen])
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = rates / np.nansum(rates, axis=0)
            for name, own in zip(chosen, shares, strict=True):
                one = confidence(own)
                if one.n > 0:
                    found[index, name] = one.within((0.0, 1.0))
        return found

    def _confidences(
        self, rows: Sequence[tuple[int, str, Confidence]], more: Mapping[str, str]
    ) -> pl.DataFrame:
        from lasthop.evaluating import frames

        return frames.confidences(self, rows, more)

    def _matching(self, patterns: Sequence[str]) -> list[str]:
        found = []
        for pattern in patterns:
            if pattern in self._column:
                found.append(pattern)
                continue
            names = matching(pattern, self.metrics)
            if not names:
                self.index_of(pattern)
            found += names
        return list(dict.fromkeys(found))

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
        from lasthop.evaluating.frames import need

        need("pandas", "pyarrow")
        return self.frame.to_pandas()

    def to_arrow(self) -> Any:
        """Returns `frame` as a `pyarrow.Table`.

        Raises:
            ImportError: If pyarrow is not installed (`pip install lasthop[pandas]`).
        """
        from lasthop.evaluating.frames import need

        need("pyarrow")
        return self.frame.to_arrow()

    def _repr_html_(self) -> str:
        """Returns means with intervals and their provenance as HTML for notebooks."""
        from lasthop.showing.html import results_html

        return results_html(self)

    def to_json(self) -> str:
        """Returns `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=2)


for _name, _dtype in (("point", "I"), ("replication", "Q"), ("values", "d")):
    setattr(Results, _name, Array(_name, _dtype))
