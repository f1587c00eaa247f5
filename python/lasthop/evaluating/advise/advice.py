"""What a race of candidates is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lasthop.evaluating.advise.intervals import Interval
from lasthop.evaluating.advise.space import Candidate
from lasthop.evaluating.advise.wants import Wants

__all__ = ["MOST", "TOLERANCE", "TRIALS", "Advice", "Options", "Standing"]

MOST, TOLERANCE, TRIALS = 400, 0.01, 8


@dataclass(frozen=True, slots=True)
class Options:
    """How to search.

    Attributes:
        protocols: Kinds of link protocols; all of `PROTOCOLS` if empty.
        transports: Variants of TCP to compare; those of the scenario if empty.
        trials: Trials of the search for each of the best protocols; 0 for none.
        most: Most replications of a candidate.
        tolerance: Differences of the first objective that do not matter, as a share.
        budget: Most replications of all candidates, trials included; None for a fifth of what
            all of them to `most` would take, but at least twice the first look.
        budget_s: Most seconds; None for no bound.
        seed: Master seed; the scenario's if None.
        jobs: Threads; 0 for all cores.
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
    """Where a candidate stands.

    Attributes:
        candidate: The candidate.
        replications: How many it has.
        metrics: Mean and interval of each metric that is looked at.
        value: The first objective, larger being better.
        ruled_out: Why it is out of the race; empty while it is in.
        is_sure: Whether it keeps all constraints for certain.
        is_front: Whether no other keeps the constraints and is better in everything wanted.
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
    """What comes of a race.

    Attributes:
        wants: What was wanted.
        standings: All candidates, the best first, then those ruled out.
        choice: The best; None if none keeps the constraints.
        refused: Names of what the engine refuses, and why.
        replications: Of all candidates and of the search.
        exhaustive: What it would have taken to run all candidates to the most.
        ended: Why the race ended.
        within: By how much of the choice's first objective another candidate may be better, as a
            share, with 95 % certainty; infinite where nothing bounds it, NaN without a choice or
            with several objectives.
        reasons: Why this one, in words.
        warnings: What the model does not cover.
        link: The link.
    """

    wants: Wants
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
        """What `lasthop advise --format json` prints."""
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
