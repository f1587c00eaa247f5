"""Losses and recoveries of TCP transfers, reconstructed from a trace of both endpoints.

A transmission of a segment is *lost* if no arrival at the receiver belongs to it. Fast recovery
lasts from the first retransmission until all data sent before it is acknowledged (`recover` of RFC
6582). Recovery from a timeout is defined in the same way, starting at the timeout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from lasthop.evaluating.statistics import Floats

__all__ = ["RECOVERY", "TIMEOUT", "Transfer", "lost", "recoveries", "transfers_of"]

RECOVERY, TIMEOUT = 0, 1
"""Kinds of recoveries: by retransmission, after a timeout."""


@dataclass
class Transfer:
    """Segments sent and ACKs received by one endpoint, in order of time."""

    sent: Floats
    sequence: Floats
    size: Floats
    arrived: Floats = field(default_factory=lambda: np.empty(0))
    arrived_sequence: Floats = field(default_factory=lambda: np.empty(0))

    def repeated(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Mask of the retransmitted segments."""
        ends = np.concatenate([[-1.0], self.sequence + self.size])
        return self.sequence < np.maximum.accumulate(ends)[:-1]


def _peer(entity: str) -> str:
    """Returns the other endpoint of a connection."""
    if entity.endswith(" opener"):
        return entity.removesuffix("opener") + "acceptor"
    if entity.endswith(" acceptor"):
        return entity.removesuffix("acceptor") + "opener"
    if entity.endswith(".receiver"):
        return entity.removesuffix(".receiver")
    return f"{entity}.receiver"


def transfers_of(frame: pl.DataFrame) -> dict[str, Transfer]:
    """Returns the data segments sent by each endpoint; `frame` has the events of a trace."""
    data = frame.filter(
        pl.col("event").is_in(["segment_sent", "segment_received"]), pl.col("value") > 0
    )
    parts = {
        (str(key[0]), str(key[1])): part
        for key, part in data.group_by(["entity", "event"], maintain_order=True)
    }
    transfers = {}
    for (entity, event), part in parts.items():
        if event != "segment_sent":
            continue
        own = Transfer(*(part[name].to_numpy() for name in ("time_s", "sequence", "value")))
        there = parts.get((_peer(entity), "segment_received"))
        if there is not None:
            own.arrived = there["time_s"].to_numpy()
            own.arrived_sequence = there["sequence"].to_numpy()
        transfers[entity] = own
    return dict(sorted(transfers.items()))


def lost(own: Transfer, end: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns a mask of transmissions without an arrival, excluding those in flight at `end`."""
    missed = np.zeros(len(own.sent), dtype=bool)
    sends: dict[float, list[int]] = {}
    for index, sequence in enumerate(own.sequence.tolist()):
        sends.setdefault(sequence, []).append(index)
    arrivals: dict[float, list[float]] = {}
    for time, sequence in zip(own.arrived.tolist(), own.arrived_sequence.tolist(), strict=True):
        arrivals.setdefault(sequence, []).append(time)
    single = [
        arrivals[sequence][0] - own.sent[copies[0]]
        for sequence, copies in sends.items()
        if len(copies) == 1 and len(arrivals.get(sequence, ())) == 1
    ]
    shortest, longest = (min(single), max(single)) if single else (0.0, 0.0)
    for sequence, copies in sends.items():
        times = arrivals.get(sequence, [])
        if len(times) == len(copies):
            continue
        missing = set(copies)
        # The latest arrival belongs to the latest transmission that can have arrived by then.
        left = list(copies)
        for time in reversed(times):
            fitting = [index for index in left if own.sent[index] <= time - shortest * 0.999]
            chosen = fitting[-1] if fitting else left[0]
            missing.discard(chosen)
            left = [index for index in left if index < chosen]
            if not left:
                break
        for index in missing:
            missed[index] = own.sent[index] < end - longest
    return missed


def recoveries(own: Transfer, events: pl.DataFrame, end: float) -> list[tuple[float, float, int]]:
    """Returns recoveries from losses: start, end, and `RECOVERY` or `TIMEOUT`.

    Args:
        own: Segments of the sender.
        events: All events of the sender.
        end: Time of the end of the trace.
    """
    repeated = own.repeated()
    heard = events.filter(event="ack_received")
    ack_times, acks = heard["time_s"].to_numpy(), heard["sequence"].to_numpy()
    timeouts = events.filter(event="timeout")["time_s"].to_numpy()
    highest = np.maximum.accumulate(own.sequence + own.size) if len(own.sent) else own.sent
    starts = [(time, RECOVERY) for time in own.sent[repeated].tolist()]
    starts += [(time, TIMEOUT) for time in timeouts.tolist()]
    phases: list[tuple[float, float, int]] = []
    until = -math.inf
    for start, kind in sorted(starts, key=lambda one: (one[0], -one[1])):
        if start < until and kind == RECOVERY:
            continue
        place = int(np.searchsorted(own.sent, start, side="right")) - 1
        recover = highest[place] if place >= 0 else 0.0
        # ACKs are cumulative: find the first later one that covers `recover`.
        since = int(np.searchsorted(ack_times, start, side="right"))
        covering = np.flatnonzero(acks[since:] >= recover)
        finish = float(ack_times[since + covering[0]]) if covering.size else end
        if phases and start < until:
            # A timeout ends the recovery that it interrupts.
            phases[-1] = (phases[-1][0], start, phases[-1][2])
        phases.append((start, finish, kind))
        until = finish
    return phases
