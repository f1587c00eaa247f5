"""A record of losses: outcome of each frame, with times and lengths if known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lasthop.scenarios.arguments import Refused

__all__ = ["FitError", "Record"]


class FitError(Refused):
    """A record cannot be read or fitted."""


@dataclass(frozen=True, slots=True)
class Record:
    """Frames in transmission order.

    Attributes:
        lost: Whether each frame was lost.
        bits: Length of each frame in bits; None if unknown.
        air_s: Duration of each frame in seconds; None if unknown.
        start_s: Start of each frame in seconds; None if unknown: frames are then contiguous.
        source: Name of the source.
        notes: Assumptions made when reading.
    """

    lost: NDArray[np.bool_]
    bits: NDArray[np.float64] | None = None
    air_s: NDArray[np.float64] | None = None
    start_s: NDArray[np.float64] | None = None
    source: str = ""
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        """Refuses an empty record and columns of different lengths."""
        if self.lost.size == 0:
            raise FitError(f"{self.source or 'record'}: no frame: expected at least one")
        for name in ("bits", "air_s", "start_s"):
            column = getattr(self, name)
            if column is not None and column.size != self.lost.size:
                raise FitError(
                    f"invalid length {column.size} of `{name}`: expected {self.lost.size}, one "
                    "number per frame"
                )
        if self.start_s is not None and (np.diff(self.start_s) < 0.0).any():
            where = int(np.argmax(np.diff(self.start_s) < 0.0)) + 2
            raise FitError(
                f"{self.source or 'record'}: frame {where} starts before the previous one: "
                "expected ascending times"
            )

    @property
    def loss(self) -> float:
        """Fraction of lost frames."""
        return float(self.lost.mean())

    @property
    def bursts(self) -> NDArray[np.int64]:
        """Lengths of the runs of losses, in frames."""
        return run_lengths(self.lost, of=True)

    @property
    def gaps(self) -> NDArray[np.int64]:
        """Lengths of the runs of arrivals, in frames."""
        return run_lengths(self.lost, of=False)

    @property
    def mean_burst(self) -> float:
        """Mean length of a run of losses, in frames; 1 without losses."""
        bursts = self.bursts
        return float(bursts.mean()) if bursts.size else 1.0

    @property
    def gap_s(self) -> NDArray[np.float64]:
        """Idle time after each frame, in seconds; 0 after the last one."""
        if self.start_s is None or self.air_s is None:
            return np.zeros(self.lost.size)
        idle = np.diff(self.start_s) - self.air_s[:-1]
        # Times are rounded to the resolution of the recorder.
        return np.append(np.maximum(idle, 0.0), 0.0)

    @property
    def duration_s(self) -> float:
        """Duration from the start of the first frame to the end of the last; 0 if unknown."""
        if self.air_s is None:
            return 0.0
        return float(self.air_s.sum() + self.gap_s.sum())

    def part(self, first: int, frames: int) -> Record:
        """Returns a range of consecutive frames."""
        rows = slice(first, first + frames)
        bits, air, start = (
            None if column is None else column[rows]
            for column in (self.bits, self.air_s, self.start_s)
        )
        return replace(self, lost=self.lost[rows], bits=bits, air_s=air, start_s=start)

    def timed(self, frame_bits: float | None, rate_bps: float | None) -> Record:
        """Returns a copy with missing lengths and durations.

        Args:
            frame_bits: Length of all frames, if the record has none.
            rate_bps: Rate in bit/s, to compute durations from lengths.
        """
        bits, air = self.bits, self.air_s
        if bits is None and frame_bits is not None:
            bits = np.full(self.lost.size, float(frame_bits))
        if air is None and bits is not None and rate_bps is not None:
            air = bits / rate_bps
        return replace(self, bits=bits, air_s=air)


def run_lengths(lost: NDArray[np.bool_], *, of: bool) -> NDArray[np.int64]:
    """Returns the lengths of the runs of losses or of arrivals."""
    losses, arrivals = all_run_lengths(lost)
    return losses if of else arrivals


def all_run_lengths(lost: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the lengths of the runs of losses and of the runs of arrivals, in order."""
    if not lost.size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    changes = np.flatnonzero(lost[1:] != lost[:-1])
    lengths = np.diff(np.r_[-1, changes, lost.size - 1])
    first, second = lengths[::2], lengths[1::2]
    return (first, second) if lost[0] else (second, first)
