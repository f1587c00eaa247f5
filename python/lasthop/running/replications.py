"""Running scenarios: all cores, no interpreter lock, Ctrl-C keeps what is finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lasthop import _lasthop
from lasthop.evaluating.notes import rate_limits_of, recorded_frames, unmarked_queues
from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.statistics.sequential import FIRST, MOST
from lasthop.running.precision import Until, extend_until
from lasthop.scenarios.arguments import ArgumentError, check_least
from lasthop.scenarios.scenario import Scenario, as_scenario, load

if TYPE_CHECKING:
    from distributed import Client

    from lasthop.running.cluster import Cluster, Collected

__all__ = ["Progress", "run", "run_points", "sweep"]

Progress: TypeAlias = Callable[[int, int], object]


def run(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    *,
    replications: int | None = None,
    seed: int | None = None,
    jobs: int = 0,
    first_replication: int = 0,
    until: Until | None = None,
    max_replications: int | None = None,
    progress: Progress | None = None,
    cluster: Cluster | Client | None = None,
) -> Results:
    """Runs every replication of every point of a scenario.

    Args:
        scenario: A scenario, a mapping with a scenario's keys, or the name of a file.
        replications: Replications per point; what the scenario says if None.
        seed: Master seed; what the scenario says if None. Same seed, same result, whatever `jobs`.
        jobs: Threads; 0 for all cores.
        first_replication: Number of the first one, to add replications to an earlier run.
        until: Run more, at each point until the 95 % interval of a metric is narrow enough: such as
            `"flow.transfer.goodput_bps=2%"` (± 2 % of the mean), `{"flow.a.timeouts": 0.5}`, or a
            list of texts. The first look is at 20 replications (or at `replications`, if given).
        max_replications: With `until`, where a point stops in any case; 1000 if None.
        progress: Called with (replications done, replications in all) now and then; with `until`,
            those in all are as many as are certain.
        cluster: Where replications run: from `lasthop.cluster.connect`, or a Dask client; here if
            None.

    Returns:
        The results; with `until`, `stopped` says how far each point came. After Ctrl-C: those of
        the replications that were finished, with `complete` False.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If a replication cannot be finished.
        KeyError: If no metric has the name that `until` says.
        ValueError: If a number is out of range.
    """
    scenario = as_scenario(scenario)
    points = scenario.points()
    tables = scenario.to_dict()
    seed = points[0].seed if seed is None else seed
    if until is None:
        if max_replications is not None:
            raise ArgumentError("max_replications: found no until; allowed: with until")
        return run_points(
            points,
            scenario=tables,
            replications=points[0].replications if replications is None else replications,
            seed=seed,
            jobs=jobs,
            first_replication=first_replication,
            progress=progress,
            cluster=cluster,
        )
    if first_replication:
        raise ArgumentError("first_replication: found until; allowed: one of them")
    before = 0

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress(before + done, before + total)

    def run_more(chosen: Sequence[int], first: int, count: int) -> Results:
        nonlocal before
        part = run_points(
            [points[index] for index in chosen],
            scenario=tables,
            replications=count,
            seed=seed,
            jobs=jobs,
            first_replication=first,
            progress=None if progress is None else told,
            cluster=cluster,
        )
        before += len(part.point)
        return part

    return extend_until(
        len(points),
        until,
        run_more,
        first=FIRST if replications is None else replications,
        most=MOST if max_replications is None else max_replications,
    )


def run_points(
    points: Sequence[_lasthop.Point],
    *,
    replications: int,
    seed: int,
    scenario: Mapping[str, Any] | None = None,
    parameters: Iterable[Mapping[str, Any]] | None = None,
    jobs: int = 0,
    first_replication: int = 0,
    progress: Progress | None = None,
    cluster: Cluster | Client | None = None,
) -> Results:
    """Runs points that need not come from one scenario; arguments as for `run`.

    Args:
        points: What to run.
        scenario: What the results say they are results of.
        parameters: What to call the points by, if not by their sweep.
        replications: As for `run`.
        seed: As for `run`.
        jobs: As for `run`.
        first_replication: As for `run`.
        progress: As for `run`.
        cluster: As for `run`.
    """
    for name, value, least in (
        ("replications", replications, 1),
        ("seed", seed, 0),
        ("jobs", jobs, 0),
        ("first_replication", first_replication, 0),
    ):
        check_least(name, value, least)
    raw: _lasthop.RawResults | Collected
    if cluster is not None:
        from lasthop.running.cluster import connect

        raw = connect(cluster).collect(
            points,
            replications=replications,
            first_replication=first_replication,
            seed=seed,
            progress=progress,
        )
    else:
        raw = _lasthop.run(
            list(points),
            replications=replications,
            first_replication=first_replication,
            seed=seed,
            jobs=jobs,
            progress=progress,
        )
    labels = (
        [json.loads(point.parameters) for point in points]
        if parameters is None
        else [dict(label) for label in parameters]
    )
    values = np.frombuffer(raw.values, dtype=np.float64)
    return Results(
        scenario=dict(scenario or {}),
        points=[
            Point(label, f"{point.hash:016x}") for label, point in zip(labels, points, strict=True)
        ],
        metrics=raw.metrics,
        point=np.frombuffer(raw.point, dtype=np.uint32),
        replication=np.frombuffer(raw.replication, dtype=np.uint64),
        values=values.reshape(-1, max(len(raw.metrics), 1)),
        seed=seed,
        complete=raw.complete,
        recorded=recorded_frames(scenario, points),
        unmarked=unmarked_queues(scenario, points),
        limits=rate_limits_of(points),
    )


def sweep(
    scenario: Scenario | str | Path,
    axes: Mapping[str, Any],
    *,
    replications: int | None = None,
    seed: int | None = None,
    jobs: int = 0,
    progress: Progress | None = None,
) -> Results:
    """Runs a scenario over lists of values or ranges for dotted keys, all against all.

        lasthop.sweep("transfer.toml", {"flow.transfer.transport.variant": ["reno", "sack"]})

    The other arguments, the result and the errors are those of `run`.
    """
    if not isinstance(scenario, Scenario):
        scenario = load(scenario)
    return run(
        scenario.sweep(axes), replications=replications, seed=seed, jobs=jobs, progress=progress
    )
