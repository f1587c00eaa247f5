"""Phases of congestion control in evaluation suites.

Criteria observe them in traces, and the path may change when a phase begins.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from lasthop.running.tracing import PHASE, trace
from lasthop.scenarios.scenario import Scenario

__all__ = ["OBSERVED", "Observation", "Trigger", "states"]

OBSERVED = 2
"""Number of traced replications per point."""

TIME = re.compile(r"phase(?: ([+-]) ([0-9.]+) s)?")


def states(
    scenario: Scenario, flow: str, seed: int | None, replication: int, point: int = 0
) -> pl.DataFrame:
    """Returns the states of congestion control of a flow: columns `time_s`, `event`, `value`."""
    traced = trace(scenario, seed=seed, replication=replication, point=point)
    return traced.series()["cwnd"].filter(entity=f"flow.{flow}")


def _starts(frame: pl.DataFrame, phase: str) -> list[float]:
    return frame.filter(event=f"{PHASE}{phase}")["time_s"].to_list()


@dataclass(frozen=True, slots=True)
class Observation:
    """A value of the phases of a sender.

    Exactly one of `phases`, `state` and `lasts` is given.

    Attributes:
        phases: Regular expression of the phases in order, separated by spaces: the value is 1 if
            it matches some of them, otherwise 0.
        state: Quantity of a trace, such as `max_bw_bps`, of which the value is that when phase
            `at` begins.
        at: The phase.
        lasts: Phase of which the value is the duration in seconds.
        occurrence: Which of several phases of the same name, from 1.
    """

    phases: str = ""
    state: str = ""
    at: str = ""
    lasts: str = ""
    occurrence: int = 1

    @property
    def unit(self) -> str:
        """Unit of the value."""
        if self.lasts or self.state.endswith("_s"):
            return "s"
        return "bps" if self.state.endswith("_bps") else ""

    @property
    def about(self) -> str:
        """The observation in words."""
        which = f" number {self.occurrence}" if self.occurrence > 1 else ""
        if self.phases:
            return f"phases match {self.phases}"
        if self.state:
            return f"{self.state} at {self.at}{which}"
        return f"duration of {self.lasts}{which}"

    def value(self, frame: pl.DataFrame) -> float:
        """Returns the value in the states of a sender; NaN if it has no phases."""
        phases = frame.filter(pl.col("event").str.starts_with(PHASE))
        if phases.is_empty():
            return math.nan
        if self.phases:
            names = phases["event"].str.strip_prefix(PHASE)
            return float(re.search(self.phases, " ".join(names)) is not None)
        begins = _starts(frame, self.at or self.lasts)
        if len(begins) < self.occurrence:
            return math.nan
        began = begins[self.occurrence - 1]
        if self.lasts:
            later = phases.filter(pl.col("time_s") > began)["time_s"]
            return float(later[0]) - began if len(later) else math.nan
        known = frame.filter(pl.col("time_s") <= began, event=self.state)["value"]
        return float(known[-1]) if len(known) else math.nan


@dataclass(frozen=True, slots=True)
class Trigger:
    """Keys of a scenario that depend on the start of a phase of its first flow.

    A first run finds the time. The scenario must not have random input before, so that all
    replications have the same time.

    Attributes:
        flow: Name of the flow.
        phase: Name of the phase.
        keys: Values by dotted key. The texts "phase", "phase + 0.2 s" and "phase - 0.2 s" in
            them stand for the time at which the phase begins, 0.2 s later, and 0.2 s earlier.
        occurrence: Which of several phases of the same name, from 1.
    """

    phase: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    flow: str = "candidate"
    occurrence: int = 1

    def apply(self, scenario: Scenario) -> Scenario:
        """Returns the scenario with the keys; unchanged if the phase does not begin."""
        begins = _starts(states(scenario, self.flow, None, 0), self.phase)
        if len(begins) < self.occurrence:
            return scenario
        return scenario.with_(_with_time(self.keys, begins[self.occurrence - 1]))


def _with_time(value: Any, begins: float) -> Any:
    if isinstance(value, str) and (found := TIME.fullmatch(value)):
        shift = float(f"{found[1] or ''}{found[2] or 0}")
        return f"{round((begins + shift) * 1e9)} ns"
    if isinstance(value, Mapping):
        return {key: _with_time(one, begins) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_time(one, begins) for one in value]
    return value
