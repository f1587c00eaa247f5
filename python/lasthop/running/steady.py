"""One long run: what it settles to, once its start is cut off."""

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
"""Values of a series: 100 a batch."""

MOST_STEPS = 1_000_000
"""Steps that a series may be asked for."""


def steady_state(
    data: Trace | Scenario | Mapping[str, Any] | str | Path,
    *,
    step: float | None = None,
    seed: int | None = None,
    replication: int = 0,
    point: int = 0,
) -> pl.DataFrame:
    """Means over one long run, without its warm-up, with intervals by batch means.

    Args:
        data: A trace, or a scenario as for `lasthop.run`, of which one replication is run.
        step: Over how many seconds values are averaged; a 2000th of the run if None.
        seed: Of a scenario: master seed; its own if None.
        replication: Of a scenario: which replication.
        point: Of a scenario: which point of its sweep.

    Returns:
        One row a quantity: `entity`, such as `flow.transfer` or `link.wireless.forward`;
        `quantity`: of a flow over one TCP connection `goodput_bps` (what was acknowledged) and
        `cwnd_segments`, of a direction of a link `load_bps` (all that it sent) and `queue_packets`;
        `mean` and `ci95` (half-width), null if the run is too short to tell its start from the
        rest; `warm_up_s`, what was cut off; `batch_s`, of which there are 20; `independent`,
        whether batches are long enough for the interval to hold.

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
        raise ArgumentError(f"step: found {width:g} s; allowed: above 0, to {end:g} s, the run")
    if end / width > MOST_STEPS:
        raise ArgumentError(
            f"step: found {width:g} s; allowed: at least {end / MOST_STEPS:g} s, so that the run "
            f"has at most {MOST_STEPS:,} steps"
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
    # A window is unknown before its connection opens.
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
    """Entities, quantities and their series."""
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
            continue  # it only acknowledges, or comes and goes
        acks = events.filter(event="ack_received")
        progress = acks["sequence"].cum_max().diff().fill_null(0.0)
        yield name, "goodput_bps", 8.0 * totals(acks["time_s"], progress, edges) / seconds
        windows = events.filter(event="cwnd")
        yield name, "cwnd_segments", step_averages(windows["time_s"], windows["value"], edges)
