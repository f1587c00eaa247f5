"""How long several flows take until they share a path fairly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lasthop.evaluating.statistics import jain_index, totals
from lasthop.running.tracing import Trace, trace
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.scenario import Scenario

__all__ = ["Convergence", "convergence"]


@dataclass(frozen=True)
class Convergence:
    """When flows came to share fairly, and how fair they were at any time.

    Attributes:
        time_s: From when all flows are active to the first of `hold` fair steps in a row; NaN if
            that never comes.
        index: One row a step in which all flows are active: `time_s`, its beginning in the run;
            `jain`, Jain's index of what was acknowledged in it; `goodput_bps`, a list, by flow.
        flows: The flows in this order.
    """

    time_s: float
    index: pl.DataFrame
    flows: tuple[str, ...]


def convergence(
    data: Trace | Scenario | Mapping[str, Any] | str | Path,
    *,
    step: float = 1.0,
    level: float = 0.9,
    hold: int = 5,
    seed: int | None = None,
    replication: int = 0,
    point: int = 0,
) -> Convergence:
    """How long the TCP flows of one run take until they share fairly.

    The clock starts when the last flow has its first data acknowledged, and stops at the beginning
    of the first of `hold` steps in a row in each of which Jain's index of what the flows had
    acknowledged is at least `level`. Steps after the first flow's last acknowledgment do not count.

    Args:
        data: A trace, or a scenario as for `lasthop.run`, of which one replication is run.
        step: Over how many seconds goodput is averaged; several round trips.
        level: The index from which on a step is fair, above 0, at most 1.
        hold: Fair steps in a row that count as convergence, at least one.
        seed: Of a scenario: master seed; its own if None.
        replication: Of a scenario: which replication.
        point: Of a scenario: which point of its sweep.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If the replication cannot be finished.
        ValueError: If a number is out of range, or fewer than two TCP flows of one connection
            each were active at the same time.
    """
    for name, value, allowed, is_right in (
        ("step", step, "above 0 s", step > 0.0),
        ("level", level, "above 0, at most 1", 0.0 < level <= 1.0),
        ("hold", hold, "at least 1", hold >= 1),
    ):
        if not is_right:
            raise ArgumentError(f"{name}: found {value:g}; allowed: {allowed}")
    if not isinstance(data, Trace):
        data = trace(data, seed=seed, replication=replication, point=point)
    acks = {
        name: own for name, own in _acknowledgments(data.frame).items() if own["bytes"].sum() > 0.0
    }
    # Whole nanoseconds, as in the run: an acknowledgment may come on the edge of a step.
    starts = [_first(own) for own in acks.values()]
    ends = [int(own["time_ns"][-1]) for own in acks.values()]
    width = max(round(step * 1e9), 1)
    if len(acks) < 2 or max(starts) + width > min(ends):
        raise ArgumentError(
            f"flows: found {len(acks)} TCP flows of one connection; allowed: at least two that are "
            f"active at the same time for {step:g} s"
        )
    begin = max(starts)
    edges = begin + width * np.arange((min(ends) - begin) // width + 1)
    acked = [totals(own["time_ns"], own["bytes"], edges) for own in acks.values()]
    rates = 8.0 / step * np.stack(acked)
    index = jain_index(rates, axis=0)
    fair = np.convolve(index >= level, np.ones(hold, dtype=int), mode="valid") == hold
    found = step * float(np.argmax(fair)) if fair.size and fair.any() else float("nan")
    times = edges[:-1] / 1e9
    frame = pl.DataFrame({"time_s": times, "jain": index, "goodput_bps": rates.T.tolist()})
    return Convergence(found, frame, tuple(acks))


def _acknowledgments(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """By flow that sends data over one connection: when bytes were acknowledged, and how many."""
    found = {}
    for (entity,), events in frame.group_by("entity", maintain_order=True):
        name = str(entity)
        sends = ((events["event"] == "segment_sent") & (events["value"] > 0)).any()
        if not name.startswith("flow.") or ".connection " in name or not sends:
            continue
        acks = events.filter(event="ack_received")
        # Data begin with number 1, behind a SYN if there is one.
        edge = np.maximum(acks["sequence"].cum_max().to_numpy(), 1.0)
        times = (acks["time_s"] * 1e9).round().cast(pl.Int64)
        found[name] = pl.DataFrame({"time_ns": times, "bytes": np.diff(edge, prepend=1.0)})
    return found


def _first(acks: pl.DataFrame) -> int:
    """When the first data were acknowledged, ns."""
    return int(acks.filter(pl.col("bytes") > 0.0)["time_ns"][0])
