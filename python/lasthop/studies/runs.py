"""Runs of a study's cells with different numbers of replications."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lasthop.evaluating.results import Point, Results

__all__ = ["in_groups"]


def in_groups(
    points: Sequence[Point], counts: Sequence[int], run: Callable[[Sequence[int], int], Results]
) -> Results:
    """Runs points in groups of equal numbers of replications, and joins the results.

    Replications that a point does not have are missing, as after an interruption.

    Args:
        points: The points to run.
        counts: Replications of each point.
        run: Runs the points of these indices, with the given number of replications.
    """
    groups = {count: [n for n, own in enumerate(counts) if own == count] for count in counts}
    # A report of models alone runs no point.
    groups = groups or {1: []}
    parts: dict[int, Results] = {}
    for count in sorted(groups):
        parts[count] = run(groups[count], count)
        if not parts[count].complete:
            break
    first = next(iter(parts.values()))
    if len(groups) == 1:
        return first
    metrics = list(dict.fromkeys(name for part in parts.values() for name in part.metrics))
    column = {name: place for place, name in enumerate(metrics)}
    tables = []
    for part in parts.values():
        table = np.full((len(part.point), len(metrics)), np.nan)
        table[:, [column[name] for name in part.metrics]] = part.values
        tables.append(table)
    where = [np.asarray(groups[n], dtype=np.uint32)[part.point] for n, part in parts.items()]
    return Results(
        first.scenario,
        points,
        metrics,
        np.concatenate(where),
        np.concatenate([part.replication for part in parts.values()]),
        np.concatenate(tables),
        first.seed,
        complete=len(parts) == len(groups) and all(part.complete for part in parts.values()),
        engines=first.engines,
    )
