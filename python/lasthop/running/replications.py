"""Running scenarios: on all cores, without the interpreter lock; Ctrl-C keeps finished results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lasthop import _lasthop
from lasthop.evaluating.notes import rate_limits_of, recorded_frames, unmarked_queues
from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.statistics.sequential import FIRST, MOST
from lasthop.scenarios.arguments import ArgumentError, check_least
from lasthop.scenarios.scenario import Scenario, as_scenario, load

if TYPE_CHECKING:
    from distributed import Client

    from lasthop.running.cluster import Cluster, Collected
    from lasthop.running.precision import Until

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
    """Runs all replications of all points of a scenario.

    Args:
        scenario: A scenario, a mapping with a scenario's keys, or the name of a file.
        replications: Replications per point; None: the scenario's.
        seed: Master seed; None: the scenario's. Results depend on the seed, not on `jobs`.
        jobs: Number of threads; 0: all cores.
        first_replication: Index of the first replication, to extend an earlier run.
        until: Target half-width of the 95 % confidence interval of metrics, at each point:
            `"flow.transfer.goodput_bps=2%"` (± 2 % of the mean), `{"flow.a.timeouts": 0.5}`, or a
            list of texts. The first interim analysis is at 20 replications, or at `replications`.
        max_replications: With `until`, maximum replications per point; None: 1000.
        progress: Called regularly with (finished replications, total replications); with `until`,
            the total is a lower bound.
        cluster: Cluster that runs replications: from `lasthop.cluster.connect`, or a Dask client;
            None runs them in this process.

    Returns:
        The results; with `until`, `stopped` states where each point stopped. After Ctrl-C, the
        results of finished replications, with `complete` False.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If a replication cannot be finished.
        KeyError: If no metric matches `until`.
        ValueError: If a number is out of range.
    """
    scenario = as_scenario(scenario)
    points = scenario.points()
    tables = scenario.to_dict()
    seed = points[0].seed if seed is None else seed
    if until is None:
        if max_replications is not None:
            raise ArgumentError("`max_replications` requires `until`")
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
        raise ArgumentError("cannot use `first_replication` with `until`")
    before = 0

    def shifted(done: int, total: int) -> None:
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
            progress=None if progress is None else shifted,
            cluster=cluster,
        )
        before += len(part.point)
        return part

    from lasthop.running.precision import extend_until

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
    """Runs points that need not belong to one scenario; arguments as for `run`.

    Points with equal scenarios are run once.

    Args:
        points: The points to run.
        scenario: Scenario to store with the results.
        parameters: Labels of the points, if not those of their sweep.
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
    by_hash = {point.hash: point for point in points}
    different = list(by_hash.values())
    raw: _lasthop.RawResults | Collected
    if cluster is not None:
        from lasthop.running.cluster import connect

        raw = connect(cluster).collect(
            different,
            replications=replications,
            first_replication=first_replication,
            seed=seed,
            progress=progress,
        )
    else:
        raw = _lasthop.run(
            different,
            replications=replications,
            first_replication=first_replication,
            seed=seed,
            jobs=jobs,
            progress=progress,
        )
    rows: tuple[Any, Any, Any] = (raw.point, raw.replication, raw.values)
    if len(different) < len(points):
        places = {known: place for place, known in enumerate(by_hash)}
        rows = _with_copies(raw, [places[point.hash] for point in points])
    labels = (
        [json.loads(point.parameters) for point in points]
        if parameters is None
        else [dict(label) for label in parameters]
    )
    return Results(
        scenario=dict(scenario or {}),
        points=[
            Point(label, f"{point.hash:016x}") for label, point in zip(labels, points, strict=True)
        ],
        metrics=raw.metrics,
        # Buffers become arrays when they are used.
        point=rows[0],
        replication=rows[1],
        values=rows[2],
        seed=seed,
        complete=raw.complete,
        recorded=recorded_frames(scenario, points),
        unmarked=unmarked_queues(scenario, points),
        limits=rate_limits_of(points),
    )


def _with_copies(
    raw: _lasthop.RawResults | Collected, places: Sequence[int]
) -> tuple[Any, Any, Any]:
    """Returns points, replications and values of rows, with copies for points that were run once.

    Args:
        raw: Results of the different points.
        places: Index of each point among them.
    """
    import numpy as np

    point = np.frombuffer(raw.point, dtype=np.uint32)
    starts, ends = (np.searchsorted(point, places, side=side) for side in ("left", "right"))
    rows = np.concatenate([np.arange(*pair) for pair in zip(starts, ends, strict=True)])
    return (
        np.repeat(np.arange(len(places), dtype=np.uint32), ends - starts),
        np.frombuffer(raw.replication, dtype=np.uint64)[rows],
        np.frombuffer(raw.values).reshape(-1, len(raw.metrics))[rows],
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
    """Runs a scenario over lists of values or ranges of dotted keys, as a full grid.

        lasthop.sweep("transfer.toml", {"flow.transfer.transport.variant": ["reno", "sack"]})

    See `run` for the other arguments, the result and the errors.
    """
    if not isinstance(scenario, Scenario):
        scenario = load(scenario)
    return run(
        scenario.sweep(axes), replications=replications, seed=seed, jobs=jobs, progress=progress
    )
