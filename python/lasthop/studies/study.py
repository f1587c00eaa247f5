"""Reproducing published studies: the grid, the tables and figures, the claims.

A study is a folder of data under `lasthop/papers`: scenario files, `study.toml` (grid and layout),
`published.toml` (the numbers that the paper prints) and `claims.toml`.
"""

from __future__ import annotations

import copy
import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from lasthop.evaluating import statistics
from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.statistics import Estimate, Floats
from lasthop.running.campaign import Campaign, Plan
from lasthop.running.replications import Progress, run_points
from lasthop.scenarios.arguments import Refused
from lasthop.scenarios.scenario import Scenario, assign
from lasthop.studies.artefacts import Artefact, Axis, Column, Quantity
from lasthop.studies.changes import Change, Sensitivity, changed
from lasthop.studies.claims import Cell, Claim, Grid, Missing, Rule, Samples, read_claims
from lasthop.studies.models import Models, fill, matches
from lasthop.studies.published import read_published
from lasthop.studies.record import Choice, Untested
from lasthop.studies.report import Report, ReportCell
from lasthop.studies.runs import in_groups
from lasthop.studies.tables import (
    first_match,
    jain_index,
    matching_keys,
    normalized,
    read_table,
    standard_deviation,
    value_of_row,
    words,
)
from lasthop.studies.verdicts import Evaluator, Printed, Verdict, judge, judge_printed, looked_up

__all__ = [
    "Artefact",
    "Change",
    "Highlight",
    "Quantity",
    "Report",
    "ReportCell",
    "Sensitivity",
    "Study",
    "StudyError",
    "studies",
]


class StudyError(Refused):
    """No such study, table or figure."""


@dataclass(frozen=True, slots=True)
class Highlight:
    """Claims that a report shows together, with all their numbers.

    Attributes:
        title: Heading.
        claims: Their names.
    """

    title: str
    claims: tuple[str, ...]


