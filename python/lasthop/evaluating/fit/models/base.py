"""Common base of all models of a record of losses.

A model is a hidden Markov model: it defines an N × N matrix (N states) for each kind of event, and
the distribution of the state before the first event. Its parameters are probabilities or times;
estimation uses their logits and logarithms, which are unbounded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.records import Record

__all__ = ["Array", "Model", "Parameter", "chain_matrices", "stationary"]

Array = NDArray[np.float64]

# Maximum logit or logarithm: beyond it, a record of 10^7 frames cannot distinguish values.
BOUND = 30.0


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a model.

    Attributes:
        name: As in the scenario, where there is such a key.
        unit: `probability` in [0, 1], or `s` for a time above 0.
    """

    name: str
    unit: str

    def free(self, value: float) -> float:
        """Returns the unbounded coordinate: logit or logarithm."""
        if self.unit == "s":
            return float(np.log(value))
        inside = min(max(value, 1e-13), 1.0 - 1e-13)
        return float(np.log(inside / (1.0 - inside)))

    def value(self, free: float) -> float:
        """Returns the parameter, given its coordinate."""
        if self.unit == "s":
            return float(np.exp(np.clip(free, -BOUND, BOUND)))
        return float(1.0 / (1.0 + np.exp(-np.clip(free, -BOUND, BOUND))))


class Model(ABC):
    """A family of error models; see the module's docstring.

    Attributes:
        name: Name in tables.
        parameters: Free parameters.
        derived: Names and units of derived values.
    """

    name: str
    parameters: tuple[Parameter, ...]
    derived: tuple[Parameter, ...] = ()

    @abstractmethod
    def events(self, record: Record) -> NDArray[np.uint32]:
        """Returns the matrix index of each frame: even if it arrived, the next one if lost."""

    @abstractmethod
    def matrices(self, values: Array) -> tuple[Array, Array]:
        """Returns the initial distribution (N) and the matrices (events × N × N)."""

    @abstractmethod
    def starts(self, record: Record) -> list[Array]:
        """Returns starting points of the search."""

    @abstractmethod
    def errors(self, values: Mapping[str, float]) -> str:
        """Returns the `errors` table of a scenario in TOML."""

    def derive(self, values: Array) -> Array:  # noqa: ARG002 - most need them
        """Returns the derived values, in the order of `derived`."""
        return np.empty(0)

    def bound(self, record: Record) -> Model:  # noqa: ARG002 - for those that need it
        """Returns the model bound to the sizes and times of a record."""
        return self

    def applies(self, record: Record) -> str:  # noqa: ARG002
        """Returns the reason why the model cannot be fitted to a record; empty if it can."""
        return ""

    def reestimated(self, values: Array, counts: Array) -> Array | None:  # noqa: ARG002
        """Returns the parameters of a Baum–Welch step, if there is a closed form.

        Args:
            values: Parameters with which the counts were computed.
            counts: Expected counts of each event and state transition (events × N × N).
        """
        return None

    @property
    def size(self) -> int:
        """Number of free parameters."""
        return len(self.parameters)

    def free(self, values: Array) -> Array:
        """Coordinates without bounds."""
        pairs = zip(self.parameters, values, strict=True)
        return np.array([parameter.free(value) for parameter, value in pairs])

    def values(self, free: Array) -> Array:
        """Parameters from coordinates."""
        pairs = zip(self.parameters, free, strict=True)
        return np.array([parameter.value(coordinate) for parameter, coordinate in pairs])


def stationary(transition: Array) -> Array:
    """Returns the stationary distribution of a chain of two or three states."""
    if len(transition) == 2:
        leave = np.array([transition[0, 1], transition[1, 0]])
        return leave[::-1] / leave.sum() if leave.sum() > 0.0 else np.full(2, 0.5)
    # The weight of a state is the sum over spanning trees directed to it.
    q = transition
    law = np.array(
        [
            q[1, 0] * q[2, 0] + q[1, 0] * q[2, 1] + q[2, 0] * q[1, 2],
            q[0, 1] * q[2, 1] + q[0, 1] * q[2, 0] + q[2, 1] * q[0, 2],
            q[0, 2] * q[1, 2] + q[0, 2] * q[1, 0] + q[1, 2] * q[0, 1],
        ]
    )
    return law / law.sum() if law.sum() > 0.0 else np.full(3, 1.0 / 3.0)


def chain_matrices(transition: Array, loss: Array) -> tuple[Array, Array]:
    """Returns distribution and matrices of a chain: loss by the current state, then a step."""
    arrived = (1.0 - loss)[:, None] * transition
    return stationary(transition), np.stack([arrived, loss[:, None] * transition])
