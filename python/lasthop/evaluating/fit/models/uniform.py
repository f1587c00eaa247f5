"""Uniform: each frame is lost with the same probability, independently.

`errors = { kind = "uniform", loss = … }`, docs/channels.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.models.base import Array, Model, Parameter
from lasthop.evaluating.fit.records import Record

__all__ = ["Uniform"]


class Uniform(Model):
    """Independent losses; the estimate is the share of lost frames."""

    name = "uniform"
    parameters = (Parameter("loss", "probability"),)

    def events(self, record: Record) -> NDArray[np.uint32]:
        """One kind of frame."""
        return record.lost.astype(np.uint32)

    def matrices(self, values: Array) -> tuple[Array, Array]:
        """One state."""
        return np.ones(1), np.array([[[1.0 - values[0]]], [[values[0]]]])

    def starts(self, record: Record) -> list[Array]:
        """The estimate itself."""
        return [np.array([record.loss])]

    def reestimated(self, values: Array, counts: Array) -> Array:  # noqa: ARG002
        """The share of lost frames."""
        return np.array([counts[1].sum() / counts.sum()])

    def errors(self, values: Mapping[str, float]) -> str:
        """Its table."""
        return f'{{ kind = "uniform", loss = {values["loss"]:.6g} }}'
