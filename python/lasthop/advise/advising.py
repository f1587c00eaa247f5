"""The race: which way to treat a link is the best one for what is wanted.

1. All candidates run the same replications; after each look those are ruled out that break a
   constraint for certain, or that are worse than one which keeps all of them.
2. After the first look the parameters of the best protocols are searched by Optuna; what it finds
   joins the race.
3. The race ends when one is left, when the chance that another one is better by more than the
   tolerance is below 2.5 %, or with the budget. What is ruled out runs no further replication, and
   what has hardly a chance waits.

All decisions follow from the replications alone, so that a store resumes an interrupted race.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop.advise.race import Interval, confidence_sequence
from lasthop.advise.search import search
from lasthop.advise.space import PROTOCOLS, Candidate, candidate, candidates, ranges
from lasthop.advise.wants import Wants, parse
from lasthop.arguments import ArgumentError
from lasthop.campaign import Campaign
from lasthop.results import Results
from lasthop.scenario import Scenario

__all__ = ["Advice", "Options", "Standing", "advise"]

ALPHA = 0.05
FIRST, GROWTH, MOST, TOLERANCE = 12, 1.25, 400, 0.01
TUNED, TRIALS, TRIAL_REPLICATIONS = 3, 8, 5
# What a trial of the search loses for each part by which it breaks a bound.
PENALTY = 10.0
# Deviations of fewer replications say too little to end on them.
LEAST_TO_END = 18
# Chance that another one is better by more than the tolerance at which a race ends.
DOUBT = 0.025


@dataclass(frozen=True, slots=True)
class Options:
    """How to search.

    Attributes:
        protocols: Kinds of link protocols; all of `PROTOCOLS` if empty.
        transports: Variants of TCP to compare; those of the scenario if empty.
        trials: Trials of the search for each of the best protocols; 0 for none.
        most: Most replications of a candidate.
        tolerance: Differences of the first objective that do not matter, as a share.
        budget: Most replications of all candidates; None for no bound.
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


