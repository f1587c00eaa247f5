"""Compare profile `linux` with a Linux kernel over the same link, cell by cell.

Usage: python tools/compare_kernel.py [--cells PATTERN] [--replications 30]

tools/kernel/README.md describes the measurement of the kernel. PATTERN is a shell pattern on names
such as `cubic/sack/raw/5.0` (congestion control, SACK, link protocol, frame loss in %).

A goodput passes within 5 %, or if each mean is inside the other's 95 % interval. Timeouts, tail
loss probes and retransmissions per run pass within 20 %, or if each mean is inside the other's
interval. The table has no intervals for the kernel's counts: they are assumed to be as wide as with
an equal number of our runs. The exit code is 1 if a cell fails.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import csv
import fnmatch
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from scipy import stats

import lasthop

TABLE = Path(__file__).resolve().parent / "kernel" / "goodput.csv"
GOODPUT_TOLERANCE = 0.05
COUNT_TOLERANCE = 0.20
LINK = {
    "raw": 'kind = "raw"',
    "selective-repeat": 'kind = "selective-repeat", window = 32, timeout = "78 ms"',
    "go-back-n": 'kind = "go-back-n", window = 32, reject = true',
    "karn-rlp": 'kind = "karn-rlp"',
    "xor-fec": 'kind = "xor-fec"',
}
#: Our metric and the column of the table; the kernel's `TCPTimeouts` are those of the sender.
COUNTS = {
    "opener_timeouts": "timeouts_per_run",
    "tail_probes": "tail_probes_per_run",
    "retransmissions": "retransmissions_per_run",
}


@dataclass(frozen=True)
class Estimate:
    """A mean with the half width of its 95 % interval."""

    mean: float
    ci95: float

    def holds(self, other: Estimate) -> bool:
        """Whether the other mean is inside this interval."""
        return abs(self.mean - other.mean) <= self.ci95

    def agrees(self, other: Estimate, tolerance: float) -> bool:
        """Whether the means agree within the tolerance, or each is in the other's interval."""
        difference = abs(self.mean - other.mean)
        return difference <= tolerance * abs(other.mean) or (
            self.holds(other) and other.holds(self)
        )


def half_width(values: list[float], n: int) -> float:
    """Half-width of the 95 % interval of `n` runs with the variance of these values."""
    if len(values) < 2 or n < 2:
        return 0.0
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)


def scenario(row: dict[str, str]) -> str:
    """The scenario of a cell, as TOML."""
    sack = "true" if row["sack"] == "1" else "false"
    loss = float(row["frame_loss_percent"])
    return f"""
        name = "kernel"
        [link.wireless]
        between = ["server", "client"]
        rate = "2 Mbps"
        delay = "20 ms"
        queue = "50 packets"
        protocol = {{ {LINK[row["link"]]} }}
        errors = {{ kind = "uniform", loss = "{loss} %" }}
        [flow.transfer]
        from = "server"
        to = "client"
        app = {{ kind = "file", size = "1 MB" }}
        [flow.transfer.transport]
        kind = "tcp"
        profile = "linux"
        variant = "{row["congestion"]}"
        sack = {sack}
        timestamps = false
        segmentation_offload = false
        [run]
        seed = 1
    """


def measure(row: dict[str, str], replications: int) -> dict[str, list[float]]:
    """Results of our runs of a cell, one value per replication."""
    found = lasthop.run(lasthop.Scenario.from_toml(scenario(row)), replications=replications)
    values = {"goodput": [bps / 1e6 for bps in found.samples("flow.transfer.goodput_bps", 0)]}
    for count in COUNTS:
        values[count] = [float(value) for value in found.samples(f"flow.transfer.{count}", 0)]
    return values


def compare(row: dict[str, str], replications: int) -> tuple[bool, str]:
    """Whether a cell passes, and its line of the table."""
    values = measure(row, replications)
    runs = int(row["runs"])
    kernel = Estimate(float(row["goodput_mbps"]), float(row["ci95_mbps"]))
    goodput = values["goodput"]
    ours = Estimate(sum(goodput) / len(goodput), half_width(goodput, len(goodput)))
    passes = ours.agrees(kernel, GOODPUT_TOLERANCE)
    cells = [
        f"{kernel.mean:6.3f} {ours.mean:6.3f} {100 * (ours.mean / kernel.mean - 1):+6.1f}%"
        f"{' ' if passes else '*'}"
    ]
    for count, column in COUNTS.items():
        theirs = Estimate(float(row[column]), half_width(values[count], runs))
        mean = sum(values[count]) / len(values[count])
        mine = Estimate(mean, half_width(values[count], len(values[count])))
        agrees = mine.agrees(theirs, COUNT_TOLERANCE)
        passes &= agrees
        cells.append(f"{theirs.mean:6.2f} {mine.mean:6.2f}{' ' if agrees else '*'}")
    return passes, "  ".join(cells)


def name(row: dict[str, str]) -> str:
    """The name of a cell."""
    sack = "sack" if row["sack"] == "1" else "nosack"
    return f"{row['congestion']}/{sack}/{row['link']}/{row['frame_loss_percent']}"


def main() -> int:
    """Prints the table; returns the number of cells that agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", default="*")
    parser.add_argument("--replications", type=int, default=30)
    arguments = parser.parse_args()
    with TABLE.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if fnmatch.fnmatch(name(row), arguments.cells)]
    print("cell: kernel and ours; * differs")
    print(f"{'':34}{'goodput, Mbps':22}{'timeouts':15}{'tail probes':15}{'retransmissions':15}")
    passed = skipped = 0
    for row in rows:
        try:
            passes, line = compare(row, arguments.replications)
        except lasthop.ScenarioError as error:
            print(f"{name(row):34}not run: {error}")
            skipped += 1
            continue
        passed += passes
        print(f"{name(row):34}{line}", flush=True)
    print(f"{passed} of {len(rows)} cells agree, {skipped} not run")
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
