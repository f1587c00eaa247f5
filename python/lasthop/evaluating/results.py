"""What a run gives back: a tidy table, a summary, paired differences, in one class."""

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
from lasthop.scenarios.arguments import check_point

__all__ = ["Point", "Results", "Stopped"]


SEQUENTIAL = "sequential t"
"""Method of the interval of a metric that `until` names; see `statistics.sequential`."""


@dataclass(frozen=True, slots=True)
class Point:
    """One parameter point.

    Attributes:
        parameters: Swept dotted keys and their values here.
        scenario_hash: Hash of everything that decides its results but the seed.
    """

    parameters: Mapping[str, Any]
    scenario_hash: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Why a point was run no further; see `lasthop.statistics.sequential`.

    Attributes:
        point: Which one.
        metric: The metric that was to be known precisely.
        interval: Its mean and interval, which is valid although it was looked at.
        reached: Whether that is as narrow as asked for; otherwise the most replications were run.
    """

    point: int
    metric: str
    interval: statistics.Interval
    reached: bool


@dataclass(frozen=True)
class Results:
    """The metrics of every replication of every point.

    Attributes:
        scenario: What was run, as nested tables.
        points: Its parameter points.
        metrics: Names such as `flow.transfer.goodput_bps`; the unit ends the name, and names
            without one are counts or shares.
        point: Shape (rows,): index into `points`.
        replication: Shape (rows,).
        values: Shape (rows, metrics); NaN where a metric does not apply.
        seed: Master seed.
        complete: False if the run was interrupted.
        engines: What computed it, one after the other.
        stopped: Of a run until metrics are known precisely: where each point stopped.
        recorded: Of each point the frames of recorded losses, by direction; empty if there are
            none, or if a campaign gave the results.
        unmarked: Of each point the flows of LT-TCP on whose way queues do not mark, and the links
            that these are before; empty if there are none, or if a campaign gave the results.
        limits: Of each point the metrics that a window bounds, each with the bound and its words;
            empty if a campaign gave the results.
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
        """Version of the engine; of several all, with their builds if they must be told apart."""
        return ", ".join(distinct(self.engines))

    @cached_property
    def _column(self) -> dict[str, int]:
        return {metric: index for index, metric in enumerate(self.metrics)}

    def index_of(self, metric: str) -> int:
        """The column of a metric in `values`.

        Raises:
            KeyError: If there is no such metric.
        """
        if metric not in self._column:
            raise KeyError(f"{metric}: no such metric; there are {', '.join(sorted(self.metrics))}")
        return self._column[metric]

    @cached_property
    def _rows_of_point(self) -> list[NDArray[np.intp]]:
        order = np.argsort(self.point, kind="stable")
        bounds = np.searchsorted(self.point[order], np.arange(len(self.points) + 1))
        return [order[start:end] for start, end in itertools.pairwise(bounds)]

    @cached_property
    def _replications(self) -> NDArray[np.uint64]:
        # `numpy.unique` would import `numpy.ma`, a tenth of the time of a short run.
        ordered = np.sort(self.replication)
        is_new: NDArray[np.bool_] = np.diff(ordered, prepend=~ordered[:1]) != 0
        return ordered[is_new]

    def samples(self, metric: str, point: int, *, censored: bool = False) -> Floats:
        """One metric at one point.

        Args:
            metric: Its name.
            point: Its number.
            censored: Whether durations of transfers that were not complete are kept: how long
                they were watched, by which rates of such transfers are computed.

        Returns:
            Shape (replications of the whole run,), in order of replication number; NaN where a
            replication was not finished, the metric does not apply, or it is the duration of a
            transfer that was not complete and censored values are not kept.

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
        """`values` without durations of incomplete transfers; of one point, or of all."""
        return self._known if point is None else self._known[self._rows_of_point[point]]

    @cached_property
    def _known(self) -> Floats:
        """`values` without durations of transfers that were not complete, which are longer."""
        known = self.values.copy()
        for metric, column in self._column.items():
            complete = self._column.get(f"{metric.rpartition('.')[0]}.complete")
            if metric.endswith(".duration_s") and complete is not None:
                known[self.values[:, complete] == 0.0, column] = np.nan
        return known

    @cached_property
    def unfinished(self) -> frozenset[str]:
        """Metrics `flow.NAME.complete` of flows with a transfer that was not complete."""
        return frozenset(
            metric
            for metric, column in self._column.items()
            if metric.endswith(".complete") and bool(np.any(self.values[:, column] == 0.0))
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Warnings that belong to the numbers, a sentence each; see `lasthop.evaluating.notes`."""
        from lasthop.evaluating.notes import notes

        return tuple(notes(self))

    def joined(self, more: Results, points: Sequence[int] | None = None) -> Results:
        """These and more replications, of the same points or of some of them.

        Args:
            more: Other replications, of the same seed.
            points: Which of these points its points are; the same ones in order if None.

        Raises:
            ValueError: If they are not of the same seed and scenarios, or if a replication
                is in both.
        """
        places = np.arange(len(more.points)) if points is None else np.asarray(points)
        places = places.astype(np.uint32)
        if self.seed != more.seed:
            raise ValueError(f"more: found seed {more.seed}; allowed: {self.seed}")
        if len(places) != len(more.points) or any(
            self.points[place].scenario_hash != point.scenario_hash
            for place, point in zip(places, more.points, strict=True)
        ):
            raise ValueError("more: found other points; allowed: replications of the same ones")
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
            raise ValueError("more: found a replication that is there; allowed: others")
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
        """The replications of some points, from number `first` on.

        Args:
            points: Which of these points, in what order.
            first: Number of the first replication.
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
        """These results with some metrics only.

        Args:
            patterns: Full names, with `*` and `?`.

        Raises:
            KeyError: If no metric has such a name.
        """
        keep = [self._column[name] for name in self._matching(patterns)]
        chosen = [self.metrics[index] for index in keep]
        return replace(
            self,
            metrics=chosen,
            # Without `complete`, unfinished durations could not be told.
            values=self._known[:, keep],
            stopped=[stop for stop in self.stopped if stop.metric in chosen],
        )

    def with_stops(self, stopped: Sequence[Stopped]) -> Results:
        """A copy that says where each point stopped; `summary` then has those intervals."""
        return replace(self, stopped=tuple(stopped))

    def parameter_columns(self, rows: NDArray[Any] | pl.Series) -> dict[str, pl.Series]:
        """The swept keys as columns, for rows that belong to these points."""
        names = list(dict.fromkeys(name for point in self.points for name in point.parameters))
        columns = {}
        for name in names:
            cells = [plain(point.parameters.get(name)) for point in self.points]
            if len({type(cell) for cell in cells if cell is not None}) > 1:
                cells = [None if cell is None else str(cell) for cell in cells]
            columns[name] = pl.Series(name, cells).gather(rows)
        return columns

    def quantity_columns(self, rows: NDArray[Any]) -> dict[str, pl.Series]:
        """Swept keys whose values are quantities, as numbers in SI units.

        `link.wireless.rate` with `"64 kbps"` has the column `link.wireless.rate_bps` with 64000;
        shares (`"5 %"`) end in `_share`, counts in `_packets`, `_segments` or `_frames`.
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
        """The tidy table: one row per (point, replication, flow or link).

        Columns: `point`, `replication`, the swept keys as the scenario says them, `scenario_hash`,
        `seed`, `engine_version`, swept quantities as numbers (see `quantity_columns`), `kind`
        (`flow` or `link`), `name` (of a link with its direction: `wireless.forward`), then every
        metric with its unit in its name; null where one does not apply.
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
            # A point without this flow or link has no row for it.
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
        """One row per (point, replication), one column per metric by its full name."""
        metrics = {
            metric: pl.Series(metric, self.values[:, index], nan_to_null=True)
            for index, metric in enumerate(self.metrics)
        }
        return pl.DataFrame({**self._provenance(), **metrics})

    def summary(self) -> pl.DataFrame:
        """Mean and 95 % interval of each metric at each point.

        Columns: `point`, the swept keys, `metric`, `mean`, `ci95` (half the length of the interval:
        what stands behind the ± of mean ± t), `n`, `low`, `high` (the ends of the interval), and
        `method`, how it was made: see `lasthop.statistics.mean_interval`. Without interval, of
        fewer than two replications, these are null. A metric that does not apply at a point has no
        row there. Of a run until a metric is known precisely, the interval of that metric pays for
        the looks.
        """
        found = [
            (index, name, interval)
            for index in range(len(self.points))
            for name, interval in self.point_intervals(index).items()
        ]
        # As lists: of an array Polars asks whether it is masked, and imports `numpy.ma` for that.
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
        """Mean and 95 % interval of each metric that applies at a point."""
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
        """By point, those that have been asked for."""
        return {}

    def intervals(
        self, *metrics: str, statistic: str = "mean", method: str = "auto"
    ) -> pl.DataFrame:
        """Means or quantiles over replications, with the interval that suits each sample.

        Args:
            metrics: Full names, with `*` and `?`; all if none.
            statistic: `mean`, `median`, or a percentile such as `p95`.
            method: `auto`, `t` or `bootstrap`; see `lasthop.statistics.confidence`.

        Returns:
            `point`, the swept keys, `metric`, `statistic`, `value`, `low`, `high` (ends of the 95 %
            interval, null if unknown), `n`, `method` (how the interval was made).

        Raises:
            KeyError: If no metric has such a name.
            ValueError: If statistic or method is not one of these.
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
        """Jain's index over flows, one number per replication, its mean over them.

        Args:
            metric: The metrics that share, with `*` and `?`; flows that a point does not have do
                not count.

        Returns:
            As `intervals`, without `metric` and `statistic`.

        Raises:
            KeyError: If no metric has such a name.
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
        """What each flow gets of the sum over all flows, one number per replication, its mean.

        Args:
            metric: The metrics that share, with `*` and `?`.

        Returns:
            As `intervals`, without `statistic`; `value` is between 0 and 1.

        Raises:
            KeyError: If no metric has such a name.
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
        """Paired differences under common random numbers.

        Args:
            metric: A metric by its full name.
            by: The swept key whose values are compared.
            baseline: The value of `by` that the others are compared with.

        Returns:
            One row for each other value of `by` at each setting of the other swept keys: those
            keys, `by`, `baseline`, `mean` (of value minus baseline), `ci95` (half-width), `n`
            (pairs), `p_value` (paired t-test), `p_holm` (Holm's correction over the rows of this
            table), `ratio` (of means), `ratio_ci95` (half-width, delta method), `ratio_low` and
            `ratio_high` (percentile-t bootstrap; null for fewer than 10 pairs).

        Raises:
            KeyError: If there is no such metric or the scenario does not sweep `by`.
            ValueError: If `by` never takes the value `baseline`.
        """
        # The module needs this class.
        from lasthop.evaluating.paired import differences

        return differences(self, metric, by=by, baseline=baseline)

    def to_dict(self) -> dict[str, Any]:
        """What `lasthop run --format json` prints.

        `scenario`, and `points`, each with its `parameters` and its `metrics`, as in `summary`:
        `mean`, `ci95`, `n`, `low`, `high` and `method` (None if unknown); of a metric that was to
        be known precisely also whether that was `reached`; and `notes`.
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
        """`frame` as a `pandas.DataFrame`.

        Raises:
            ImportError: If pandas or pyarrow is not installed (`pip install lasthop[pandas]`).
        """
        _need("pandas", "pyarrow")
        return self.frame.to_pandas()

    def to_arrow(self) -> Any:
        """`frame` as a `pyarrow.Table`.

        Raises:
            ImportError: If pyarrow is not installed (`pip install lasthop[pandas]`).
        """
        _need("pyarrow")
        return self.frame.to_arrow()

    def _repr_html_(self) -> str:
        """What notebooks show: means with their intervals, and where they come from."""
        from lasthop.showing.html import results_html

        return results_html(self)

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=2)


def _need(*modules: str) -> None:
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise ImportError(
                f"{name} is not installed; it comes with: pip install 'lasthop[pandas]'. "
                "Without it, results.frame is a Polars frame that most libraries take as it is"
            )
