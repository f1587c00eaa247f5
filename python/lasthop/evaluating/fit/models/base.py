"""What all models of a record of losses have in common.

A model is a hidden Markov model: it gives each kind of event a matrix of N × N (N states), and the
law of the state before the first event. Its parameters are probabilities or times; estimation
works with their logits and logarithms, which know no bounds.
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

# Logits and logarithms beyond are 0, 1 or endless as far as a record of 10^7 frames can tell.
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
        """The coordinate without bounds: logit or logarithm."""
        if self.unit == "s":
            return float(np.log(value))
        inside = min(max(value, 1e-13), 1.0 - 1e-13)
        return float(np.log(inside / (1.0 - inside)))

    def value(self, free: float) -> float:
        """The parameter from its coordinate."""
        if self.unit == "s":
            return float(np.exp(np.clip(free, -BOUND, BOUND)))
        return float(1.0 / (1.0 + np.exp(-np.clip(free, -BOUND, BOUND))))


class Model(ABC):
    """A family of error processes; see the head of this file.

    Attributes:
        name: What tables call it.
        parameters: Its free parameters.
        derived: Names and units of what follows from them.
    """

    name: str
    parameters: tuple[Parameter, ...]
    derived: tuple[Parameter, ...] = ()

    @abstractmethod
    def events(self, record: Record) -> NDArray[np.uint32]:
        """Which matrix each frame takes: an even number if it arrived, the next one if lost."""

    @abstractmethod
    def matrices(self, values: Array) -> tuple[Array, Array]:
        """The law of the first state (N) and the matrices (events × N × N) at parameters."""

    @abstractmethod
    def starts(self, record: Record) -> list[Array]:
        """Parameters to begin the search at."""

    @abstractmethod
    def errors(self, values: Mapping[str, float]) -> str:
        """The `errors` table of a scenario in TOML."""

    def derive(self, values: Array) -> Array:  # noqa: ARG002 - most need them
        """The derived values, in the order of `derived`."""
        return np.empty(0)

    def bound(self, record: Record) -> Model:  # noqa: ARG002 - for those that need it
        """The model for a record: one whose matrices depend on sizes and times takes them here."""
        return self

    def applies(self, record: Record) -> str:  # noqa: ARG002
        """Why the model cannot be fitted to a record; empty if it can."""
        return ""

    def reestimated(self, values: Array, counts: Array) -> Array | None:  # noqa: ARG002
        """The step of Baum and Welch: parameters from expected counts, if there is a closed form.

        Args:
            values: The parameters that the counts are expected under.
            counts: How often each event goes with each change of state (events × N × N).
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
    """The stationary law of a chain of two or three states."""
    if len(transition) == 2:
        leave = np.array([transition[0, 1], transition[1, 0]])
        return leave[::-1] / leave.sum() if leave.sum() > 0.0 else np.full(2, 0.5)
    # The weight of a state: products along all trees of ways into it.
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
    """Law and matrices of a chain that loses by the state it meets, and then steps."""
    arrived = (1.0 - loss)[:, None] * transition
    return stationary(transition), np.stack([arrived, loss[:, None] * transition])