class Study:
    """A study and its data.

    Attributes:
        key: Its short name, which is the name of its folder.
        title: Title of the paper.
        about: Its content in one line.
        replications: Replications per cell that the paper ran.
        seed: Default master seed.
        combinations: The compared combinations; the first is the baseline.
        names: Combinations by their names in claims.
        quantities: Quantities of a cell, by name; the first is the main one.
        grid: The coordinates of its cells.
        models: Analytical models of cells.
        axes: Names and labels of coordinates.
        artefacts: Tables and figures in order.
        rule: How claims are judged.
        claims: The paper's claims.
        readings: Readings of the text, with the changes that each makes.
        orders: Orders that the paper draws, see `readings`.
        untested: Sentences of the paper that no claim tests.
        provenance: Numbers and results that were known when choices were made.
        highlights: Claims to show side by side.
        sensitivities: Choices that the paper leaves open.
        published: Printed numbers by table and (row, column, unit).
        published_intervals: Printed intervals, by the same keys.
        changes: Keys that are changed in all scenarios that have them, see `with_changes`.
    """

    def __init__(self, folder: Traversable) -> None:
        """Reads a study's folder."""
        self._folder = folder
        self._data = data = read_table(folder, "study.toml")
        self.key: str = data["key"]
        self.title: str = data["title"]
        self.about: str = data["about"]
        self.replications: int = data["replications"]
        self.seed: int = data["seed"]
        self.combinations: tuple[Any, ...] = tuple(c["name"] for c in data["combination"])
        self.names: Mapping[str, Any] = {
            c.get("short", re.sub(r"\W", "_", str(c["name"])).lower()): c["name"]
            for c in data["combination"]
        }
        self.quantities = {
            name: Quantity(name, **table) for name, table in data["quantity"].items()
        }
        grid = data["grid"]
        self.grid = Grid(
            grid["column"],
            grid.get("default", {}),
            tuple((pair["when"], pair["then"]) for pair in grid.get("fixed", ())),
        )
        self.models = Models(data.get("model", ()), grid.get("theory", {}))
        self.axes = {name: Axis(name, **table) for name, table in data["axis"].items()}
        self._changes = tuple(Change(**table) for table in data["change"])
        self.artefacts = tuple(
            self._artefact(kind, table)
            for kind in ("table", "figure")
            for table in data.get(kind, ())
        )
        claims = read_table(folder, "claims.toml")
        self.rule = Rule(
            about=claims["rule"]["about"],
            level=claims["rule"]["level"],
            losses=tuple(data["rows"][0]["values"]) if "rows" in data else (),
            quantities=tuple(self.quantities),
            grid=self.grid,
            parts=claims["rule"].get("parts", False),
            correction=claims["rule"].get("correction", "bonferroni"),
            row=next(iter(self.axes)),
            words=words(),
        )
        self.claims = read_claims(claims["claim"], self.grid, self.rule.words)
        self.readings = {
            table["name"]: tuple(Change(**change) for change in table["change"])
            for table in data.get("reading", ())
        }
        self.orders: Sequence[Mapping[str, Any]] = data.get("order", ())
        self.untested = tuple(Untested(**one) for one in claims.get("untested", ()))
        self.provenance = tuple(Choice(**one) for one in claims.get("provenance", ()))
        self.highlights = tuple(
            Highlight(table["title"], tuple(table["claims"])) for table in data.get("highlight", ())
        )
        self.sensitivities = tuple(self._sensitivity(t) for t in data.get("sensitivity", ()))
        found = read_published(
            read_table(folder, "published.toml"), self.artefacts, self.combinations
        )
        self.published, self.published_intervals = found.values, found.intervals
        self.changes: Mapping[str, str] = {}

    def _artefact(self, kind: str, table: Mapping[str, Any]) -> Artefact:
        base = self.grid.default | table["in"]
        axis = self.axes[table.get("axis", next(iter(self.axes)))]
        rows = table.get("rows") or first_match(self._data["rows"], base, "values")
        quantity = self.quantities[table.get("quantity", next(iter(self.quantities)))]
        series = tuple(self._series(table, base))
        return Artefact(
            kind,
            table["name"],
            table["caption"],
            base,
            (0, *rows) if kind == "figure" and axis.zero else tuple(rows),
            tuple(column.name for column in series),
            quantity,
            self.grid,
            bool(self._data.get("spread", False)),
            axis,
            series,
            lambda cell: float(self.models.value(quantity.name, dict(cell))),
            is_absolute=bool(table.get("absolute", False)),
        )

    def _series(self, table: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[Column]:
        """Yields the columns of an artefact, each followed by its model curve."""
        compare = table.get("compare", self.grid.column)
        for value in table.get("columns") or first_match(self._data["columns"], base, "names"):
            if isinstance(value, dict):
                name, where = value["name"], value["in"]
            else:
                axis = self.axes.get(compare)
                name, where = axis.call(value) if axis else str(value), {compare: value}
            cell = dict(self.grid.cell({**base, **where}))
            yield Column(name, where, is_model=self.models.has(cell))
            if "curves" in table:
                curve = where | table["curves"]
                yield Column(f"{name}, model", curve, beside=name, is_model=True)

    def _sensitivity(self, table: Mapping[str, Any]) -> Sensitivity:
        touched = tuple(
            claim.id
            for claim in self.claims
            if any(fnmatchcase(claim.id, pattern) for pattern in table["claims"])
        )
        values = tuple(
            (value["name"], tuple(Change(**change) for change in value.get("change", ())))
            for value in table["value"]
        )
        moves = {value["name"]: value.get("in", {}) for value in table["value"]}
        return Sensitivity(table["name"], table["about"], touched, values, moves)

    def find(self, names: Sequence[str]) -> list[Artefact]:
        """Returns the artefacts of these names; all of them if no name is given.

        Case, spaces and arabic or roman numbers make no difference: `table 1` is `Table I`.

        Raises:
            StudyError: If there is no such artefact.
        """
        if not names:
            return list(self.artefacts)
        known = {normalized(artefact.name): artefact for artefact in self.artefacts}
        found: dict[str, Artefact] = {}
        for name in names:
            artefact = known.get(normalized(name))
            if artefact is None:
                allowed = "; ".join(artefact.name for artefact in self.artefacts)
                raise StudyError(f"{name}: no such table or figure in {self.key}; it has {allowed}")
            found[artefact.name] = artefact
        return list(found.values())

    def scenario(self, cell: Cell, changes: Sequence[Change] = ()) -> Scenario:
        """Returns the scenario of one cell of the grid, with further changes where they apply."""
        where = dict(cell)
        base = self._scenario_table(where)
        tables = read_table(self._folder, base["file"])
        for change in (*self._changes, *changes):
            if not change.applies(where):
                continue
            for pattern, value in change.set.items():
                for key in matching_keys(tables, pattern.replace("{flow}", base["flow"])):
                    found = fill(copy.deepcopy(value), lambda name: self.models.value(name, where))
                    assign(tables, key, found)
        # Recordings that scenarios name are in the study's folder.
        scenario = Scenario(tables, base=str(self._folder))
        for key, text in self.changes.items():
            scenario = changed(scenario, key.replace("{flow}", base["flow"]), text) or scenario
        return scenario

    def _scenario_table(self, where: Mapping[str, Any]) -> Mapping[str, Any]:
        for table in self._data["scenario"]:
            if matches(table["when"], where):
                found: Mapping[str, Any] = table
                return found
        raise StudyError(f"{self.key}: no scenario for {dict(where)}")

    def cells(self, artefacts: Sequence[Artefact]) -> list[Cell]:
        """Returns the cells that have to be run for these artefacts, each once."""
        return list(
            dict.fromkeys(
                cell
                for artefact in artefacts
                for row in artefact.rows
                for column in artefact.columns
                for cell in self.needs(artefact.cell(row, column), artefact.quantity.name)
            )
        )

    def cells_of(self, claim: Claim) -> list[Cell]:
        """Returns the cells that have to be run to judge a claim, each once."""
        return list(
            dict.fromkeys(
                cell
                for where, quantity in looked_up(claim, self.names, self.rule)
                for cell in self.needs(where, quantity)
            )
        )

    def needs(self, cell: Cell, quantity: str) -> list[Cell]:
        """Returns the cells to run for a quantity of a cell: itself, others, or none."""
        if self.models.has(dict(cell)):
            return []
        if not self.quantities[quantity].value:
            return [cell]
        found: list[Cell] = []

        def note(other: Cell, name: str) -> Estimate:
            found.extend(self.needs(other, name))
            return Estimate.constant(1.0)

        Evaluator(note, self.names, self.rule).value(self.quantities[quantity].value, cell)
        return found

    @property
    def name(self) -> str:
        """Its key, with the changes."""
        return ", ".join((self.key, *(f"{key} = {text}" for key, text in self.changes.items())))

    def flow(self, cell: Cell) -> str:
        """Returns the name of the flow that a cell measures."""
        name: str = self._scenario_table(dict(cell))["flow"]
        return name

    def metrics(self, cell: Cell, quantity: str, known: Sequence[str]) -> list[str]:
        """Returns those of the known metrics whose sum is a quantity of a cell."""
        metric = self.quantities[quantity].metric.replace("{flow}", self.flow(cell))
        if "*" in metric:
            return [name for name in known if fnmatchcase(name, metric)]
        return [metric] if metric in known else []

    def reproduce(
        self,
        names: Sequence[str] = (),
        *,
        replications: int | None = None,
        seed: int | None = None,
        jobs: int = 0,
        progress: Progress | None = None,
        campaign: Campaign | None = None,
        judge_at: Sequence[int] = (),
    ) -> Report:
        """Runs what the named tables and figures need, and reports.

        Args:
            names: Tables and figures; all of them if empty.
            replications: Replications per cell; the paper's number if None.
            seed: Master seed; the study's if None.
            jobs: Threads; 0 for all cores.
            progress: As for `lasthop.run`.
            campaign: Store whose results are reused, and to which new ones are added.
            judge_at: Numbers of first replications on which claims are judged, too.

        Raises:
            StudyError: If there is no such table or figure, or if a number of `judge_at` is below
                2 or not below the replications that are run.
        """
        count = self.replications if replications is None else replications
        for first in judge_at:
            if not 2 <= first < count:
                raise StudyError(f"judge_at: found {first}; expected 2 to {count - 1}")
        artefacts = self.find(names)
        cells = self.cells(artefacts)
        points = [self.scenario(cell).points()[0] for cell in cells]
        run = run_points if campaign is None else campaign.run_points

        def group(chosen: Sequence[int], count: int) -> Results:
            return run(
                [points[n] for n in chosen],
                replications=count,
                seed=self.seed if seed is None else seed,
                scenario={"name": self.name},
                parameters=[dict(cells[n]) for n in chosen],
                jobs=jobs,
                progress=progress,
            )

        every = [
            Point(dict(cell), f"{point.hash:016x}")
            for cell, point in zip(cells, points, strict=True)
        ]
        results = in_groups(every, self._counts(cells, replications), group)
        return self.report(artefacts, cells, results, judge_at)

    def _counts(self, cells: Sequence[Cell], replications: int | None) -> list[int]:
        """Returns the replications of each cell: the paper's number if `replications` is None."""
        if replications is not None:
            return [replications] * len(cells)
        return [self.replications_of(cell) for cell in cells]

    def replications_of(self, cell: Cell) -> int:
        """Replications of a cell that the paper ran: more where `[[more]]` has them."""
        for table in self._data.get("more", ()):
            if matches(table["when"], dict(cell)):
                return int(table["replications"])
        return self.replications

    def plan(
        self,
        campaign: Campaign,
        names: Sequence[str] = (),
        *,
        replications: int | None = None,
        seed: int | None = None,
        jobs: int = 0,
    ) -> Plan:
        """Returns the plan of `reproduce` with this campaign; arguments and errors as there."""
        cells = self.cells(self.find(names))
        return campaign.plan_points(
            [self.scenario(cell).points()[0] for cell in cells],
            replications=self._counts(cells, replications),
            seed=self.seed if seed is None else seed,
            jobs=jobs,
        )

    def report(
        self,
        artefacts: Sequence[Artefact],
        cells: Sequence[Cell],
        results: Results,
        judge_at: Sequence[int] = (),
    ) -> Report:
        """Returns tables, figures and verdicts from the results of these cells, in this order.

        Args:
            artefacts: Tables and figures.
            cells: The cells of the points of the results.
            results: Their results.
            judge_at: As for `reproduce`.
        """
        index = {cell: point for point, cell in enumerate(cells)}
        numbers = [
            cell for artefact in artefacts for cell in self._report_cells(artefact, index, results)
        ]
        verdicts = self._judge(index, results)
        earlier = {first: self._judge(index, results, first) for first in judge_at}
        return Report(self, artefacts, numbers, verdicts, results, results.complete, earlier)

    def _judge(
        self, index: Mapping[Cell, int], results: Results, first: int | None = None
    ) -> list[Verdict]:
        """Judges the claims on the first `first` replications, or on all."""
        samples = self.samples(index, results, first)
        return list(judge(self.claims, samples, self.names, self.rule))

    def printed(self) -> dict[tuple[Cell, str], float]:
        """Returns the printed numbers of all tables, by cell and quantity."""
        found: dict[tuple[Cell, str], float] = {}
        for artefact in self.artefacts:
            for (row, column, unit), value in self.published.get(artefact.name, {}).items():
                if unit == artefact.quantity.unit:
                    where = artefact.cell(value_of_row(row), column)
                    found[where, artefact.quantity.name] = value
        return found

    def judge_printed(self) -> list[Printed]:
        """Makes the comparisons of the claims on the numbers that the paper prints."""
        printed = self.printed()

        def samples(cell: Cell, quantity: str) -> Estimate:
            if (cell, quantity) not in printed:
                raise Missing(f"{quantity} of {dict(cell)}")
            return Estimate.constant(printed[cell, quantity])

        return judge_printed(self.claims, samples, self.names, self.rule)

    def report_on(self, results: Results) -> Report:
        """Returns a report on given results: every artefact of which all cells have results.

        Args:
            results: Results whose points have coordinates of cells as parameters.
        """
        cells = [self.grid.cell(point.parameters) for point in results.points]
        there = set(cells)
        artefacts = [one for one in self.artefacts if there.issuperset(self.cells([one]))]
        return self.report(artefacts, cells, results)

    def samples(
        self, index: Mapping[Cell, int], results: Results, first: int | None = None
    ) -> Samples:
        """Looks up means of cells.

        Args:
            index: Points of the results by cell.
            results: Results of all points.
            first: Number of replications to use, from the first on; all if None.
        """

        @functools.cache
        def samples(cell: Cell, quantity: str) -> Estimate:
            if self.models.has(dict(cell)):
                return Estimate.constant(float(self.models.value(quantity, dict(cell))))
            derived = self.quantities[quantity].value
            if derived:
                return Evaluator(samples, self.names, self.rule).value(derived, cell)
            return Estimate.of(self._values(cell, quantity, index, results)[:first])

        return samples

    def _values(
        self, cell: Cell, quantity: str, index: Mapping[Cell, int], results: Results
    ) -> Floats:
        """Returns a quantity of a cell in each replication."""
        if cell not in index:
            raise Missing(", ".join(f"{key} {value}" for key, value in cell))
        metrics = self.metrics(cell, quantity, results.metrics)
        if not metrics:
            raise Missing(f"{quantity} of {dict(cell)}")
        # Studies divide by the observed duration of a transfer, complete or not.
        values = [results.samples(metric, index[cell], censored=True) for metric in metrics]
        known = self.quantities[quantity]
        if len(values) == 1 and known.combine == "sum":
            return values[0] / known.per
        # A metric that a cell lacks is NaN in all of its replications.
        there = [one for one in values if not np.isnan(one).all()] or values[:1]
        total: Floats = np.sum(there, axis=0)
        squares: Floats = np.sum(np.square(there), axis=0)
        found: Floats = total / known.per
        return found if known.combine == "sum" else jain_index(total, squares, len(there))

    def _report_cells(
        self, artefact: Artefact, index: Mapping[Cell, int], results: Results
    ) -> Iterator[ReportCell]:
        published = self.published.get(artefact.name, {})
        quantity = artefact.quantity
        # A figure shows the numbers that a table prints of the same cells.
        printed = self.printed()
        samples = self.samples(index, results)
        for row_value in artefact.rows:
            row = f"{row_value:g}"
            base = None
            for column in artefact.columns:
                cell = artefact.cell(row_value, column)
                mean, values = self._interval(cell, quantity, samples, index, results)
                key = (row, column, quantity.unit)
                known = published.get(key, printed.get((cell, quantity.name)))
                yield ReportCell(
                    artefact.name,
                    row,
                    column,
                    mean.mean,
                    mean.ci95,
                    quantity.unit,
                    known,
                    mean.n,
                    standard_deviation(values),
                    self._misses(mean.mean, mean.ci95, mean.n, known),
                    self.published_intervals.get(artefact.name, {}).get(key),
                )
                if column == artefact.columns[0]:
                    base = values
                elif artefact.has_gains and base is not None:
                    pair = statistics.difference(values, base)
                    known = published.get((row, column, "%"))
                    gain, width = 100.0 * (pair.ratio - 1.0), 100.0 * pair.ratio_ci95
                    yield ReportCell(
                        artefact.name,
                        row,
                        column,
                        gain,
                        width,
                        "%",
                        known,
                        pair.n,
                        misses=self._misses(gain, width, pair.n, known),
                    )

    def _misses(self, value: float, ci95: float, n: int, published: float | None) -> bool:
        """Returns `True` if a mean and the published one differ significantly, at 95 %.

        The interval of the published mean is not printed. It is assumed to be as wide as ours with
        the paper's number of replications.
        """
        if published is None or n < 2:
            return False
        return abs(value - published) > ci95 * math.sqrt(1.0 + n / self.replications)

    def _interval(
        self,
        cell: Cell,
        quantity: Quantity,
        samples: Samples,
        index: Mapping[Cell, int],
        results: Results,
    ) -> tuple[statistics.Interval, Floats]:
        """Returns a quantity of a cell, and its value in each replication that has one."""
        nothing = np.full(len(np.unique(results.replication)) or 1, math.nan)
        try:
            if quantity.value or self.models.has(dict(cell)):
                found = samples(cell, quantity.name)
                mean = statistics.Interval(found.value, found.half_width(), found.n)
                return mean, nothing
            values = self._values(cell, quantity.name, index, results)
        except Missing:
            # The run was interrupted before the first replication of this kind was finished.
            values = nothing
        return statistics.interval(values), values


@functools.cache
def studies() -> Mapping[str, Study]:
    """Returns the studies of this installation, by their short names."""
    found = {}
    for folder in sorted(resources.files("lasthop.papers").iterdir(), key=lambda f: f.name):
        if folder.is_dir() and (folder / "study.toml").is_file():
            study = Study(folder)
            found[study.key] = study
    return found
