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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from lasthop import statistics
from lasthop.claims import Cell, Claim, Missing, Rule, Verdict, judge
from lasthop.results import Results, number
from lasthop.running import Progress, run_points
from lasthop.scenario import Scenario, assign
from lasthop.statistics import Estimate

__all__ = ["Artefact", "Report", "ReportCell", "Study", "StudyError", "studies"]


class StudyError(ValueError):
    """No such study, table or figure."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """A table or a figure.

    Attributes:
        kind: `table` or `figure`.
        name: What the paper calls it, or what it shows if the paper only describes it.
        caption: What it shows.
        base: Coordinates that all its cells share.
        losses: Its rows, or the points on its x-axis, in per cent.
    """

    kind: str
    name: str
    caption: str
    base: Mapping[str, Any]
    losses: tuple[float, ...]

    def cell(self, flr: float, combination: str) -> Cell:
        """One of its cells."""
        coordinates = {**self.base, "flr": flr, "combination": combination}
        if flr == 0:
            coordinates["model"] = "none"
        return tuple(sorted(coordinates.items()))


@dataclass(frozen=True, slots=True)
class ReportCell:
    """One number of a reproduced table or figure.

    Attributes:
        artefact: Name of the table or figure.
        row: Frame loss rate as the paper labels it, in per cent.
        column: Combination.
        value: Mean, in `unit`; NaN if nothing was finished.
        ci95: Half-width of its 95 % interval; NaN if unknown.
        unit: `kbps`, or `%` for the improvement over the first combination.
        published: What the paper prints, in `unit`; None where our copy does not hold it.
        n: Replications.
    """

    artefact: str
    row: str
    column: str
    value: float
    ci95: float
    unit: str
    published: float | None
    n: int


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
                }
                for cell in self.cells
            ],
            "claims": [
                {"id": one.claim.id, "verdict": one.verdict, "evidence": one.evidence}
                for one in self.verdicts
            ],
        }


class Study:
    """A study and its data.

    Attributes:
        key: Its short name, that of its folder.
        title: Title of the paper.
        about: One line on what it holds.
        replications: Replications a cell that the paper ran.
        seed: Default master seed.
        losses: Loss rates of its tables, in per cent.
        combinations: Names of what is compared; the first is the baseline.
        artefacts: Tables and figures in order.
        claims: The paper's claims.
        published: Per table and (row, column, unit) what the paper prints.
    """

    def __init__(self, folder: Traversable) -> None:
        """Reads a study's folder."""
        self._folder = folder
        self._grid = _read(folder, "study.toml")
        self.key: str = self._grid["key"]
        self.title: str = self._grid["title"]
        self.about: str = self._grid["about"]
        self.replications: int = self._grid["replications"]
        self.seed: int = self._grid["seed"]
        self.losses: tuple[float, ...] = tuple(self._grid["losses"])
        self.combinations: tuple[str, ...] = tuple(c["name"] for c in self._grid["combination"])
        self.artefacts = tuple(
            self._artefact(kind, table)
            for kind in ("table", "figure")
            for table in self._grid[kind]
        )
        claims = _read(folder, "claims.toml")
        self.rule = Rule(claims["rule"]["about"], claims["rule"]["level"], self.losses)
        self.claims = tuple(Claim.from_table(table) for table in claims["claim"])
        self.published = self._read_published()

    def _artefact(self, kind: str, table: Mapping[str, Any]) -> Artefact:
        base = {k: table[k] for k in ("topology", "application", "congestion", "model")}
        losses = self.losses if kind == "table" else (0, *self.losses)
        return Artefact(kind, table["name"], table["caption"], base, losses)

    def _read_published(self) -> dict[str, dict[tuple[str, str, str], float]]:
        published: dict[str, dict[tuple[str, str, str], float]] = {}
        baseline, *others = self.combinations
        for name, rows in _read(self._folder, "published.toml").items():
            if name == "source":
                continue
            cells = published.setdefault(name, {})
            for row in rows:
                label = f"{row['flr']:g}"
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

    def scenario(self, cell: Cell) -> Scenario:
        """The scenario of one cell of the grid."""
        where = dict(cell)
        base = self._scenario_table(where)
        tables = _read(self._folder, base["file"])
        topology = self._grid["topology"][where["topology"]]
        changes = dict(topology["set"])
        if where["congestion"]:
            changes |= topology["set_congested"]
        combination = next(
            c for c in self._grid["combination"] if c["name"] == where["combination"]
        )
        channel = next(
            c
            for c in self._grid["channel"]
            if (c["model"], c["flr"]) == (where["model"], where["flr"])
        )
        changes["link.wireless.protocol"] = self._grid["protocol"][combination["protocol"]]
        changes["link.wireless.errors"] = channel["errors"]
        changes[f"flow.{base['flow']}.transport.variant"] = combination["variant"]
        for key, value in changes.items():
            assign(tables, key, copy.deepcopy(value))
        return Scenario(tables)

    def _scenario_table(self, where: Mapping[str, Any]) -> Mapping[str, Any]:
        for table in self._grid["scenario"]:
            if all(table[key] == where[key] for key in ("application", "congestion")):
                found: Mapping[str, Any] = table
                return found
        raise StudyError(f"{self.key}: no scenario for {dict(where)}")

    def cells(self, artefacts: Sequence[Artefact]) -> list[Cell]:
        """The cells that these artefacts show, each once."""
        return list(
            dict.fromkeys(
                artefact.cell(flr, combination)
                for artefact in artefacts
                for flr in artefact.losses
                for combination in self.combinations
            )
        )

    def metric(self, cell: Cell, quantity: str) -> str:
        """The metric that holds a quantity of a cell."""
        flow = self._scenario_table(dict(cell))["flow"]
        return f"flow.{flow}.{'goodput_bps' if quantity == 'goodput' else quantity}"

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

        @functools.cache
        def samples(cell: Cell, quantity: str) -> Estimate:
            if cell not in index:
                raise Missing(", ".join(f"{key} {value}" for key, value in cell))
            metric = self.metric(cell, quantity)
            if metric not in results.metrics:
                raise Missing(metric)
            scale = 1000.0 if quantity == "goodput" else 1.0
            return Estimate.of(results.samples(metric, index[cell]) / scale)

        numbers = [
            cell for artefact in artefacts for cell in self._report_cells(artefact, index, results)
        ]
        names = {re.sub(r"\W", "_", name).lower(): name for name in self.combinations}
        verdicts = list(judge(self.claims, samples, names, self.rule))
        return Report(self, artefacts, numbers, verdicts, results, results.complete)

    def _report_cells(
        self, artefact: Artefact, index: Mapping[Cell, int], results: Results
    ) -> list[ReportCell]:
        published = self.published.get(artefact.name, {})
        baseline = self.combinations[0]
        cells = []
        for flr in artefact.losses:
            row = f"{flr:g}"
            base = None
            for column in self.combinations:
                cell = artefact.cell(flr, column)
                metric = self.metric(cell, "goodput")
                if metric not in results.metrics:
                    # Interrupted before the first replication of this kind was finished.
                    samples = results.samples(results.metrics[0], index[cell]) * math.nan
                else:
                    samples = results.samples(metric, index[cell]) / 1000.0
                kbps = statistics.interval(samples)
                cells.append(
                    ReportCell(
                        artefact.name,
                        row,
                        column,
                        kbps.mean,
                        kbps.ci95,
                        "kbps",
                        published.get((row, column, "kbps")),
                        kbps.n,
                    )
                )
                if column == baseline:
                    base = samples
                elif artefact.kind == "table" and base is not None:
                    pair = statistics.difference(samples, base)
                    cells.append(
                        ReportCell(
                            artefact.name,
                            row,
                            column,
                            100.0 * (pair.ratio - 1.0),
                            100.0 * pair.ratio_ci95,
                            "%",
                            published.get((row, column, "%")),
                            pair.n,
                        )
                    )
        return cells


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
