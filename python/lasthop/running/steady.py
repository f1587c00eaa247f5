"""Steady-state means of one long run, excluding its warm-up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lasthop.evaluating.statistics import Floats, batch_means, step_averages, totals, warm_up
from lasthop.running.tracing import Trace, trace
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.scenario import Scenario

__all__ = ["steady_state"]

STEPS = 2000
"""Number of values of a series: 100 per batch."""

MOST_STEPS = 1_000_000
"""Maximum number of steps of a series."""


def steady_state(
    data: Trace | Scenario | Mapping[str, Any] | str | Path,
    *,
    step: float | None = None,
    seed: int | None = None,
    replication: int = 0,
    point: int = 0,
) -> pl.DataFrame:
    """Estimates steady-state means from one long run, with intervals by batch means.

    Args:
        data: A trace, or a scenario as for `lasthop.run`, of which one replication is run.
        step: Averaging interval in seconds; None: 1/2000 of the run.
        seed: Of a scenario: master seed; None: the scenario's.
        replication: Of a scenario: index of the replication.
        point: Of a scenario: point of its sweep.

    Returns:
        One row per quantity: `entity`, such as `flow.transfer` or `link.wireless.forward`;
        `quantity`: `goodput_bps` (acknowledged data) and `cwnd_segments` of a flow over one TCP
        connection, `load_bps` (all frames sent) and `queue_packets` of a direction of a link;
        `mean` and `ci95` (half-width of the 95 % confidence interval), null if the run is too short
        to detect the warm-up; `warm_up_s`, the length of the excluded warm-up; `batch_s`, the
        length of each of the 20 batches; `independent`, whether the batches are long enough for
        the interval to be valid.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If the replication cannot be finished.
        ValueError: If a number is out of range.
    """
    if not isinstance(data, Trace):
        data = trace(data, seed=seed, replication=replication, point=point)
    last = data.frame["time_s"].max()
    end = float(last) if isinstance(last, float) else 0.0
    width = end / STEPS if step is None else step
    if not 0.0 < width <= end:
        raise ArgumentError(
            f"invalid value `{width:g} s` for `step`: expected above 0, at most {end:g} s, the "
            "duration of the run"
        )
    if end / width > MOST_STEPS:
        raise ArgumentError(
            f"invalid value `{width:g} s` for `step`: expected at least {end / MOST_STEPS:g} s, so "
            f"that the run has at most {MOST_STEPS:,} steps"
        )
    edges = np.arange(np.floor(end / width + 1e-9) + 1.0) * width
    rows = [
        {"entity": entity, "quantity": quantity, **_mean(series, width)}
        for entity, quantity, series in _series(data, edges)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


SCHEMA = pl.Schema(
    {
        "entity": pl.String,
        "quantity": pl.String,
        **dict.fromkeys(("mean", "ci95", "warm_up_s", "batch_s"), pl.Float64),
        "independent": pl.Boolean,
    }
)


def _mean(series: Floats, width: float) -> dict[str, Any]:
    # The window is unknown until the connection is opened.
    first = int(np.argmax(~np.isnan(series)))
    known = series[first:]
    cut = warm_up(known)
    if cut is None:
        return {}
    try:
        found = batch_means(known, cut=cut)
    except ValueError:
        return {}  # too few values
    return {
        "mean": found.mean,
        "ci95": found.ci95,
        "warm_up_s": (first + cut) * width,
        "batch_s": found.batch * width,
        "independent": found.independent,
    }


def _series(data: Trace, edges: Floats) -> Iterator[tuple[str, str, Floats]]:
    """Yields entities, quantities and their series."""
    seconds = np.diff(edges)
    for (entity,), events in data.frame.group_by("entity", maintain_order=True):
        name = str(entity)
        if name.startswith("link."):
            sent = data.transmissions.filter(entity=name)
            yield name, "load_bps", 8.0 * totals(sent["end_s"], sent["bytes"], edges) / seconds
            kept = events.filter(event="queue")
            if kept.height:
                yield name, "queue_packets", step_averages(kept["time_s"], kept["value"], edges)
            continue
        sends = ((events["event"] == "segment_sent") & (events["value"] > 0)).any()
        if not sends or ".connection " in name:
            continue  # a receiver, or one of several short connections
        acks = events.filter(event="ack_received")
        progress = acks["sequence"].cum_max().diff().fill_null(0.0)
        yield name, "goodput_bps", 8.0 * totals(acks["time_s"], progress, edges) / seconds
        windows = events.filter(event="cwnd")
        yield name, "cwnd_segments", step_averages(windows["time_s"], windows["value"], edges)