def advise(
    scenario: Scenario,
    want: str,
    campaign: Campaign,
    *,
    link: str | None = None,
    options: Options | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Advice:
    """Says which protocol, with which parameters, serves a link and its traffic best.

    Args:
        scenario: Link and traffic, without a sweep.
        want: Objectives and constraints; see `lasthop.advise.wants`.
        campaign: Where replications are kept.
        link: The link to treat; the only one that loses frames if None.
        options: How to search.
        progress: Called with (replications done, replications certain) now and then.

    Raises:
        ArgumentError: If what is wanted, the link or an option is not right.
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If a replication cannot be finished.
    """
    options = options or Options()
    if len(scenario.points()) != 1:
        raise ArgumentError(
            "scenario: found a sweep; allowed: one point, as the race varies the protocol"
        )
    link = _link(scenario, link)
    unknown = [kind for kind in options.protocols if kind not in PROTOCOLS]
    if unknown:
        raise ArgumentError(f"protocol: found {unknown[0]!r}; allowed: {', '.join(PROTOCOLS)}")
    race = _Race(scenario, link, want, campaign, options, progress)
    return race.run()


def _link(scenario: Scenario, link: str | None) -> str:
    links = scenario.to_dict().get("link", {})
    if link is not None:
        if link not in links:
            raise ArgumentError(f"link: found {link!r}; allowed: {', '.join(links)}")
        return link
    lossy = [name for name, one in links.items() if _kind(one.get("errors")) != "none"]
    if len(lossy) != 1:
        raise ArgumentError(
            f"link: found {len(lossy)} links that lose frames; allowed: one of {', '.join(links)}"
        )
    return str(lossy[0])


def _kind(table: Any) -> str:
    return str(table.get("kind", "none") if isinstance(table, Mapping) else table or "none")


class _Race:
    """One race; see the head of this file."""

    def __init__(
        self,
        scenario: Scenario,
        link: str,
        want: str,
        campaign: Campaign,
        options: Options,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self.scenario, self.link, self.campaign, self.options = scenario, link, campaign, options
        self.progress = progress
        point = scenario.points()[0]
        self.seed = point.seed if options.seed is None else options.seed
        self.refused: list[tuple[str, str]] = []
        self.standings: list[Standing] = []
        kinds = list(options.protocols or PROTOCOLS)
        known: dict[str, None] = {}
        for found, name, why in candidates(scenario, link, kinds, options.transports):
            if found is None:
                self.refused.append((name, why))
            elif all(found.hash != one.candidate.hash for one in self.standings):
                self.standings.append(Standing(found))
                known |= dict.fromkeys(found.point.metrics())
        if not self.standings:
            raise ArgumentError(
                f"link: found no protocol that {link} takes: {self.refused[0][1]}; allowed: one"
            )
        self.wants = parse(want, list(known))
        most = len(self.standings) + (TUNED if options.trials else 0)
        # To rule out the best one, or to end while it is not chosen, takes a miss of one of its own
        # pairs: there are as many as there are others.
        self.pair_alpha = 0.5 * ALPHA / max(most - 1, 1)
        self.constraint_alpha = 0.5 * ALPHA / max(most * len(self.wants.constraints), 1)
        self.spent = 0
        self.deadline = None if options.budget_s is None else time.monotonic() + options.budget_s
        self.results: Results | None = None

    def run(self) -> Advice:
        """Runs the race to its end."""
        looks = [FIRST]
        while looks[-1] < self.options.most:
            looks.append(min(int(np.ceil(looks[-1] * GROWTH)), self.options.most))
        ended = f"every candidate left has {self.options.most} replications"
        is_first = True
        for look in looks:
            chosen = self._alive() if is_first else self._contenders()
            more = sum(max(look - one.replications, 0) for one in chosen)
            if self._exceeds(more) and not is_first:
                ended = "the budget is spent"
                break
            self._extend(chosen, look)
            self._judge()
            if is_first:
                is_first = False
                if self.options.trials and not self._exceeds(0):
                    self._tune(look)
                    self._judge()
            why = self._is_decided()
            if why:
                ended = why
                break
        return self._advice(ended)

    def _alive(self) -> list[Standing]:
        return [one for one in self.standings if not one.ruled_out]

    def _exceeds(self, more: int) -> bool:
        """Whether so many more replications are beyond the budget."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            return True
        return self.options.budget is not None and self.spent + more > self.options.budget

    def _extend(self, chosen: Sequence[Standing], count: int) -> None:
        """Runs the chosen candidates to so many replications."""
        for one in chosen:
            self.spent += max(count - one.replications, 0)
            one.replications = max(count, one.replications)
        self.results = self._run(
            [one.candidate for one in self.standings],
            [max(one.replications, 1) for one in self.standings],
            self.seed,
        )

    def _run(self, chosen: Sequence[Candidate], counts: Sequence[int], seed: int) -> Results:
        results = self.campaign.run_points(
            [one.point for one in chosen],
            replications=counts,
            seed=seed,
            scenario=self.scenario.to_dict(),
            parameters=[{"candidate": one.name} for one in chosen],
            jobs=self.options.jobs,
            progress=self.progress,
        )
        if not results.complete:
            raise KeyboardInterrupt
        return results

    def _samples(self, index: int) -> NDArray[np.float64]:
        assert self.results is not None  # noqa: S101 - `_extend` was called
        one = self.standings[index]
        return self.wants.objectives[0].samples(self.results, index)[: one.replications]

    def _judge(self) -> None:
        """Updates where candidates stand, and rules out what can be."""
        assert self.results is not None  # noqa: S101 - `_extend` was called
        results = self.results
        for index, one in enumerate(self.standings):
            if one.ruled_out:
                continue
            for name in self.wants.metrics:
                samples = results.samples(name, index)[: one.replications]
                one.metrics[name] = confidence_sequence(samples, self.constraint_alpha)
            one.value = float(np.mean(self._samples(index)))
            self._check(one)
        for index, one in enumerate(self.standings):
            if one.ruled_out:
                continue
            for other_index, other in enumerate(self.standings):
                if other is one or not other.is_sure or other.ruled_out:
                    continue
                if self._is_beaten(index, other_index):
                    break

    def _check(self, one: Standing) -> None:
        """Rules out a candidate that breaks a constraint for certain."""
        one.is_sure = True
        for constraint in self.wants.constraints:
            interval = one.metrics[constraint.metric]
            if np.isnan(interval.mean):
                one.ruled_out = f"{constraint.metric} has no value in some replication"
                return
            low, high = interval.low - constraint.limit, interval.high - constraint.limit
            breaks, keeps = (low > 0, high < 0) if constraint.is_upper else (high < 0, low > 0)
            if breaks:
                one.is_sure = False
                one.ruled_out = f"breaks {constraint.word}: {_told(constraint.metric, interval)}"
                return
            one.is_sure = one.is_sure and bool(keeps)

    def _is_beaten(self, index: int, other_index: int) -> bool:
        """Whether another one is better in every objective, for certain."""
        assert self.results is not None  # noqa: S101 - `_extend` was called
        one, other = self.standings[index], self.standings[other_index]
        count = min(one.replications, other.replications)
        told = ""
        for objective in self.wants.objectives:
            pairs = [
                objective.samples(self.results, place)[:count] for place in (index, other_index)
            ]
            difference = confidence_sequence(pairs[1] - pairs[0], self.pair_alpha)
            if not difference.low > 0.0:
                return False
            share = 100.0 * np.array([difference.low, difference.high]) / abs(pairs[1].mean())
            told = told or (
                f"{other.candidate.name} has a better {objective.word}, by {share[0]:.3g} to "
                f"{share[1]:.3g} %"
            )
        one.ruled_out = told
        return True

    def _leader(self) -> int | None:
        """The best candidate left: of those sure to keep the constraints, if there are some."""
        alive = [i for i, one in enumerate(self.standings) if not one.ruled_out]
        sure = [i for i in alive if self.standings[i].is_sure]
        return max(sure or alive, key=lambda i: self.standings[i].value, default=None)

    def _is_decided(self) -> str:
        """Why the race is over; empty if it is not."""
        alive = self._alive()
        if not alive:
            return "every candidate breaks a constraint"
        leader = self._leader()
        assert leader is not None  # noqa: S101 - there is one
        if len(alive) == 1:
            return "one candidate is left" if alive[0].is_sure or not self.wants.constraints else ""
        if not self.standings[leader].is_sure or len(self.wants.objectives) > 1:
            return ""
        best = self.standings[leader]
        if best.replications < LEAST_TO_END:
            return ""
        if sum(self._chances(leader).values()) > DOUBT:
            return ""
        share = f"{100 * self.options.tolerance:g} %"
        return (
            f"the chance that another one is better by more than {share} is below {100 * DOUBT:g} %"
        )

    def _chances(self, leader: int) -> dict[int, float]:
        """Chance of each other candidate to be better than the leader by more than the tolerance.

        From Student's t of the paired differences: the posterior for a flat prior, which may be
        asked at any time. It says when to end, not what is ruled out.
        """
        from scipy.special import stdtr

        best = self._samples(leader)
        margin = self.options.tolerance * abs(float(best.mean()))
        found = {}
        for index, one in enumerate(self.standings):
            if index == leader or one.ruled_out:
                continue
            count = min(best.size, one.replications)
            difference = self._samples(index)[:count] - best[:count]
            error = float(difference.std(ddof=1)) / np.sqrt(count)
            away = float(difference.mean()) - margin
            found[index] = (
                float(away > 0.0) if error == 0.0 else float(stdtr(count - 1, away / error))
            )
        return found

    def _contenders(self) -> list[Standing]:
        """Who runs further replications: the leader, and those that may still be better.

        The others are not ruled out; they wait, and come back if the leader falls behind.
        """
        leader = self._leader()
        alive = self._alive()
        if leader is None or len(self.wants.objectives) > 1:
            return alive
        chances = self._chances(leader)
        least = 0.5 * DOUBT / max(len(chances), 1)
        chosen = [self.standings[i] for i, chance in chances.items() if chance > least]
        return [self.standings[leader], *chosen]

    # Search of parameters.

    def _tune(self, look: int) -> None:
        """Searches the parameters of the best protocols; what is found joins the race."""
        places = sorted(self._alive(), key=lambda one: (not one.is_sure, -one.value))
        kinds: dict[str, Standing] = {}
        for one in places:
            if ranges(one.candidate.protocol, 1.0):
                kinds.setdefault(one.candidate.protocol, one)
        for kind, one in list(kinds.items())[:TUNED]:
            others = {
                key: value
                for key, value in one.candidate.changes.items()
                if not key.endswith(".protocol")
            }
            found = self._searched(kind, others)
            if found is None:
                continue
            best, _, _ = candidate(self.scenario, self.link, kind, found, others, is_tuned=True)
            if best is None or any(best.hash == each.candidate.hash for each in self.standings):
                continue
            self.standings.append(Standing(best))
        new = [one for one in self.standings if not one.replications]
        if new:
            self._extend(new, look)

    def _searched(self, kind: str, others: Mapping[str, str]) -> dict[str, Any] | None:
        def value(settings: dict[str, Any]) -> float | None:
            if self._exceeds(TRIAL_REPLICATIONS):
                return None
            found, _, _ = candidate(self.scenario, self.link, kind, settings, others)
            if found is None:
                return None
            self.spent += TRIAL_REPLICATIONS
            results = self._run([found], [TRIAL_REPLICATIONS], self.seed + 1)
            worth = float(np.mean(self.wants.objectives[0].samples(results, 0)))
            for constraint in self.wants.constraints:
                mean = float(np.mean(results.samples(constraint.metric, 0)))
                beyond = mean - constraint.limit if constraint.is_upper else constraint.limit - mean
                if beyond > 0.0:
                    worth -= PENALTY * abs(worth) * beyond / max(abs(constraint.limit), 1e-12)
            return worth

        return search(ranges(kind, self._round_trip_s()), value, self.options.trials, self.seed)

    def _round_trip_s(self) -> float:
        """Of the link, with a full frame each way."""
        told = json.loads(self.scenario.points()[0].resolved())
        return _round_trip(told, self.link)

    # The end.

    def _advice(self, ended: str) -> Advice:
        leader = self._leader()
        choice = None if leader is None else self.standings[leader]
        _mark_front(self.standings, self.wants)
        order = sorted(
            self.standings,
            key=lambda one: (one is not choice, bool(one.ruled_out), not one.is_sure, -one.value),
        )
        exhaustive = self.options.most * (len(self.standings) + len(self.refused))
        return Advice(
            wants=self.wants,
            standings=tuple(order),
            choice=choice,
            refused=tuple(self.refused),
            replications=self.spent,
            exhaustive=exhaustive,
            ended=ended,
            reasons=tuple(self._reasons(choice)),
            warnings=tuple(self._warnings(choice)),
            link=self.link,
        )

    def _reasons(self, choice: Standing | None) -> list[str]:
        told = []
        if choice is not None:
            first = self.wants.objectives[0]
            parts = "; ".join(_told(name, choice.metrics[name]) for name in self.wants.metrics)
            told.append(f"{choice.candidate.name}: {parts}")
            unsure = [
                one.candidate.name
                for one in self._alive()
                if choice.is_sure and not one.is_sure and one.value > choice.value
            ]
            if unsure:
                told.append(
                    "better on average, but not certain to keep all constraints: "
                    + ", ".join(unsure)
                )
            near = [one for one in self._alive() if one is not choice and one.is_sure]
            if near:
                names = ", ".join(one.candidate.name for one in near[:5])
                more = f" and {len(near) - 5} more" if len(near) > 5 else ""
                told.append(f"not told apart from it in {first.word}: {names}{more}")
        if len(self.wants.objectives) == 1 and choice is not None:
            behind = [
                one.candidate.name
                for one in self._alive()
                if one is not choice and not one.is_sure and one.value < choice.value
            ]
            if behind:
                told.append(
                    f"behind in {self.wants.objectives[0].word}, with little chance to be better: "
                    + ", ".join(behind)
                )
        for constraint in self.wants.constraints:
            out = [
                one.candidate.name
                for one in self.standings
                if one.ruled_out.startswith(f"breaks {constraint.word}: {constraint.metric} ")
            ]
            if out:
                told.append(f"{constraint.word} ({constraint.metric}) rules out: {', '.join(out)}")
        beaten = sum(bool(one.ruled_out) and "better" in one.ruled_out for one in self.standings)
        if beaten:
            told.append(f"{beaten} others are worse in every objective, for certain")
        return told

    def _warnings(self, choice: Standing | None) -> list[str]:
        told = []
        if choice is None:
            told.append("no candidate keeps all constraints; the least broken are at the top")
        elif self.wants.constraints and not choice.is_sure:
            told.append(
                f"whether {choice.candidate.name} keeps all constraints is not certain at "
                f"{choice.replications} replications"
            )
        errors = _kind(self.scenario.to_dict()["link"][self.link].get("errors"))
        if errors in ("uniform", "gilbert-elliott", "markov-chain", "trace", "listed"):
            told.append(
                f"errors of kind {errors} do not depend on the length of frames: rlc-am, which "
                "cuts packets up, and small acknowledgments lose as many frames as packets do"
            )
        if errors in ("gilbert-elliott", "markov-chain", "trace", "listed"):
            told.append(
                f"errors of kind {errors} step by frames, not in time: waiting does not help a "
                "protocol to outlast a bad period"
            )
        if choice is not None:
            bare = {name.rpartition(".")[2] for name in self.wants.metrics}
            if "residual_loss" in bare and all(
                np.isclose(choice.metrics[name].mean, 0.0)
                for name in self.wants.metrics
                if name.endswith("residual_loss")
            ):
                told.append(
                    "no packet was lost for good in any replication: that bounds the share only to "
                    f"about 3 in {choice.replications} replications' packets"
                )
        return told


def _told(metric: str, interval: Interval) -> str:
    """A metric with its interval, in the unit that reads best."""
    from lasthop.figures.style import metric_unit, scaled

    ends = [interval.mean, interval.low, interval.high]
    unit = scaled(metric_unit(metric), [value for value in ends if np.isfinite(value)])
    mean, low, high = (value / unit.per for value in ends)
    name = f" {unit.name}" if unit.name else ""
    return f"{metric} {mean:.3g}{name} [{max(low, 0.0):.3g}, {high:.3g}]"


def _mark_front(standings: Sequence[Standing], wants: Wants) -> None:
    """Marks those that no other one beats in all objectives and constrained metrics, by means."""
    rows = []
    for one in standings:
        row = [
            each.sign * sum(one.metrics[name].mean for name in each.metrics)
            for each in wants.objectives
        ]
        signs = [-1.0 if each.is_upper else 1.0 for each in wants.constraints]
        bounded = [one.metrics[each.metric].mean for each in wants.constraints]
        rows.append(row + [sign * mean for sign, mean in zip(signs, bounded, strict=True)])
    values = np.array(rows)
    for index, one in enumerate(standings):
        better = (values >= values[index]).all(axis=1) & (values > values[index]).any(axis=1)
        one.is_front = not better.any()


def _round_trip(resolved: Mapping[str, Any], link: str) -> float:
    """Twice the delay of a link and two frames of 1500 bytes, in seconds; 0.1 if nobody knows."""
    one = resolved["links"][link]["forward"]
    frames = 24_000.0 / one["rate"] if one.get("rate") else 0.0
    return float(2.0 * one["delay"] + frames) or 0.1
