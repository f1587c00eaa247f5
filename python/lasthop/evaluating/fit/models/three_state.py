"""Three states: a chain that steps once per frame, with one loss probability per state.

For links with two kinds of disturbance, such as short bursts of interference and long fades.
`errors = { kind = "markov-chain", … }`, docs/channels.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.models.base import Array, Model, Parameter, chain_matrices
from lasthop.evaluating.fit.records import Record

__all__ = ["ThreeState"]


class ThreeState(Model):
    """Nine parameters: two transitions from each state and three loss probabilities.

    State i is left with probability `leave_i` per frame, then changes to the next state (1→2, 2→3,
    3→1) with probability `next_i`. These coordinates are independent of each other.
    """

    name = "three-state"
    parameters = (
        *(Parameter(f"leave_{state}", "probability") for state in (1, 2, 3)),
        *(Parameter(f"next_{state}", "probability") for state in (1, 2, 3)),
        *(Parameter(f"loss_in_{state}", "probability") for state in (1, 2, 3)),
    )
    derived = (Parameter("mean_loss", "probability"),)

    def events(self, record: Record) -> NDArray[np.uint32]:
        """One kind of frame."""
        return record.lost.astype(np.uint32)

    def matrices(self, values: Array) -> tuple[Array, Array]:
        """Three states."""
        return chain_matrices(_transition(values), values[6:])

    def starts(self, record: Record) -> list[Array]:
        """A good state, short bursts and long bad periods; or two lengths of bursts."""
        loss, burst = record.loss, record.mean_burst
        gap = burst * (1.0 - loss) / loss
        out = [
            min(1.0 / max(length, 1.2), 0.8) for length in (gap, burst, 5.0 * burst, 30.0 * burst)
        ]
        return [
            np.array([out[0], out[1], out[2], 0.7, 0.3, 0.6, 0.02 * loss, 0.9, 0.6]),
            np.array([out[0], out[1], out[3], 0.8, 0.2, 0.7, 0.1 * loss, 0.8, min(2 * loss, 0.4)]),
        ]

    def reestimated(self, values: Array, counts: Array) -> Array:  # noqa: ARG002
        """Shares of the expected transitions, and of the expected frames in each state."""
        steps = np.maximum(counts.sum(axis=0), 1e-300)
        frames = counts.sum(axis=2)
        leave = 1.0 - np.diag(steps) / steps.sum(axis=1)
        onward = [
            steps[i, (i + 1) % 3] / (steps[i, (i + 1) % 3] + steps[i, (i + 2) % 3])
            for i in range(3)
        ]
        loss = frames[1] / np.maximum(frames.sum(axis=0), 1e-300)
        return np.concatenate([leave, np.array(onward), loss])

    def derive(self, values: Array) -> Array:
        """Mean loss."""
        _, matrices = self.matrices(values)
        law, _ = self.matrices(values)
        return np.array([float(law @ matrices[1].sum(axis=1))])

    def errors(self, values: Mapping[str, float]) -> str:
        """Its table, the states in the order of their losses."""
        found = np.array([values[each.name] for each in self.parameters])
        loss = found[6:]
        order = np.argsort(loss, kind="stable")
        transition = _transition(found)[np.ix_(order, order)]
        rows = []
        for state, row in enumerate(transition):
            written = [float(f"{share:.6g}") for share in row]
            # The rest up to 1, so that rounding of the others does not change the sum.
            written[state] = max(round(1.0 - sum(written) + written[state], 12), 0.0)
            rows.append(f"[{', '.join(f'{share:.12g}' for share in written)}]")
        losses = ", ".join(f"{share:.6g}" for share in loss[order])
        return f'{{ kind = "markov-chain", transitions = [{", ".join(rows)}], loss = [{losses}] }}'


def _transition(values: Array) -> Array:
    """The matrix of the chain."""
    leave, onward = values[:3], values[3:6]
    transition = np.diag(1.0 - leave)
    for state in range(3):
        transition[state, (state + 1) % 3] = leave[state] * onward[state]
        transition[state, (state + 2) % 3] = leave[state] * (1.0 - onward[state])
    return transition
