"""Points of results, and fields of results that the engine fills with buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lasthop.evaluating.statistics.means import Interval

__all__ = ["Array", "Point", "Stopped"]


@dataclass(frozen=True, slots=True)
class Point:
    """One parameter point.

    Attributes:
        parameters: Swept dotted keys and their values at this point.
        scenario_hash: Hash of all inputs of its results except the seed.
    """

    parameters: Mapping[str, Any]
    scenario_hash: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Reason why a point was stopped; see `lasthop.statistics.sequential`.

    Attributes:
        point: Index of the point.
        metric: Metric with a target half-width.
        interval: Mean and interval, corrected for the interim analyses.
        reached: Whether the target half-width is reached; otherwise the replication limit is.
    """

    point: int
    metric: str
    interval: Interval
    reached: bool


class Array:
    """Field with an array, which the engine may fill with a buffer: short runs need no NumPy.

    Args:
        name: Name of the field.
        dtype: Type of the buffer's elements, as in NumPy and in `memoryview.cast`.
    """

    def __init__(self, name: str, dtype: str) -> None:
        self.name, self.dtype = name, dtype

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.name]
        if isinstance(value, bytes):
            import numpy as np

            value = np.frombuffer(value, dtype=self.dtype)
            if self.name == "values":
                value = value.reshape(-1, max(len(instance.metrics), 1))
            instance.__dict__[self.name] = value
        return value
