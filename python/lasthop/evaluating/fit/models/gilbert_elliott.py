"""Gilbert–Elliott: a two-state chain that steps once per frame, and its two special cases.

`errors = { kind = "gilbert-elliott", … }`, docs/channels.md. Special cases have fewer parameters,
so that a record determines whether more are needed: *simple Gilbert* has a loss rate of 0 in the
good state and 1 in the bad one (geometric bursts); *Gilbert* has a loss rate of 0 in the good one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.models.base import Array, Model, Parameter, chain_matrices
from lasthop.evaluating.fit.records import Record

__all__ = ["Gilbert", "GilbertElliott", "SimpleGilbert"]

P = Parameter("p_good_to_bad", "probability")
R = Parameter("p_bad_to_good", "probability")
GOOD = Parameter("loss_good", "probability")
BAD = Parameter("loss_bad", "probability")


class GilbertElliott(Model):
    """The chain with all four parameters."""

    name = "gilbert-elliott"
    parameters: tuple[Parameter, ...] = (P, R, GOOD, BAD)
    derived = (Parameter("mean_loss", "probability"), Parameter("mean_bad_period", "frames"))
    fixed: tuple[float, ...] = ()

    def events(self, record: Record) -> NDArray[np.uint32]:
        """One kind of frame."""
        return record.lost.astype(np.uint32)

    def all_values(self, values: Array) -> Array:
        """The four parameters of the chain."""
        return values

    def matrices(self, values: Array) -> tuple[Array, Array]:
        """Two states: good, bad."""
        p, r, good, bad = self.all_values(values)
        return chain_matrices(np.array([[1.0 - p, p], [r, 1.0 - r]]), np.array([good, bad]))

    def starts(self, record: Record) -> list[Array]:
        """Bursts as they are seen, and longer bad periods that lose only some frames."""
        loss, burst = record.loss, record.mean_burst
        found = []
        for length, bad in ((burst, 0.95), (4.0 * burst, 0.5), (20.0 * burst, 0.25)):
            lost_in_bad = max(bad, min(1.5 * loss, 0.99))
            good = 0.1 * loss
            share = (loss - good) / (lost_in_bad - good)
            r = min(1.0 / length, 0.9)
            p = min(r * share / (1.0 - share), 0.9)
            found.append(self.own(np.array([p, r, good, lost_in_bad])))
        return found

    def own(self, values: Array) -> Array:
        """Returns the free parameters."""
        return values

    def reestimated(self, values: Array, counts: Array) -> Array:  # noqa: ARG002
        """Shares of the expected transitions, and of the expected frames in each state."""
        steps = counts.sum(axis=0)
        frames = counts.sum(axis=2)
        leave = steps[[0, 1], [1, 0]] / np.maximum(steps.sum(axis=1), 1e-300)
        loss = frames[1] / np.maximum(frames.sum(axis=0), 1e-300)
        return self.own(np.r_[leave, loss])

    def derive(self, values: Array) -> Array:
        """Mean loss, and the mean length of a bad period in frames."""
        p, r, good, bad = self.all_values(values)
        return np.array([(r * good + p * bad) / (p + r), 1.0 / r])

    def errors(self, values: Mapping[str, float]) -> str:
        """Its table; the worse state is the bad one."""
        four = self.all_values(np.array([values[each.name] for each in self.parameters]))
        if four[2] > four[3]:
            four = four[[1, 0, 3, 2]]
        names = (each.name for each in (P, R, GOOD, BAD))
        keys = ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, four, strict=True))
        return f'{{ kind = "gilbert-elliott", {keys} }}'


class Gilbert(GilbertElliott):
    """The loss rate in the good state is 0."""

    name = "gilbert"
    parameters = (P, R, BAD)

    def all_values(self, values: Array) -> Array:
        """With the loss in good, 0."""
        return np.array([values[0], values[1], 0.0, values[2]])

    def own(self, values: Array) -> Array:
        """Without the loss in good."""
        return values[[0, 1, 3]]


class SimpleGilbert(GilbertElliott):
    """Loss rates are 0 and 1: the state is visible, and bursts are geometric."""

    name = "simple-gilbert"
    parameters = (P, R)

    def all_values(self, values: Array) -> Array:
        """With losses of 0 and 1."""
        return np.array([values[0], values[1], 0.0, 1.0])

    def own(self, values: Array) -> Array:
        """Without the losses."""
        return values[:2]
