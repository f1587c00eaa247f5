"""Rates over time, as mahimahi records them: what a link could have sent, and how that varied.

A trace has one line for each opportunity to send 1504 bytes, a time in whole milliseconds; several
lines with one time are several packets in it. This says the mean with an interval, how far the rate
strays from it, and how long the link stood still. A scenario can have the mean, or the recording.

Source: R. Netravali et al., "Mahimahi: accurate record-and-replay for HTTP", USENIX ATC 2015.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.records import FitError
from lasthop.evaluating.statistics import batch_means
from lasthop.scenarios.files import quoted, read_bytes

__all__ = ["PACKET_BYTES", "Rates", "read_rates"]

PACKET_BYTES = 1504
BIN_S = 0.1
OUTAGE_S = 0.5
LEAST_S = 10.0
# A week, and lines that are such numbers.
MOST_MS = 7 * 86_400_000
DIGITS = re.compile("[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Rates:
    """What a trace of opportunities says.

    Attributes:
        bins_bps: Rate in each tenth of a second, in bit/s.
        mean_bps: Mean rate.
        ci95_bps: Half-width of its 95 % interval, by batch means.
        deciles_bps: Rates that 10, 50 and 90 % of the tenths of a second stay below.
        outages_s: Lengths of pauses of at least half a second.
        duration_s: Of the trace.
        source: The name of the file.
        warnings: What the mean alone does not say.
    """

    bins_bps: NDArray[np.float64]
    mean_bps: float
    ci95_bps: float
    deciles_bps: tuple[float, float, float]
    outages_s: NDArray[np.float64]
    duration_s: float
    source: str
    warnings: tuple[str, ...]

    @property
    def rate(self) -> str:
        """The line of a scenario: the mean, or the recording where that alone does not do."""
        if not self.warnings:
            return f'rate = "{self.mean_bps:.6g} bps"'
        return f'rate = {{ kind = "trace", file = {json.dumps(self.source)}, format = "mahimahi" }}'


def read_rates(path: str | Path) -> Rates:
    """Reads a trace.

    Raises:
        FitError: If a line is not a time, if times go back, or if the trace is shorter than 10 s.
        OSError: If it cannot be read.
    """
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FitError(
            f"{path}: found bytes that are not text ({error.reason} at byte {error.start}); "
            "allowed: a time in whole milliseconds per line"
        ) from None
    times = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not DIGITS.fullmatch(line.strip()) or int(line) > MOST_MS:
            raise FitError(
                f"{path}: line {number}: found {quoted(line)}; allowed: a time in whole "
                f"milliseconds, up to {MOST_MS}"
            )
        times.append(int(line))
    at = np.array(times, dtype=np.float64) / 1000.0
    if at.size and (np.diff(at) < 0.0).any():
        raise FitError(
            f"{path}: line {int(np.argmax(np.diff(at) < 0)) + 2}: found a time before the one that "
            "precedes it; allowed: times in order"
        )
    if not at.size or at[-1] < LEAST_S:
        raise FitError(
            f"{path}: found {at[-1] if at.size else 0:g} s; allowed: at least {LEAST_S:g} s"
        )
    # Whole tenths of a second only.
    edges = np.arange(int(at[-1] / BIN_S) + 1) * BIN_S
    bins = np.histogram(at[at < edges[-1]], edges)[0] * PACKET_BYTES * 8.0 / BIN_S
    mean = batch_means(bins, cut=0)
    pauses = np.diff(np.r_[0.0, at])
    outages = pauses[pauses >= OUTAGE_S]
    low, middle, high = (float(value) for value in np.quantile(bins, [0.1, 0.5, 0.9]))
    warnings = []
    if bins.std() > 0.3 * bins.mean():
        warnings.append(
            f"the rate varies by {100 * bins.std() / bins.mean():.0f} % of its mean between tenths "
            "of a second: the line replays the recording, named relative to the scenario's file"
        )
    if outages.size:
        warnings.append(
            f"the link stood still {outages.size} times, {outages.max():.3g} s at most: the line "
            "replays the recording"
        )
    return Rates(
        bins,
        float(bins.mean()),
        mean.ci95,
        (low, middle, high),
        outages,
        float(at[-1]),
        str(path),
        tuple(warnings),
    )
