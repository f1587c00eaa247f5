"""Rates over time in the format of mahimahi.

A trace has one line per opportunity to send 1504 bytes, a time in integer milliseconds; equal times
are several packets in that millisecond. The result has the mean rate with an interval, its
variation and the outages. A scenario can use the mean or replay the recording.

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
from lasthop.evaluating.fit.series import Series
from lasthop.evaluating.statistics import batch_means
from lasthop.scenarios.files import quoted, read_bytes

__all__ = ["PACKET_BYTES", "Rates", "read_rates"]

PACKET_BYTES = 1504
BIN_S = 0.1
OUTAGE_S = 0.5
LEAST_S = 10.0
# Maximum duration (one week), and pattern of valid lines.
MOST_MS = 7 * 86_400_000
DIGITS = re.compile("[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Rates:
    """Statistics of a trace of sending opportunities.

    Attributes:
        bins_bps: Rate in each interval of 100 ms, in bit/s.
        mean_bps: Mean rate.
        ci95_bps: Half-width of the 95 % confidence interval of the mean, by batch means.
        deciles_bps: 10th, 50th and 90th percentile of the rate over 100 ms.
        outages_s: Durations of pauses of at least 0.5 s.
        duration_s: Duration of the trace.
        source: Name of the file.
        warnings: Limitations of the mean as a model.
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
    def series(self) -> Series:
        """The rate over time, in intervals of 100 ms."""
        times = np.asarray(np.arange(self.bins_bps.size) * BIN_S, dtype=np.float64)
        return Series(times, self.bins_bps, "rate", self.source, BIN_S)

    @property
    def rate(self) -> str:
        """Line for a scenario: the mean, or the recording if the mean is not sufficient."""
        if not self.warnings:
            return f'rate = "{self.mean_bps:.6g} bps"'
        return f'rate = {{ kind = "trace", file = {json.dumps(self.source)}, format = "mahimahi" }}'


def read_rates(path: str | Path) -> Rates:
    """Reads a trace.

    Raises:
        FitError: If a line is not a time, if times decrease, or if the trace is shorter than 10 s.
        OSError: If it cannot be read.
    """
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FitError(
            f"{path}: invalid text ({error.reason} at byte {error.start}): "
            "expected a time in integer milliseconds per line"
        ) from None
    times = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not DIGITS.fullmatch(line.strip()) or int(line) > MOST_MS:
            raise FitError(
                f"{path}:{number}: {quoted(line)}: expected a time in integer "
                f"milliseconds, up to {MOST_MS}"
            )
        times.append(int(line))
    at = np.array(times, dtype=np.float64) / 1000.0
    if at.size and (np.diff(at) < 0.0).any():
        raise FitError(
            f"{path}:{int(np.argmax(np.diff(at) < 0)) + 2}: the time is before the previous one: "
            "expected times in ascending order"
        )
    if not at.size or at[-1] < LEAST_S:
        raise FitError(
            f"{path}: duration {at[-1] if at.size else 0:g} s: expected at least {LEAST_S:g} s"
        )
    # Whole tenths of a second only.
    edges = np.arange(int(at[-1] / BIN_S) + 1) * BIN_S
    bins = np.histogram(at[at < edges[-1]], edges)[0] * PACKET_BYTES * 8.0 / BIN_S
    pauses = np.diff(np.r_[0.0, at])
    return _rates(bins, pauses[pauses >= OUTAGE_S], float(at[-1]), str(path))


def _rates(
    bins: NDArray[np.float64], outages: NDArray[np.float64], duration_s: float, source: str
) -> Rates:
    mean = batch_means(bins, cut=0)
    low, middle, high = (float(value) for value in np.quantile(bins, [0.1, 0.5, 0.9]))
    warnings = []
    if bins.std() > 0.3 * bins.mean():
        warnings.append(
            f"the standard deviation of the rate over 100 ms is "
            f"{100 * bins.std() / bins.mean():.0f} % of its mean: a constant rate does not "
            "describe it; the name of the recording is relative to the scenario's file"
        )
    if outages.size:
        warnings.append(
            f"the link had {outages.size} outages of up to {outages.max():.3g} s, which "
            "a constant rate does not have"
        )
    return Rates(
        bins,
        float(bins.mean()),
        mean.ci95,
        (low, middle, high),
        outages,
        duration_s,
        source,
        tuple(warnings),
    )
