"""Requests for runs and their expected cost."""

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

# Interval in seconds between checks of a running engine.
TICK_S = 0.1

# Maximum duration in seconds and number of points of a pilot.
PILOT_S, PILOT_POINTS = 5.0, 48


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run.

    Attributes:
        points: Number of points requested.
        replications: Number of replications of all points.
        stored: Number of these replications that are stored already.
        cost_s: Processor seconds of the missing replications; None if unknown.
        longest_s: Processor seconds of the longest missing replication; None if unknown.
        jobs: Number of threads.
        cores: Number of available cores.
        source: Origin of the estimates.
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
        """Number of replications to run."""
        return self.replications - self.stored

    @property
    def duration_s(self) -> float | None:
        """Expected duration in seconds with all cores busy, at least the longest replication."""
        if self.cost_s is None or self.longest_s is None:
            return None
        return max(self.cost_s / min(self.jobs, self.cores), self.longest_s)

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that `lasthop run --dry-run --format json` prints."""
        names = ("points", "replications", "stored", "missing", "cost_s", "duration_s", "jobs")
        return {name: getattr(self, name) for name in (*names, "source")}


@dataclass(frozen=True, slots=True)
class Request:
    """A request: points with their labels and numbers of replications."""

    points: Sequence[_lasthop.Point]
    hashes: Sequence[str]
    labels: Sequence[Mapping[str, Any]]
    scenario: Mapping[str, Any]
    seed: int
    replications: Sequence[int]

    @property
    def wanted(self) -> dict[str, int]:
        """Replications by hash; two points of a sweep may be identical scenarios."""
        wanted: dict[str, int] = {}
        for name, count in zip(self.hashes, self.replications, strict=True):
            wanted[name] = max(count, wanted.get(name, 0))
        return wanted

    @property
    def digest(self) -> str:
        """Hash of the request, independent of the number of replications."""
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
    """Returns a request for a scenario; None selects the scenario's own values.

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
    """Returns a request for points, labelled by their sweep or by `parameters`.

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
    """Returns a number per point, given one number for all or one per point.

    Raises:
        ArgumentError: If the count is wrong, or a number is out of range.
    """
    found = [given] * points if isinstance(given, int) else list(given)
    if len(found) != points:
        raise ArgumentError(
            f"invalid length {len(found)} of `{what}`: expected {points}, one number per point"
        )
    for count in found:
        check_least(what, count, least)
    return found


def plan(
    request: Request,
    jobs: int,
    done: Mapping[str, Sequence[tuple[int, int]]],
    costs: Mapping[str, float],
) -> Plan:
    """Returns the plan of a request.

    Args:
        request: The request.
        jobs: Number of threads; 0 for all cores.
        done: First index and count of stored replications, by hash of the point.
        costs: Processor seconds per replication, by hash, of points that are known. If none is
            known, a pilot of a few seconds measures some.
    """
    cores = _lasthop.cores()
    jobs = jobs or cores
    wanted, known = request.wanted, costs
    left = {
        name: sum(length for _, length in missing(done.get(name, []), count))
        for name, count in wanted.items()
    }
    source = "measured in this campaign"
    unknown = {name: count for name, count in left.items() if count and name not in known}
    if unknown and not any(name in known for name in wanted):
        known = _pilot(request, unknown, jobs)
        source = f"measured in a pilot of {len(known)} of {len(wanted)} points"
    elif unknown:
        measured = sum(name in known for name in wanted)
        source += f" at {measured} of {len(wanted)} points; their mean is assumed for the others"
    own = {name: count for name, count in wanted.items() if name in known}
    cost = longest = None
    if own or not any(left.values()):
        weighted = sum(known[name] * count for name, count in own.items())
        mean = weighted / max(sum(own.values()), 1)
        each = {name: known.get(name, mean) for name, count in left.items() if count}
        cost = sum(left[name] * seconds for name, seconds in each.items())
        longest = max(each.values(), default=0.0)
    else:
        source = f"no replication finished within {PILOT_S:g} s"
    total = sum(wanted.values())
    stored = total - sum(left.values())
    return Plan(len(request.points), total, stored, cost, longest, jobs, cores, source)


def _pilot(request: Request, left: Mapping[str, int], jobs: int) -> dict[str, float]:
    """Measures mean processor seconds per replication at some points of the sweep, by hash.

    Each point is run once; short replications are repeated until the end of a tick, because the
    first replication of a point is several times slower if it takes only microseconds.

    Args:
        request: The request.
        left: Missing replications by hash.
        jobs: Number of threads.
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
