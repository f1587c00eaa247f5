"""Two-state in time: good and bad periods of exponential length, each with a bit error rate.

`errors = { kind = "two-state", … }`, docs/channels.md. A frame of L bits and air time T is exposed
to the state in each instant: with Q the generator of the states and G = L/T ln(1 − BER) on the
added to the diagonal, the matrix of its survival is e^{(Q + G) T}; the matrix of idle time g is
e^{Q g}. The record must therefore contain durations and sizes of frames.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.models.base import Array, Model, Parameter, stationary
from lasthop.evaluating.fit.records import Record

__all__ = ["TwoState"]

# Maximum number of distinct (bits, duration, gap); above, gaps are rounded more coarsely.
CLASSES = 4096


class TwoState(Model):
    """Exponential sojourns; bound to the sizes and times of a record."""

    name = "two-state"
    parameters = (
        Parameter("good", "s"),
        Parameter("bad", "s"),
        Parameter("good_ber", "probability"),
        Parameter("bad_ber", "probability"),
    )

    def __init__(self, record: Record | None = None) -> None:
        """Takes the record whose sizes and times the matrices are for."""
        if record is not None:
            self._kinds, self._bits, self._air_s, self._gap_s = _classes(record)

    def bound(self, record: Record) -> TwoState:
        """The model of a record's own sizes and times."""
        return TwoState(record)

    def applies(self, record: Record) -> str:
        """Needs sizes and air times."""
        if record.bits is None or record.air_s is None:
            return "needs sizes and times of frames: in the record, or by --frame and --rate"
        return ""

    def events(self, record: Record) -> NDArray[np.uint32]:
        """Two for each distinct size and time."""
        kinds = self._kinds[: record.lost.size]
        return (2 * kinds + record.lost).astype(np.uint32)

    @property
    def kinds(self) -> NDArray[np.uint32]:
        """Which size and time each frame of the record has."""
        return self._kinds

    def matrices(self, values: Array) -> tuple[Array, Array]:
        """Two states: good, bad; arrived and lost of each size and time in turn."""
        good, bad, good_ber, bad_ber = values
        rates = np.array([[-1.0 / good, 1.0 / good], [1.0 / bad, -1.0 / bad]])
        survive = np.log1p(-np.minimum([good_ber, bad_ber], 1.0 - 1e-13))
        air = _exponential(rates[None] * self._air_s[:, None, None])
        exposed = rates[None] * self._air_s[:, None, None]
        exposed[:, [0, 1], [0, 1]] += self._bits[:, None] * survive
        arrived = _exponential(exposed)
        idle = _exponential(rates[None] * self._gap_s[:, None, None])
        pairs = np.stack([arrived @ idle, np.maximum(air - arrived, 0.0) @ idle], axis=1)
        law = stationary(np.array([[0.0, 1.0 / good], [1.0 / bad, 0.0]]))
        return law, pairs.reshape(-1, 2, 2)

    def starts(self, record: Record) -> list[Array]:
        """Bad periods as long as bursts with idle times and without, and longer ones."""
        assert record.bits is not None  # noqa: S101 - checked by `applies`
        assert record.air_s is not None  # noqa: S101
        step = max(record.duration_s / record.lost.size, 1e-9)
        bits = float(np.mean(record.bits))
        air = float(np.mean(record.air_s))
        found = []
        for frame_s, length, bad in ((step, 1.0, 0.9), (step, 5.0, 0.5), (air, 2.0, 0.7)):
            bad_s = length * record.mean_burst * frame_s
            lost = max(bad, min(1.5 * record.loss, 0.99))
            share = min(record.loss * 0.9 / lost, 0.9)
            good_s = bad_s * (1.0 - share) / share
            bers = [-np.expm1(np.log1p(-loss) / bits) for loss in (0.05 * record.loss, lost)]
            found.append(np.array([good_s, bad_s, *bers]))
        return found

    def errors(self, values: Mapping[str, float]) -> str:
        """Its table; the worse state is the bad one."""
        one, two = ("good", "bad") if values["good_ber"] <= values["bad_ber"] else ("bad", "good")
        return (
            f'{{ kind = "two-state", good = "{values[one]:.6g} s", bad = "{values[two]:.6g} s", '
            f"good_ber = {values[f'{one}_ber']:.4g}, bad_ber = {values[f'{two}_ber']:.4g} }}"
        )


def _exponential(a: Array) -> Array:
    """e^A of matrices of 2 × 2 whose off-diagonal entries are not negative."""
    half = 0.5 * (a[:, 0, 0] + a[:, 1, 1])
    root = np.sqrt((0.5 * (a[:, 0, 0] - a[:, 1, 1])) ** 2 + a[:, 0, 1] * a[:, 1, 0])
    # e^half cosh(root) and e^half sinh(root) / root, without overflow.
    up, down = np.exp(half + root), np.exp(half - root)
    cosh = 0.5 * (up + down)
    small = root < 1e-7
    sinh = np.where(small, np.exp(half), 0.5 * (up - down) / np.where(small, 1.0, root))
    found = sinh[:, None, None] * (a - half[:, None, None] * np.eye(2))
    found[:, [0, 1], [0, 1]] += cosh[:, None]
    return np.asarray(np.maximum(found, 0.0))


def _classes(record: Record) -> tuple[NDArray[np.uint32], Array, Array, Array]:
    """Which of the distinct (bits, air time, gap after) each frame is, and these."""
    assert record.bits is not None  # noqa: S101 - checked by `applies`
    assert record.air_s is not None  # noqa: S101
    gaps = record.gap_s
    scale = max(float(record.air_s.mean()), 1e-9)
    for digits in (3, 2, 1):
        rounded = np.where(gaps < 1e-3 * scale, 0.0, _rounded(gaps, digits))
        table = np.stack([record.bits, record.air_s, rounded], axis=1)
        distinct, kinds = np.unique(table, axis=0, return_inverse=True)
        if len(distinct) <= CLASSES:
            break
    return kinds.astype(np.uint32).ravel(), distinct[:, 0], distinct[:, 1], distinct[:, 2]


def _rounded(values: Array, digits: int) -> Array:
    """To so many significant digits."""
    safe = np.where(values > 0.0, values, 1.0)
    power = 10.0 ** (digits - 1 - np.floor(np.log10(safe)))
    return np.where(values > 0.0, np.round(safe * power) / power, 0.0)
