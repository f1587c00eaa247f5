"""What a run is asked for, and what it would cost."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lasthop import _lasthop
from lasthop.running.campaign.store import missing
from lasthop.scenarios.arguments import ArgumentError, check_least
from lasthop.scenarios.scenario import Scenario, as_scenario

__all__ = ["TICK_S", "Plan", "Request", "counts", "plan", "request", "request_points"]

# How long the engine is left alone.
TICK_S = 0.1

# How long a pilot may take, and how many points it tries.
PILOT_S, PILOT_POINTS = 5.0, 8


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do.

    Attributes:
        points: Points asked for.
        replications: Replications of all points.
        stored: How many of them are there already.
        cost_s: Processor seconds of the others; None if unknown.
        longest_s: Processor seconds of the longest of them; None if unknown.
        jobs: Threads.
        cores: Cores that these can use.
        source: Where the seconds come from.
    """

    points: int
    replications: int
    stored: int
    cost_s: float | None
    longest_s: float | None
    jobs: int
    cores: int
    source: str

    @property
    def missing(self) -> int:
        """Replications that would be run."""
        return self.replications - self.stored

    @property
    def duration_s(self) -> float | None:
        """Seconds that it would take: with all cores busy, but no less than one replication."""
        if self.cost_s is None or self.longest_s is None:
            return None
        return max(self.cost_s / min(self.jobs, self.cores), self.longest_s)

    def to_dict(self) -> dict[str, Any]:
        """What `lasthop run --dry-run --format json` prints."""
        names = ("points", "replications", "stored", "missing", "cost_s", "duration_s", "jobs")
        return {name: getattr(self, name) for name in (*names, "source")}


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be run: points with their labels, and how often each."""

    points: Sequence[_lasthop.Point]
    hashes: Sequence[str]
    labels: Sequence[Mapping[str, Any]]
    scenario: Mapping[str, Any]
    seed: int
    replications: Sequence[int]

    @property
    def wanted(self) -> dict[str, int]:
        """Replications by hash: two points of a sweep may be the same scenario."""
        wanted: dict[str, int] = {}
        for name, count in zip(self.hashes, self.replications, strict=True):
            wanted[name] = max(count, wanted.get(name, 0))
        return wanted

    @property
    def digest(self) -> str:
        """The same for two requests that differ in nothing but the number of replications."""
        scenario = dict(self.scenario)
        if isinstance(scenario.get("run"), dict):
            counts = ("replications", "seed")
            scenario["run"] = {k: v for k, v in scenario["run"].items() if k not in counts}
        what = [scenario, self.seed, list(self.hashes), [dict(label) for label in self.labels]]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def request(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    replications: int | Sequence[int] | None,
    seed: int | None,
) -> Request:
    """A request for a scenario; what is None is what the scenario says.

    Raises:
        ArgumentError: If a number is out of range.
        lasthop.ScenarioError: If the scenario is refused.
    """
    scenario = as_scenario(scenario)
    points = scenario.points()
    return request_points(
        points,
        points[0].replications if replications is None else replications,
        points[0].seed if seed is None else seed,
        scenario.to_dict(),
        None,
    )


def request_points(
    points: Sequence[_lasthop.Point],
    replications: int | Sequence[int],
    seed: int,
    scenario: Mapping[str, Any],
    parameters: Iterable[Mapping[str, Any]] | None,
) -> Request:
    """A request for points, called by their sweep or else by `parameters`.

    Raises:
        ArgumentError: If a number is out of range.
    """
    check_least("seed", seed, 0)
    each = counts("replications", replications, len(points), least=1)
    labels = (
        [json.loads(point.parameters) for point in points]
        if parameters is None
        else [dict(label) for label in parameters]
    )
    hashes = [f"{point.hash:016x}" for point in points]
    return Request(points, hashes, labels, dict(scenario), seed, each)


def counts(what: str, given: int | Sequence[int], points: int, *, least: int) -> list[int]:
    """One number for each point, where one or one each was given.

    Raises:
        ArgumentError: If there are too many or too few, or one is out of range.
    """
    found = [given] * points if isinstance(given, int) else list(given)
    if len(found) != points:
        raise ArgumentError(f"{what}: found {len(found)} numbers; allowed: {points}, one a point")
    for count in found:
        check_least(what, count, least)
    return found


def plan(
    request: Request,
    jobs: int,
    done: Mapping[str, Sequence[tuple[int, int]]],
    costs: Mapping[str, float],
) -> Plan:
    """What a run of a request would do.

    Args:
        request: What is to be run.
        jobs: Threads; 0 for all cores.
        done: What is there of each point: first and count of replications, by hash.
        costs: Processor seconds of a replication, by hash, as far as they are known. If none are,
            a pilot of a few seconds finds some.
    """
    cores = _lasthop.cores()
    jobs = jobs or cores
    wanted, known = request.wanted, costs
    left = {
        name: sum(length for _, length in missing(done.get(name, []), count))
        for name, count in wanted.items()
    }
    source = "what was measured in this campaign"
    unknown = {name: count for name, count in left.items() if count and name not in known}
    if unknown and not any(name in known for name in wanted):
        known = _pilot(request, unknown, jobs)
        source = f"a pilot of {len(known)} of {len(wanted)} points"
    elif unknown:
        own = sum(name in known for name in wanted)
        source += f" at {own} of {len(wanted)} points; the others taken as their mean"
    own_costs = [known[name] for name in wanted if name in known]
    cost = longest = None
    if own_costs or not any(left.values()):
        mean = sum(own_costs) / max(len(own_costs), 1)
        each = {name: known.get(name, mean) for name, count in left.items() if count}
        cost = sum(left[name] * seconds for name, seconds in each.items())
        longest = max(each.values(), default=0.0)
    else:
        source = f"no replication was finished within {PILOT_S:g} s"
    total = sum(wanted.values())
    stored = total - sum(left.values())
    return Plan(len(request.points), total, stored, cost, longest, jobs, cores, source)


def _pilot(request: Request, left: Mapping[str, int], jobs: int) -> dict[str, float]:
    """Mean processor seconds of a replication of some points, by hash, spread over the sweep.

    Each point is tried once, and what is short again until a tick is over: the first replication of
    a point is slower than the others, by several times if it takes microseconds.

    Args:
        request: What is to be run.
        left: Replications by hash that are to be run.
        jobs: Threads.
    """
    points = dict(zip(request.hashes, request.points, strict=True))
    names = list(left)
    count = min(PILOT_POINTS, len(names))
    places = np.linspace(0, len(names) - 1, count).round().astype(int)
    chosen = [names[place] for place in dict.fromkeys(places.tolist())]
    work = [(index, 0, left[name], -1.0) for index, name in enumerate(chosen)]
    stream = _lasthop.Stream([points[name] for name in chosen], work, seed=request.seed, jobs=jobs)
    sums, tries = np.zeros(len(chosen)), np.zeros(len(chosen), dtype=np.int64)
    deadline = time.monotonic() + PILOT_S
    while (batch := stream.next(TICK_S)) is not None:
        index = np.frombuffer(batch.point, dtype=np.uint32)
        np.add.at(sums, index, np.frombuffer(batch.cost_s, dtype=np.float64))
        np.add.at(tries, index, 1)
        if tries.all() or time.monotonic() > deadline:
            stream.stop()
    return {chosen[index]: float(sums[index] / tries[index]) for index in np.flatnonzero(tries)}
