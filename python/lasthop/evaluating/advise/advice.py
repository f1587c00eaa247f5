"""Options and result of a race of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lasthop.evaluating.advise.intervals import Interval
from lasthop.evaluating.advise.objectives import Objectives
from lasthop.evaluating.advise.space import Candidate

__all__ = ["MOST", "TOLERANCE", "TRIALS", "Advice", "Options", "Standing"]

MOST, TOLERANCE, TRIALS = 400, 0.01, 8


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a race.

    Attributes:
        protocols: Kinds of link protocols; empty: all of `PROTOCOLS`.
        transports: TCP variants to compare; empty: those of the scenario.
        trials: Trials of the parameter search for each of the best protocols; 0: no search.
        most: Maximum replications per candidate.
        tolerance: Negligible relative difference of the first objective.
        budget: Maximum replications of all candidates, including trials; None: 20 % of `most` for
            all candidates, but at least twice the initial sample.
        budget_s: Maximum duration in seconds; None: no limit.
        seed: Master seed; None: the scenario's.
        jobs: Number of threads; 0: all cores.
    """

    protocols: Sequence[str] = ()
    transports: Sequence[str] = ()
    trials: int = TRIALS
    most: int = MOST
    tolerance: float = TOLERANCE
    budget: int | None = None
    budget_s: float | None = None
    seed: int | None = None
    jobs: int = 0


@dataclass(slots=True)
class Standing:
    """State of a candidate.

    Attributes:
        candidate: The candidate.
        replications: Number of its replications.
        metrics: Mean and interval of each relevant metric.
        value: The first objective; higher is better.
        ruled_out: Reason of the elimination; empty if not eliminated.
        is_sure: Whether all constraints are satisfied with 95 % confidence.
        is_front: Whether the candidate is Pareto-optimal among those that satisfy the constraints.
    """

    candidate: Candidate
    replications: int = 0
    metrics: dict[str, Interval] = field(default_factory=dict)
    value: float = np.nan
    ruled_out: str = ""
    is_sure: bool = False
    is_front: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """Result of a race.

    Attributes:
        wants: Objectives and constraints.
        standings: All candidates: the best first, the eliminated ones last.
        choice: The best candidate; None if every candidate violates a constraint.
        refused: Names of candidates refused by the engine, with reasons.
        replications: Replications of all candidates and of the search.
        exhaustive: Replications of all candidates without early elimination.
        ended: Reason of the end of the race.
        within: Maximum relative improvement of the first objective by another candidate, with 95 %
            confidence; infinite if unbounded, NaN without a choice or with several objectives.
        reasons: Explanation of the choice.
        warnings: Limitations of the model.
        link: The link; empty: the candidates are the points of a sweep.
    """

    wants: Objectives
    standings: tuple[Standing, ...]
    choice: Standing | None
    refused: tuple[tuple[str, str], ...]
    replications: int
    exhaustive: int
    ended: str
    within: float
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    link: str

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that `lasthop advise --format json` prints."""
        return {
            "choice": None if self.choice is None else self.choice.candidate.name,
            "changes": {} if self.choice is None else dict(self.choice.candidate.changes),
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "ended": self.ended,
            "within": _finite(self.within),
            "replications": self.replications,
            "exhaustive": self.exhaustive,
            "candidates": [
                {
                    "name": one.candidate.name,
                    "replications": one.replications,
                    "tuned": one.candidate.is_tuned,
                    "front": one.is_front,
                    "ruled_out": one.ruled_out or None,
                    "metrics": {
                        name: {
                            "mean": each.mean,
                            "low": _finite(each.low),
                            "high": _finite(each.high),
                        }
                        for name, each in one.metrics.items()
                    },
                }
                for one in self.standings
            ],
            "refused": [{"name": name, "reason": reason} for name, reason in self.refused],
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
