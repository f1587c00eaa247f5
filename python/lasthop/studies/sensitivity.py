"""Sensitivity of a study's verdicts to choices that its paper leaves open.

Each choice is varied separately over its plausible range (`[[sensitivity]]` in `study.toml`). The
claims that it can affect are judged again, on fewer replications.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lasthop.running.campaign import Campaign
from lasthop.running.replications import Progress, run_points
from lasthop.studies.claims import Cell, Samples
from lasthop.studies.study import Change, Study
from lasthop.studies.verdicts import Verdict, judge

__all__ = ["REPLICATIONS", "SensitivityReport", "Summary", "sweep"]

REPLICATIONS = 10
"""Default number of replications per cell."""

WORDS = {
    "reproduced": "holds",
    "in part": "in part",
    "contradicted": "fails",
    "undecided": "open",
}

UNTOUCHED = "–"

Variant = tuple[str, str]
"""The varied choice and its alternative; both empty for the study's choices."""

CHOSEN: Variant = ("", "")


@dataclass(frozen=True, slots=True)
class Summary:
    """One claim over all variants.

    Attributes:
        chosen: Outcome with the study's choices.
        counts: Number of variants by outcome.
        others: Variants with a different outcome, and that outcome.
    """

    chosen: str
    counts: Mapping[str, int]
    others: Mapping[str, str]


@dataclass(frozen=True)
class SensitivityReport:
    """Verdicts of claims under other choices.

    Attributes:
        study: The study.
        verdicts: By variant and claim; without claims whose cells the variant does not change.
        replications: Replications per cell.
        complete: False if the run was interrupted.
        finished: Replications that were run, over all cells.
    """

    study: Study
    verdicts: Mapping[Variant, Mapping[str, Verdict]]
    replications: int
    complete: bool
    finished: int

    def word(self, claim: str, name: str = "", value: str = "") -> str:
        """`holds`, `in part`, `fails` or `open`; `–` if the variant changes none of its cells."""
        verdict = self.verdicts[name, value].get(claim)
        return UNTOUCHED if verdict is None else WORDS[verdict.verdict]

    def summary(self) -> dict[str, Summary]:
        """Every claim that a sensitivity affects, in the order of the study."""
        found = {}
        for claim in (claim.id for claim in self.study.claims):
            variants = {
                f"{name} {value}": self.word(claim, name, value)
                for name, value in self.verdicts
                if (name, value) != CHOSEN and claim in self.verdicts[name, value]
            }
            if not variants:
                continue
            chosen = self.word(claim)
            words = list(variants.values())
            found[claim] = Summary(
                chosen,
                {word: words.count(word) for word in WORDS.values()},
                {name: word for name, word in variants.items() if word != chosen},
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Returns the output of `lasthop reproduce --sensitivity --format json`."""
        return {
            "study": self.study.key,
            "replications": self.replications,
            "sensitivity": [
                {
                    "varied": name or None,
                    "value": value or None,
                    "claims": [
                        {"id": claim, "verdict": one.verdict, "evidence": one.evidence}
                        for claim, one in verdicts.items()
                    ],
                }
                for (name, value), verdicts in self.verdicts.items()
            ],
        }


def sweep(
    study: Study,
    *,
    replications: int | None = None,
    seed: int | None = None,
    jobs: int = 0,
    progress: Progress | None = None,
    campaign: Campaign | None = None,
) -> SensitivityReport:
    """Judges a study's claims under each alternative choice that it names.

    Args:
        study: The study.
        replications: Replications per cell; `REPLICATIONS` if None.
        seed: Master seed; the study's own if None.
        jobs: Threads; 0 for all cores.
        progress: As for `lasthop.run`.
        campaign: Store whose results are reused, and to which new ones are added.
    """
    claims = {claim.id: claim for claim in study.claims}
    needs = {name: study.cells_of(claim) for name, claim in claims.items()}
    touched = list(dict.fromkeys(name for one in study.sensitivities for name in one.claims))
    variants: dict[Variant, tuple[tuple[Change, ...], Mapping[str, Any], Sequence[str]]] = {
        CHOSEN: ((), {}, [name for name in claims if name in touched])
    }
    for one in study.sensitivities:
        for value, changes in one.values:
            variants[one.name, value] = (changes, one.moves.get(value, {}), one.claims)

    # Most variants change few cells, so that each scenario is run once.
    points: list[Any] = []
    known: dict[int, int] = {}
    chosen: dict[Cell, int] = {}
    places: dict[Variant, dict[Cell, int]] = {}
    for variant, (changes, move, names) in variants.items():
        place = places.setdefault(variant, {})
        for there in dict.fromkeys(cell for name in names for cell in needs[name]):
            cell = study.grid.cell({**dict(there), **move})
            applied = [change for change in changes if change.applies(dict(cell))]
            if not applied and cell in chosen:
                place[cell] = chosen[cell]
                continue
            (point,) = study.scenario(cell, applied).points()
            if point.hash not in known:
                known[point.hash] = len(points)
                points.append(point)
            place[cell] = known[point.hash]
            if not applied:
                chosen[cell] = place[cell]
    count = REPLICATIONS if replications is None else replications
    run = run_points if campaign is None else campaign.run_points
    results = run(
        points,
        replications=count,
        seed=study.seed if seed is None else seed,
        scenario={"name": f"{study.key}: sensitivity"},
        parameters=[{} for _ in points],
        jobs=jobs,
        progress=progress,
    )
    verdicts = {}
    for variant, (_, move, names) in variants.items():
        place = places[variant]
        moved = [
            claims[name]
            for name in names
            # Moved model cells are not among the cells that are run.
            if move or variant == CHOSEN or any(place[cell] != chosen[cell] for cell in needs[name])
        ]
        samples = _moved(study, study.samples(place, results), move)
        own = judge(moved, samples, study.names, study.rule)
        verdicts[variant] = {one.claim.id: one for one in own}
    return SensitivityReport(study, verdicts, count, results.complete, len(results.point))


def _moved(study: Study, samples: Samples, move: Mapping[str, Any]) -> Samples:
    """Returns samples with the coordinates of all cells changed."""
    return lambda cell, quantity: samples(study.grid.cell({**dict(cell), **move}), quantity)
