"""Reproducing published studies: the grid, the tables and figures, the claims.

A study is a folder of data under `lasthop/papers`: scenario files, `study.toml` (grid and layout),
`published.toml` (the numbers that the paper prints) and `claims.toml`.
"""

from __future__ import annotations

import copy
import functools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from lasthop import statistics
from lasthop.claims import (
    ROW,
    Cell,
    Grid,
    Judgement,
    Missing,
    Rule,
    Samples,
    Verdict,
    formula,
    judge,
    read_claims,
)
from lasthop.results import Results, number
from lasthop.running import Progress, run_points
from lasthop.scenario import Scenario, assign
from lasthop.statistics import Estimate, Floats

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


class StudyError(ValueError):
    """No such study, table or figure."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What can be asked of a cell.

    Attributes:
        name: What claims call it.
        label: What axes call it.
        metric: Name of the metric; `{flow}` stands for the cell's flow.
        unit: What it is printed in.
        per: What one such unit is, in the metric's own.
        digits: Decimal places that are printed.
    """

    name: str
    label: str
    metric: str
    unit: str
    per: float
    digits: int


@dataclass(frozen=True, slots=True)
class Change:
    """Keys of a scenario that differ in some cells.

    Attributes:
        when: Coordinates where it holds: one value or a list of them each.
        set: Dotted keys and values. `{flow}` stands for the cell's flow; a part with `*` for every
            table of the scenario that matches.
    """

    when: Mapping[str, Any]
    set: Mapping[str, Any]

    def applies(self, where: Mapping[str, Any]) -> bool:
        """Whether it holds in a cell."""
        return _matches(self.when, where)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A choice that the paper leaves open, and what else it could have been.

    Attributes:
        name: What is varied.
        about: What the study chooses, and between what it varies.
        claims: Claims that it can touch.
        values: What it is varied to, and what then changes in the scenarios.
    """

    name: str
    about: str
    claims: tuple[str, ...]
    values: tuple[tuple[str, tuple[Change, ...]], ...]


@dataclass(frozen=True, slots=True)
class Highlight:
    """Claims that belong side by side, with all their figures.

    Attributes:
        title: What they show together.
        claims: Which.
    """

    title: str
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Artefact:
    """A table or a figure.

    Attributes:
        kind: `table` or `figure`.
        name: What the paper calls it, or what it shows if the paper only describes it.
        caption: What it shows.
        base: Coordinates that all its cells share.
        losses: Its rows, or the points on its x-axis, in per cent.
        columns: What it compares; the first is the baseline.
        quantity: What it shows of them.
        grid: The study's coordinates.
        spread: Whether it shows the standard deviation too.
    """

    kind: str
    name: str
    caption: str
    base: Mapping[str, Any]
    losses: tuple[float, ...]
    columns: tuple[str, ...]
    quantity: Quantity
    grid: Grid
    spread: bool

    def cell(self, flr: float, column: str) -> Cell:
        """One of its cells."""
        return self.grid.cell({**self.base, ROW: flr, self.grid.column: column})


@dataclass(frozen=True, slots=True)
class ReportCell:
    """One number of a reproduced table or figure.

    Attributes:
        artefact: Name of the table or figure.
        row: Frame loss rate as the paper labels it, in per cent.
        column: What it is compared by.
        value: Mean, in `unit`; NaN if nothing was finished.
        ci95: Half-width of its 95 % interval; NaN if unknown.
        unit: That of the quantity, or `%` for the improvement over the first column of a table.
        published: What the paper prints, in `unit`; None where our copy does not hold it.
        n: Replications.
        sd: Standard deviation over replications, in `unit`; NaN if unknown.
    """

    artefact: str
    row: str
    column: str
    value: float
    ci95: float
    unit: str
    published: float | None
    n: int
    sd: float = math.nan


@dataclass(frozen=True)
class Report:
    """A reproduction: the artefacts asked for, their cells, the claims they decide.

    Attributes:
        study: Which study.
        artefacts: What was asked for.
        cells: Their numbers.
        verdicts: The claims; those that need cells that were not run say so in their evidence.
        results: The replications that all this rests on.
        complete: False if the run was interrupted.
    """

    study: Study
    artefacts: Sequence[Artefact]
    cells: Sequence[ReportCell]
    verdicts: Sequence[Verdict]
    results: Results
    complete: bool

    def to_dict(self) -> dict[str, Any]:
        """What `lasthop reproduce --format json` prints."""
        spread = {artefact.name for artefact in self.artefacts if artefact.spread}
        return {
            "study": self.study.key,
            "cells": [
                {
                    "artefact": cell.artefact,
                    "row": cell.row,
                    "column": cell.column,
                    "value": number(cell.value),
                    "ci95": number(cell.ci95),
                    "unit": cell.unit,
                    "published": cell.published,
                    "n": cell.n,
                    **({"sd": number(cell.sd)} if cell.artefact in spread else {}),
                }
                for cell in self.cells
            ],
            "claims": [
                {
                    "id": one.claim.id,
                    "verdict": one.verdict,
                    "evidence": one.evidence,
                    **(
                        {"comparisons": [_comparison(j) for j in one.judgements]}
                        if self.study.rule.parts
                        else {}
                    ),
                }
                for one in self.verdicts
            ],
        }


def _comparison(judgement: Judgement) -> dict[str, Any]:
    return {
        "comparison": formula(judgement.comparison),
        "cell": dict(judgement.comparison.cell),
        "holds": judgement.holds,
        "left": number(judgement.left),
        "right": number(judgement.right),
        "difference": number(judgement.difference),
        "half_width": number(judgement.half_width),
        "p_value": number(judgement.p_value),
        "p_corrected": number(judgement.p_corrected),
        "n": judgement.n,
    }


class Study:
    """A study and its data.

    Attributes:
        key: Its short name, that of its folder.
        title: Title of the paper.
        about: One line on what it holds.
        replications: Replications a cell that the paper ran.
        seed: Default master seed.
        combinations: Names of what is compared; the first is the baseline.
        names: The same by the names that claims use.
        quantities: What can be asked of a cell, by name; the first is the main one.
        grid: The coordinates of its cells.
        artefacts: Tables and figures in order.
        rule: How claims are judged.
        claims: The paper's claims.
        highlights: Claims to show side by side.
        sensitivities: Choices that the paper leaves open.
        published: Per table and (row, column, unit) what the paper prints.
    """

    def __init__(self, folder: Traversable) -> None:
        """Reads a study's folder."""
        self._folder = folder
        self._data = data = _read(folder, "study.toml")
        self.key: str = data["key"]
        self.title: str = data["title"]
        self.about: str = data["about"]
        self.replications: int = data["replications"]
        self.seed: int = data["seed"]
        self.combinations: tuple[str, ...] = tuple(c["name"] for c in data["combination"])
        self.names: Mapping[str, str] = {
            c.get("short", re.sub(r"\W", "_", c["name"]).lower()): c["name"]
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
        self._changes = tuple(Change(**table) for table in data["change"])
        self.artefacts = tuple(
            self._artefact(kind, table)
            for kind in ("table", "figure")
            for table in data.get(kind, ())
        )
        claims = _read(folder, "claims.toml")
        self.rule = Rule(
            about=claims["rule"]["about"],
            level=claims["rule"]["level"],
            losses=tuple(data["rows"][0]["losses"]),
            quantities=tuple(self.quantities),
            grid=self.grid,
            parts=claims["rule"].get("parts", False),
            correction=claims["rule"].get("correction", "bonferroni"),
        )
        self.claims = read_claims(claims["claim"], self.grid)
        self.highlights = tuple(
            Highlight(table["title"], tuple(table["claims"])) for table in data.get("highlight", ())
        )
        self.sensitivities = tuple(self._sensitivity(t) for t in data.get("sensitivity", ()))
        self.published = self._read_published()

    def _artefact(self, kind: str, table: Mapping[str, Any]) -> Artefact:
        base = self.grid.default | table["in"]
        losses = table.get("losses") or _first(self._data["rows"], base, "losses")
        columns = table.get("columns") or _first(self._data["columns"], base, "names")
        quantity = self.quantities[table.get("quantity", next(iter(self.quantities)))]
        return Artefact(
            kind,
            table["name"],
            table["caption"],
            base,
            tuple(losses) if kind == "table" else (0, *losses),
            tuple(columns),
            quantity,
            self.grid,
            bool(self._data.get("spread", False)),
        )

    def _sensitivity(self, table: Mapping[str, Any]) -> Sensitivity:
        touched = tuple(
            claim.id
            for claim in self.claims
            if any(fnmatchcase(claim.id, pattern) for pattern in table["claims"])
        )
        values = tuple(
            (value["name"], tuple(Change(**change) for change in value["change"]))
            for value in table["value"]
        )
        return Sensitivity(table["name"], table["about"], touched, values)

    def _read_published(self) -> dict[str, dict[tuple[str, str, str], float]]:
        published: dict[str, dict[tuple[str, str, str], float]] = {}
        baseline, *others = self.combinations
        for name, rows in _read(self._folder, "published.toml").items():
            if name == "source":
                continue
            cells = published.setdefault(name, {})
            for row in rows:
                label = f"{row[ROW]:g}"
                cells[label, baseline, "kbps"] = row["kbps"]
                for column in others:
                    cells[label, column, "%"] = row[column]
                    improved = row["kbps"] * (1.0 + row[column] / 100.0)
                    # To the paper's own precision: both factors are rounded in print.
                    cells[label, column, "kbps"] = round(improved, 2)
        return published

    def find(self, names: Sequence[str]) -> list[Artefact]:
        """The artefacts of these names; all of them if there are none.

        Case, spaces and arabic or roman numbers make no difference: `table 1` is `Table I`.

        Raises:
            StudyError: If there is no such artefact.
        """
        if not names:
            return list(self.artefacts)
        known = {_normal(artefact.name): artefact for artefact in self.artefacts}
        found: dict[str, Artefact] = {}
        for name in names:
            artefact = known.get(_normal(name))
            if artefact is None:
                allowed = "; ".join(artefact.name for artefact in self.artefacts)
                raise StudyError(f"{name}: no such table or figure in {self.key}; it has {allowed}")
            found[artefact.name] = artefact
        return list(found.values())

    def scenario(self, cell: Cell, changes: Sequence[Change] = ()) -> Scenario:
        """The scenario of one cell of the grid, with further changes where they apply."""
        where = dict(cell)
        base = self._scenario_table(where)
        tables = _read(self._folder, base["file"])
        for change in (*self._changes, *changes):
            if not change.applies(where):
                continue
            for pattern, value in change.set.items():
                for key in _keys(tables, pattern.replace("{flow}", base["flow"])):
                    assign(tables, key, copy.deepcopy(value))
        return Scenario(tables)

    def _scenario_table(self, where: Mapping[str, Any]) -> Mapping[str, Any]:
        for table in self._data["scenario"]:
            if _matches(table["when"], where):
                found: Mapping[str, Any] = table
                return found
        raise StudyError(f"{self.key}: no scenario for {dict(where)}")

    def cells(self, artefacts: Sequence[Artefact]) -> list[Cell]:
        """The cells that these artefacts show, each once."""
        return list(
            dict.fromkeys(
                artefact.cell(flr, column)
                for artefact in artefacts
                for flr in artefact.losses
                for column in artefact.columns
            )
        )

    def metric(self, cell: Cell, quantity: str) -> str:
        """The metric that holds a quantity of a cell."""
        flow = self._scenario_table(dict(cell))["flow"]
        return self.quantities[quantity].metric.replace("{flow}", flow)

    def reproduce(
        self,
        names: Sequence[str] = (),
        *,
        replications: int | None = None,
        seed: int | None = None,
        jobs: int = 0,
        progress: Progress | None = None,
    ) -> Report:
        """Runs what the named tables and figures need, and reports.

        Args:
            names: Tables and figures; all of them if empty.
            replications: Replications a cell; as many as the paper's if None.
            seed: Master seed; the study's own if None.
            jobs: Threads; 0 for all cores.
            progress: As for `lasthop.run`.

        Raises:
            StudyError: If there is no such table or figure.
        """
        artefacts = self.find(names)
        cells = self.cells(artefacts)
        points = [self.scenario(cell).points()[0] for cell in cells]
        results = run_points(
            points,
            replications=self.replications if replications is None else replications,
            seed=self.seed if seed is None else seed,
            scenario={"name": self.key},
            parameters=[dict(cell) for cell in cells],
            jobs=jobs,
            progress=progress,
        )
        return self.report(artefacts, cells, results)

    def report(
        self, artefacts: Sequence[Artefact], cells: Sequence[Cell], results: Results
    ) -> Report:
        """Makes tables, figures and verdicts of the results of these cells, in this order."""
        index = {cell: point for point, cell in enumerate(cells)}
        numbers = [
            cell for artefact in artefacts for cell in self._report_cells(artefact, index, results)
        ]
        verdicts = list(judge(self.claims, self.samples(index, results), self.names, self.rule))
        return Report(self, artefacts, numbers, verdicts, results, results.complete)

    def samples(self, index: Mapping[Cell, int], results: Results) -> Samples:
        """Looks up means of cells; `index` says which point of the results a cell is."""

        @functools.cache
        def samples(cell: Cell, quantity: str) -> Estimate:
            if cell not in index:
                raise Missing(", ".join(f"{key} {value}" for key, value in cell))
            metric = self.metric(cell, quantity)
            if metric not in results.metrics:
                raise Missing(metric)
            values = results.samples(metric, index[cell])
            return Estimate.of(values / self.quantities[quantity].per)

        return samples

    def _report_cells(
        self, artefact: Artefact, index: Mapping[Cell, int], results: Results
    ) -> Iterator[ReportCell]:
        published = self.published.get(artefact.name, {})
        quantity = artefact.quantity
        for flr in artefact.losses:
            row = f"{flr:g}"
            base = None
            for column in artefact.columns:
                cell = artefact.cell(flr, column)
                metric = self.metric(cell, quantity.name)
                if metric not in results.metrics:
                    # Interrupted before the first replication of this kind was finished.
                    samples = results.samples(results.metrics[0], index[cell]) * math.nan
                else:
                    samples = results.samples(metric, index[cell]) / quantity.per
                mean = statistics.interval(samples)
                yield ReportCell(
                    artefact.name,
                    row,
                    column,
                    mean.mean,
                    mean.ci95,
                    quantity.unit,
                    published.get((row, column, quantity.unit)),
                    mean.n,
                    _deviation(samples),
                )
                if column == artefact.columns[0]:
                    base = samples
                elif artefact.kind == "table" and base is not None:
                    pair = statistics.difference(samples, base)
                    yield ReportCell(
                        artefact.name,
                        row,
                        column,
                        100.0 * (pair.ratio - 1.0),
                        100.0 * pair.ratio_ci95,
                        "%",
                        published.get((row, column, "%")),
                        pair.n,
                    )


def _deviation(samples: Floats) -> float:
    """Standard deviation; NaN for fewer than two samples."""
    values = samples[~np.isnan(samples)]
    return float(np.std(values, ddof=1)) if values.size > 1 else math.nan


def _matches(when: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether coordinates are as asked: one value or one of a list each."""
    return all(
        where.get(key) in (value if isinstance(value, list) else [value])
        for key, value in when.items()
    )


def _first(tables: Sequence[Mapping[str, Any]], where: Mapping[str, Any], key: str) -> Any:
    """The key of the first table whose `when` holds."""
    return next(table[key] for table in tables if _matches(table.get("when", {}), where))


def _keys(tables: Mapping[str, Any], pattern: str) -> list[str]:
    """The dotted keys that a pattern stands for: parts with `*` match the tables that are there."""
    first, dot, rest = pattern.partition(".")
    names = [name for name in tables if fnmatchcase(name, first)] if "*" in first else [first]
    if not dot:
        return names
    found = []
    for name in names:
        child = tables.get(name)
        found += [f"{name}.{key}" for key in _keys(child if isinstance(child, dict) else {}, rest)]
    return found


def _read(folder: Traversable, name: str) -> dict[str, Any]:
    return tomllib.loads((folder / name).read_text(encoding="utf-8"))


_ROMAN = {"i": "1", "ii": "2", "iii": "3", "iv": "4", "v": "5", "vi": "6", "vii": "7", "viii": "8"}


def _normal(name: str) -> str:
    words = re.findall(r"[a-z]+|[0-9]+", name.lower())
    return " ".join(_ROMAN.get(word, {"fig": "figure"}.get(word, word)) for word in words)


@functools.cache
def studies() -> Mapping[str, Study]:
    """The studies that this installation holds, by their short names."""
    found = {}
    for folder in sorted(resources.files("lasthop.papers").iterdir(), key=lambda f: f.name):
        if folder.is_dir() and (folder / "study.toml").is_file():
            study = Study(folder)
            found[study.key] = study
    return found
