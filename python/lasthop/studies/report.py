"""Result of reproducing a study: the numbers of its tables and figures, and the verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lasthop.evaluating.cells import number
from lasthop.evaluating.results import Results
from lasthop.studies.artefacts import Artefact
from lasthop.studies.verdicts import Judgement, Printed, Verdict, formula

if TYPE_CHECKING:
    from lasthop.studies.study import Study

__all__ = ["Report", "ReportCell"]


@dataclass(frozen=True, slots=True)
class ReportCell:
    """One number of a reproduced table or figure.

    Attributes:
        artefact: Name of the table or figure.
        row: Its value on the artefact's axis, as the paper labels it.
        column: Its column.
        value: Mean, in `unit`; NaN if no replication was finished.
        ci95: Half-width of its 95 % interval; NaN if unknown, 0 for models.
        unit: Unit of the quantity, or `%` for the improvement over the first column of a table.
        published: The printed number, in `unit`; None if the paper prints none.
        n: Replications; 0 for models.
        sd: Standard deviation over replications, in `unit`; NaN if unknown.
        misses: Whether it differs from the published value by more than chance, at 95 %.
        interval: The 95 % interval that the paper prints, in `unit`; None where it prints none.
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
    misses: bool = False
    interval: tuple[float, float] | None = None

    @property
    def error(self) -> float:
        """Difference from the published value in per cent; NaN without one, or if it is 0."""
        if not self.published:
            return math.nan
        return 100.0 * (self.value / self.published - 1.0)


@dataclass(frozen=True)
class Report:
    """A reproduction: the artefacts asked for, their cells, the claims they decide.

    Attributes:
        study: The study.
        artefacts: The requested artefacts.
        cells: Their numbers.
        verdicts: The claims; the evidence names cells that a claim needs and that were not run.
        results: The replications.
        complete: False if the run was interrupted.
        earlier: Verdicts on the first replications only, by the number of replications.
    """

    study: Study
    artefacts: Sequence[Artefact]
    cells: Sequence[ReportCell]
    verdicts: Sequence[Verdict]
    results: Results
    complete: bool
    earlier: Mapping[int, Sequence[Verdict]] = field(default_factory=dict)

    def printed(self) -> dict[str, Printed]:
        """Returns the outcome of each claim on the paper's numbers; empty if none are available."""
        if not self.study.published:
            return {}
        return {one.claim.id: one for one in self.study.judge_printed()}

    def earlier_words(self, claim: str) -> dict[int, str]:
        """Returns the verdicts on a claim from the first replications, by their number."""
        return {
            count: next(one.words for one in verdicts if one.claim.id == claim)
            for count, verdicts in self.earlier.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Returns the output of `lasthop reproduce --format json`."""
        spread = {artefact.name for artefact in self.artefacts if artefact.spread}
        return {
            "study": self.study.key,
            **({"set": dict(self.study.changes)} if self.study.changes else {}),
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
            "claims": [self._claim(one) for one in self.verdicts],
        }

    def _claim(self, one: Verdict) -> dict[str, Any]:
        claim = one.claim
        found: dict[str, Any] = {"id": claim.id, "verdict": one.verdict}
        if claim.condition:
            found["condition"] = claim.condition
        found["evidence"] = one.evidence
        if self.study.rule.parts:
            found["comparisons"] = [_comparison(judgement) for judgement in one.judgements]
        if claim.addition:
            found["addition"] = True
        if claim.note:
            found["note"] = claim.note
        if claim.reworded is not None:
            found["reworded"] = asdict(claim.reworded)
        found["refuted_by"] = claim.refuted_by
        if self.earlier:
            found["verdicts_earlier"] = {
                str(count): words for count, words in self.earlier_words(claim.id).items()
            }
        return found


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
