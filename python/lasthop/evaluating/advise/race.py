"""The race: sequential selection of the best candidate.

1. All candidates run an initial sample of the same replications. Each interim analysis eliminates
   candidates that violate a constraint, or that are worse than one that satisfies all constraints,
   with 95 % confidence.
2. After the initial sample, Optuna searches the parameters of the best protocols; the best settings
   join the race.
3. In each round, the leader runs further replications, together with the 4 candidates that are most
   likely to be better by more than the tolerance and the 4 with the widest intervals. These
   probabilities only select the candidates to run.
4. The race ends when one candidate is left, when with 95 % confidence no other one is better by
   more than the tolerance, at the end of the budget, or when all candidates that may be better have
   reached the replication limit. The maximum possible improvement is reported.

Confidence statements use intervals that are valid at every number of replications (`intervals`).
Decisions depend only on the replications, so that a stored race can be resumed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.advise.advice import Advice, Options, Standing
from lasthop.evaluating.advise.intervals import confidence_sequence
from lasthop.evaluating.advise.objectives import Objectives, parse
from lasthop.evaluating.advise.reasons import in_units, reasons, warnings
from lasthop.evaluating.advise.search import search
from lasthop.evaluating.advise.space import (
    PROTOCOLS,
    Candidate,
    candidate,
    candidates,
    kind_of,
    ranges,
    swept,
)
from lasthop.evaluating.results import Results
from lasthop.running.campaign import Campaign
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.scenario import Scenario

__all__ = ["Race"]

ALPHA = 0.05
# Replications of the initial sample, and factor of each further interim analysis.
FIRST, GROWTH = 24, 0.25
# Default budget as a fraction of the replications of all candidates up to the limit.
SHARE = 5
# Candidates that run with the leader: the most likely to be better, and the widest intervals.
LIKELY, OPEN = 4, 4
TUNED, TRIAL_REPLICATIONS = 3, 5
# Penalty of a trial per relative violation of a constraint.
PENALTY = 10.0


class Race:
    """One race; see the module's docstring."""

    def __init__(
        self,
        scenario: Scenario,
        link: str | None,
        want: str,
        campaign: Campaign,
        options: Options,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self.scenario, self.link = scenario, link or ""
        self.campaign, self.options = campaign, options
        self.progress = progress
        point = scenario.points()[0]
        self.seed = point.seed if options.seed is None else options.seed
        self.refused: list[tuple[str, str]] = []
        self.standings: list[Standing] = []
        kinds = list(options.protocols or PROTOCOLS)
        known: dict[str, None] = {}
        tried: Iterable[tuple[Candidate | None, str, str]]
        if link is None:
            tried = ((one, one.name, "") for one in swept(scenario))
        else:
            tried = candidates(scenario, link, kinds, options.transports)
        for found, name, why in tried:
            if found is None:
                self.refused.append((name, why))
            elif all(found.hash != one.candidate.hash for one in self.standings):
                self.standings.append(Standing(found))
                known |= dict.fromkeys(found.point.metrics())
        if not self.standings:
            raise ArgumentError(
                f"every protocol is refused for link `{link}`: {self.refused[0][1]}"
            )
        self.wants = parse(want, list(known))
        self.trials = 0 if link is None else options.trials
        most = len(self.standings) + (TUNED if self.trials else 0)
        bounds = len(self.wants.constraints)
        # Eliminating the best candidate, or ending without choosing it, requires that one of its
        # own pairs misses on the side where it is better: there are as many pairs as others.
        share = 0.5 if bounds else 1.0
        self.pair_alpha = 2.0 * share * ALPHA / max(most - 1, 1)
        self.constraint_alpha = 0.5 * ALPHA / max(most * bounds, 1)
        self.budget = options.budget
        if options.budget is None and options.budget_s is None:
            self.budget = max(options.most // SHARE, 2 * FIRST) * most
        self.spent = 0
        self.deadline = None if options.budget_s is None else time.monotonic() + options.budget_s
        self.results: Results | None = None

    def run(self) -> Advice:
        """Runs the race."""
        first = min(FIRST, self.options.most)
        if self.budget is not None:
            first = max(min(first, self.budget // len(self.standings)), 2)
        self._extend(dict.fromkeys(range(len(self.standings)), first))
        self._judge()
        if self.trials and not self._exceeds(0):
            self._tune(first)
            self._judge()
        while not (ended := self._ended()):
            plan = self._plan()
            if not plan:
                ended = f"every candidate that may be better has {self.options.most} replications"
                break
            while plan and self._exceeds(self._cost(plan)):
                # The last one is the least likely to be better; the leader alone adds nothing.
                plan.popitem()
                if len(plan) == 1:
                    plan = {}
            if not plan:
                ended = "the budget is spent"
                break
            self._extend(plan)
            self._judge()
        return self._advice(ended)

    def _alive(self) -> list[Standing]:
        return [one for one in self.standings if not one.ruled_out]

    def _exceeds(self, more: int) -> bool:
        """Returns `True` if `more` further replications exceed the budget."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            return True
        return self.budget is not None and self.spent + more > self.budget

    def _cost(self, plan: Mapping[int, int]) -> int:
        return sum(count - self.standings[index].replications for index, count in plan.items())

    def _extend(self, plan: Mapping[int, int]) -> None:
        """Runs candidates, given by their places, up to a number of replications."""
        self.spent += self._cost(plan)
        for index, count in plan.items():
            self.standings[index].replications = count
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
        """Updates the state of the candidates and eliminates some."""
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
        """Eliminates a candidate that violates a constraint with 95 % confidence."""
        one.is_sure = True
        for constraint in self.wants.constraints:
            interval = one.metrics[constraint.metric]
            if np.isnan(interval.mean):
                one.ruled_out = f"{constraint.metric} is undefined in some replication"
                return
            low, high = interval.low - constraint.limit, interval.high - constraint.limit
            breaks, keeps = (low > 0, high < 0) if constraint.is_upper else (high < 0, low > 0)
            if breaks:
                one.is_sure = False
                one.ruled_out = (
                    f"violates {constraint.word}: {in_units(constraint.metric, interval)}"
                )
                return
            one.is_sure = one.is_sure and bool(keeps)

    def _is_beaten(self, index: int, other_index: int) -> bool:
        """Returns `True` if another candidate is better in every objective (95 % confidence)."""
        assert self.results is not None  # noqa: S101 - `_extend` was called
        one, other = self.standings[index], self.standings[other_index]
        count = min(one.replications, other.replications)
        reason = ""
        for objective in self.wants.objectives:
            pairs = [
                objective.samples(self.results, place)[:count] for place in (index, other_index)
            ]
            difference = confidence_sequence(pairs[1] - pairs[0], self.pair_alpha)
            if not difference.low > 0.0:
                return False
            share = 100.0 * np.array([difference.low, difference.high]) / abs(pairs[1].mean())
            reason = reason or (
                f"{other.candidate.name} has a better {objective.word}, by {share[0]:.3g} to "
                f"{share[1]:.3g} %"
            )
        one.ruled_out = reason
        return True

    def _leader(self) -> int | None:
        """Returns the best remaining candidate, preferring those that satisfy the constraints."""
        alive = [i for i, one in enumerate(self.standings) if not one.ruled_out]
        sure = [i for i in alive if self.standings[i].is_sure]
        return max(sure or alive, key=lambda i: self.standings[i].value, default=None)

    def _ended(self) -> str:
        """Returns the reason why the race is over; empty if it is not."""
        alive = self._alive()
        leader = self._leader()
        if leader is None:
            return "every candidate violates a constraint"
        if not self.standings[leader].is_sure:
            return ""
        if len(alive) == 1:
            return "one candidate is left"
        if len(self.wants.objectives) == 1 and self._within(leader) < self.options.tolerance:
            return (
                f"no other candidate is better by more than {100 * self.options.tolerance:g} % "
                "(95 % confidence)"
            )
        return ""

    def _differences(self, leader: int) -> dict[int, NDArray[np.float64]]:
        """Returns paired differences of each other candidate from the leader."""
        best = self._samples(leader)
        return {
            index: (own := self._samples(index))[: best.size] - best[: own.size]
            for index, one in enumerate(self.standings)
            if index != leader and not one.ruled_out
        }

    def _margin(self, leader: int) -> float:
        """Returns the negligible difference in the unit of the first objective."""
        return self.options.tolerance * abs(self.standings[leader].value)

    def _mosts(self, leader: int) -> dict[int, float]:
        """Returns upper bounds on the advantage of each other candidate over the leader."""
        return {
            index: confidence_sequence(difference, self.pair_alpha).high
            for index, difference in self._differences(leader).items()
        }

    def _within(self, leader: int) -> float:
        """Returns the largest of these bounds, relative to the leader's first objective."""
        most = max(self._mosts(leader).values(), default=0.0)
        value = abs(self.standings[leader].value)
        if most <= 0.0:
            return 0.0
        return most / value if value > 0.0 else np.inf

    def _chances(self, leader: int) -> dict[int, float]:
        """Returns the probability of each other candidate to beat the leader by the tolerance.

        It is Student's t of the paired differences: the posterior for a flat prior. It selects the
        candidates to run, but affects neither eliminations nor the end of the race.
        """
        from scipy.special import stdtr

        margin = self._margin(leader)
        found = {}
        for index, difference in self._differences(leader).items():
            error = float(difference.std(ddof=1)) / np.sqrt(difference.size)
            away = float(difference.mean()) - margin
            found[index] = (
                float(away > 0.0)
                if error == 0.0
                else float(stdtr(difference.size - 1, away / error))
            )
        return found

    def _plan(self) -> dict[int, int]:
        """Returns the candidates to run, leader and most likely ones first, and replications."""
        leader = self._leader()
        assert leader is not None  # noqa: S101 - else the race has ended
        if len(self.wants.objectives) > 1:
            chosen = [index for index, one in enumerate(self.standings) if not one.ruled_out]
        else:
            most, chances, margin = (
                self._mosts(leader),
                self._chances(leader),
                self._margin(leader),
            )
            may = [
                index
                for index, high in most.items()
                if high > margin and self.standings[index].replications < self.options.most
            ]
            likely = sorted(may, key=lambda index: -chances[index])[:LIKELY]
            known_least = sorted(may, key=lambda index: -most[index])
            chosen = likely + [index for index in known_least if index not in likely][:OPEN]
        plan = {index: self._more(index) for index in chosen}
        # The number of pairs is the smaller number of replications.
        own = self.standings[leader]
        least = max([*plan.values(), own.replications])
        if not own.is_sure:
            least = max(least, self._more(leader))
        plan = {leader: least, **{k: count for k, count in plan.items() if k != leader}}
        return plan if self._cost(plan) else {}

    def _more(self, index: int) -> int:
        count = self.standings[index].replications
        return min(int(np.ceil(count * (1.0 + GROWTH))), self.options.most)

    # Search of parameters.

    def _tune(self, look: int) -> None:
        """Searches the parameters of the best protocols; the results join the race."""
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
        new = [index for index, one in enumerate(self.standings) if not one.replications]
        if new:
            self._extend(dict.fromkeys(new, look))

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
        """Returns the RTT of the link in seconds, with a full frame in each direction."""
        resolved = json.loads(self.scenario.points()[0].resolved())
        return _round_trip(resolved, self.link)

    # The end.

    def _advice(self, ended: str) -> Advice:
        leader = self._leader()
        choice = None if leader is None else self.standings[leader]
        _mark_front(self.standings, self.wants)
        links = self.scenario.to_dict().get("link", {})
        errors = "none" if not self.link else kind_of(links[self.link].get("errors"))
        order = sorted(
            self.standings,
            key=lambda one: (one is not choice, bool(one.ruled_out), not one.is_sure, -one.value),
        )
        within = np.nan
        if leader is not None and len(self.wants.objectives) == 1:
            within = self._within(leader)
        return Advice(
            wants=self.wants,
            standings=tuple(order),
            choice=choice,
            refused=tuple(self.refused),
            replications=self.spent,
            exhaustive=self.options.most * len(self.standings),
            ended=ended,
            within=within,
            reasons=tuple(reasons(choice, self.standings, self.wants, within)),
            warnings=tuple(warnings(choice, self.wants, errors)),
            link=self.link,
        )


def _mark_front(standings: Sequence[Standing], wants: Objectives) -> None:
    """Marks candidates that are Pareto-optimal in the means of objectives and constraints."""
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
    """Returns twice the delay of a link and of 1500 B frames, in seconds; 0.1 if unknown."""
    one = resolved["links"][link]["forward"]
    frames = 24_000.0 / one["rate"] if one.get("rate") else 0.0
    return float(2.0 * one["delay"] + frames) or 0.1
