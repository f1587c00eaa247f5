"""Time series of one replication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lasthop import _lasthop
from lasthop.scenario import Scenario, as_scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Trace", "trace"]

WINDOW_EVENTS = ("cwnd", "ssthresh")
QUEUE_EVENTS = ("queue", "drop")


@dataclass(frozen=True)
class Trace:
    """What happened in one replication.

    Attributes:
        frame: One row an event, in order of time: `time_s`, `entity` (such as `flow.transfer` or
            `link.wireless.forward`), `event`, `sequence` and `value`, whose meaning goes with the
            event; null where it has none.
        metrics: The replication's metrics by their full names.
        name: Name of the scenario.
        complete: False if the run was interrupted; the events are those up to then.
    """

    frame: pl.DataFrame
    metrics: Mapping[str, float]
    name: str
    complete: bool = True

    def series(self) -> dict[str, pl.DataFrame]:
        """The events by subject: `cwnd`, `sequence`, `queue` and `link`, columns as in `frame`."""
        is_link = pl.col("entity").str.starts_with("link.")
        window = pl.col("event").is_in(WINDOW_EVENTS)
        queue = pl.col("event").is_in(QUEUE_EVENTS)
        return {
            "cwnd": self.frame.filter(~is_link & window),
            "sequence": self.frame.filter(~is_link & ~window),
            "queue": self.frame.filter(is_link & queue),
            "link": self.frame.filter(is_link & ~queue),
        }

    def plot(self) -> Figure:
        """Draws congestion window, sequence numbers, queues and losses over time."""
        from lasthop.plots import draw_trace

        return draw_trace(self)


def trace(
    scenario: Scenario | Mapping[str, Any] | str | Path,
    *,
    seed: int | None = None,
    replication: int = 0,
    point: int = 0,
) -> Trace:
    """Runs one replication and records its events.

    Args:
        scenario: As for `lasthop.run`.
        seed: Master seed; what the scenario says if None.
        replication: Which replication; the same one that `run` averages over.
        point: Which point of the scenario's sweep.

    Raises:
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If the replication cannot be finished.
        ValueError: If a number is out of range.
    """
    scenario = as_scenario(scenario)
    points = scenario.points()
    if not 0 <= point < len(points):
        raise ValueError(f"point: found {point}; allowed: from 0 to {len(points) - 1}")
    for name, value in (("seed", seed or 0), ("replication", replication)):
        if not 0 <= value < 2**63:
            raise ValueError(f"{name}: found {value}; allowed: from 0 to 2^63 - 1")
    chosen = points[point]
    raw = _lasthop.trace(chosen, chosen.seed if seed is None else seed, replication)
    entities = pl.Series("entity", raw.entities, dtype=pl.String)
    events = pl.Series("event", raw.events, dtype=pl.String)
    frame = pl.DataFrame(
        {
            "time_s": np.frombuffer(raw.time_ns, dtype=np.uint64) / 1e9,
            "entity": entities.gather(np.frombuffer(raw.entity, dtype=np.uint32)),
            "event": events.gather(np.frombuffer(raw.event, dtype=np.uint32)),
            "sequence": pl.Series(np.frombuffer(raw.sequence), nan_to_null=True),
            "value": pl.Series(np.frombuffer(raw.value), nan_to_null=True),
        }
    )
    return Trace(frame, dict(raw.metrics), scenario.name, raw.complete)
