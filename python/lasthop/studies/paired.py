"""Differences of a study's columns from one of them, replication by replication."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lasthop.evaluating.cells import number
from lasthop.evaluating.statistics import holm
from lasthop.studies.artefacts import Artefact
from lasthop.studies.claims import Missing
from lasthop.studies.report import Report
from lasthop.studies.study import StudyError

__all__ = ["PairedCell", "from_baseline"]


@dataclass(frozen=True, slots=True)
class PairedCell:
    """A cell of a table or figure against the baseline's cell in its row.

    Attributes:
        artefact: Name of the table or figure.
        row: Its place on the artefact's axis.
        column: The compared column.
        baseline: The column that is the baseline.
        difference: Mean of this column minus the baseline, in `unit`.
        ci95: Half-width of its 95 % interval, of the paired differences; NaN if `n` is below 2.
        unit: That of the artefact's quantity.
        ratio: Mean of this column over that of the baseline.
        p_value: Of the paired t-test for no difference; NaN if unknown.
        p_holm: `p_value` with Holm's correction over the cells of the artefact.
        n: Pairs of replications.
    """

    artefact: str
    row: str
    column: str
    baseline: str
    difference: float
    ci95: float
    unit: str
    ratio: float
    p_value: float
    p_holm: float
    n: int

    def to_dict(self) -> dict[str, Any]:
        """As `lasthop reproduce --baseline --format json` prints it."""
        return {
            name: number(value) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def from_baseline(report: Report, baseline: str) -> list[PairedCell]:
    """Compares all other columns of the report's tables and figures with one of them.

    All cells of a row use the same random numbers, so that differences are paired.

    Args:
        report: A reproduced study.
        baseline: The column compared with, such as `Reno/Raw`.

    Raises:
        StudyError: If none of the tables and figures has the column.
    """
    columns = list(dict.fromkeys(name for one in report.artefacts for name in one.columns))
    if baseline not in columns:
        raise StudyError(f"baseline: found {baseline!r}; expected {', '.join(columns)}")
    return [
        cell
        for artefact in report.artefacts
        if baseline in artefact.columns
        for cell in _corrected(list(_differences(report, artefact, baseline)))
    ]


def _differences(report: Report, artefact: Artefact, baseline: str) -> Iterator[PairedCell]:
    study, results = report.study, report.results
    index = {study.grid.cell(point.parameters): at for at, point in enumerate(results.points)}
    samples = study.samples(index, results)
    name, unit = artefact.quantity.name, artefact.quantity.unit
    models = {one.name for one in artefact.series if one.is_model}
    for row in artefact.rows:
        for column in artefact.columns:
            if column == baseline or column in models:
                continue
            try:
                left = samples(artefact.cell(row, column), name)
                right = samples(artefact.cell(row, baseline), name)
            except Missing:  # interrupted before a replication of this kind was finished
                continue
            gap = left - right
            yield PairedCell(
                artefact.name,
                f"{row:g}",
                column,
                baseline,
                gap.value,
                gap.half_width(),
                unit,
                left.value / right.value if right.value else math.nan,
                gap.p_value(),
                math.nan,
                gap.n,
            )


def _corrected(cells: list[PairedCell]) -> Iterator[PairedCell]:
    """Yields the cells of one artefact with Holm's p-values."""
    known = [place for place, cell in enumerate(cells) if not math.isnan(cell.p_value)]
    p_holm = np.full(len(cells), math.nan)
    p_holm[known] = holm([cells[place].p_value for place in known])
    for cell, p in zip(cells, p_holm.tolist(), strict=True):
        yield PairedCell(**{**asdict(cell), "p_holm": p})
