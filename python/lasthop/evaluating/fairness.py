"""Convergence of several flows to fair shares of a path."""

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
    """Convergence time and fairness over time.

    Attributes:
        time_s: Time from when all flows are active to the first of `hold` consecutive fair steps;
            NaN without such a step.
        index: One row per step in which all flows are active: `time_s`, its start; `jain`, Jain's
            index of the data acknowledged in it; `goodput_bps`, a list, by flow.
        flows: The flows in the order of these lists.
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
    """Measures the convergence time of the TCP flows of one run.

    The time starts when the first data of the last flow is acknowledged. It ends at the start of
    the first of `hold` consecutive steps in which Jain's index of the acknowledged data is at least
    `level`. Steps after the end of the first flow are ignored.

    Args:
        data: A trace, or a scenario as for `lasthop.run`, of which one replication is run.
        step: Averaging interval in seconds; several RTT.
        level: Minimum Jain's index of a fair step, above 0, at most 1.
        hold: Number of consecutive fair steps, at least 1.
        seed: Of a scenario: master seed; None: the scenario's.
        replication: Of a scenario: index of the replication.
        point: Of a scenario: point of its sweep.

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
            raise ArgumentError(f"invalid value `{value:g}` for `{name}`: expected {allowed}")
    if not isinstance(data, Trace):
        data = trace(data, seed=seed, replication=replication, point=point)
    acks = {
        name: own for name, own in _acknowledgments(data.frame).items() if own["bytes"].sum() > 0.0
    }
    # Integer nanoseconds, as in the run: an ACK may arrive at the boundary of a step.
    starts = [_first(own) for own in acks.values()]
    ends = [int(own["time_ns"][-1]) for own in acks.values()]
    width = max(round(step * 1e9), 1)
    if len(acks) < 2 or max(starts) + width > min(ends):
        raise ArgumentError(
            f"{len(acks)} TCP flows of one connection: expected at least 2 that are active at the "
            f"same time for {step:g} s"
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
    """Returns times and amounts of acknowledged data, by flow over one connection."""
    found = {}
    for (entity,), events in frame.group_by("entity", maintain_order=True):
        name = str(entity)
        sends = ((events["event"] == "segment_sent") & (events["value"] > 0)).any()
        if not name.startswith("flow.") or ".connection " in name or not sends:
            continue
        acks = events.filter(event="ack_received")
        # Data starts at sequence number 1, after the SYN if any.
        edge = np.maximum(acks["sequence"].cum_max().to_numpy(), 1.0)
        times = (acks["time_s"] * 1e9).round().cast(pl.Int64)
        found[name] = pl.DataFrame({"time_ns": times, "bytes": np.diff(edge, prepend=1.0)})
    return found


def _first(acks: pl.DataFrame) -> int:
    """Returns the time in ns at which the first data was acknowledged."""
    return int(acks.filter(pl.col("bytes") > 0.0)["time_ns"][0])
