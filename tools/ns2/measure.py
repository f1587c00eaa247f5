"""Measure cells with stock ns-2 and store their means and 95 % intervals.

Usage: python3 tools/ns2/measure.py OUT.csv [--app ft|web] [--tcp reno,sack]
           [--error none,uniform:0.025,two:0.1] [--cong 0,1] [--topo LAN,WAN] [--seeds 30]

Cells in OUT.csv are skipped, so that an interrupted measurement resumes.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import csv
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

HERE = Path(__file__).resolve().parent
COLUMNS = ("app", "tcp", "error", "congestion", "topology", "seeds", "n", "metric", "mean", "ci95")
METRICS = {
    "ft": ("kbps", "sent", "rexmt", "rto", "cuts"),
    "web": ("kbps", "pages", "replies"),
}
NS_AGENT = {"reno": "Reno", "newreno": "Newreno", "sack": "Sack1"}
# Student t, 97.5 %, by degrees of freedom, so that this file does not require scipy.
T975 = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262,
    10: 2.228, 11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110,
    18: 2.101, 19: 2.093, 20: 2.086, 21: 2.080, 22: 2.074, 23: 2.069, 24: 2.064, 25: 2.060,
    26: 2.056, 27: 2.052, 28: 2.048, 29: 2.045, 30: 2.042,
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A combination of parameters of the reference."""

    app: str
    tcp: str
    error: str
    congestion: int
    topology: str

    def arguments(self, seed: int) -> list[str]:
        """The ns-2 command line for one replication."""
        kind, _, value = self.error.partition(":")
        args = [
            f"tcp={NS_AGENT[self.tcp]}",
            f"err={kind}",
            f"cong={self.congestion}",
            f"topo={self.topology}",
            f"seed={seed}",
            "minrto=1",
            "sched=Heap",
            "slim=1",
        ]
        if kind == "uniform":
            args.append(f"p={value}")
        elif kind == "two":
            args.append(f"bad={value}")
        if self.app == "ft":
            args.append("pkt=252")
        return ["ns", str(HERE / f"{self.app}.tcl"), *args]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and the half width of its 95 % Student t interval."""
    n = len(values)
    if n < 2:
        return fmean(values), math.nan
    t = T975[n - 1] if n <= 31 else 1.96 + 2.4 / (n - 1)
    return fmean(values), t * stdev(values) / math.sqrt(n)


def run_once(cell: Cell, seed: int) -> dict[str, float]:
    """Metrics in the result line of one ns-2 replication."""
    command = cell.arguments(seed)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    fields = dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
    if done.returncode != 0 or fields.get("why") != "done":
        message = f"ns-2 failed: {' '.join(command)}\n{done.stdout}{done.stderr}"
        raise RuntimeError(message)
    return {metric: float(fields[metric]) for metric in METRICS[cell.app]}


def measure(cell: Cell, seeds: int) -> Iterator[list[str]]:
    """The CSV rows of one cell."""
    runs = [run_once(cell, seed) for seed in range(1, seeds + 1)]
    for metric in METRICS[cell.app]:
        mean, ci = interval([run[metric] for run in runs])
        yield [
            cell.app,
            cell.tcp,
            cell.error,
            str(cell.congestion),
            cell.topology,
            f"1-{seeds}",
            str(seeds),
            metric,
            f"{mean:.4f}",
            f"{ci:.4f}",
        ]


def read_cells(path: Path) -> set[Cell]:
    """The cells in a reference file."""
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {
            Cell(r["app"], r["tcp"], r["error"], int(r["congestion"]), r["topology"])
            for r in csv.DictReader(file)
        }


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--app", default="ft", choices=sorted(METRICS))
    parser.add_argument("--tcp", default="reno,newreno,sack")
    parser.add_argument(
        "--error", default="none,uniform:0.015,uniform:0.025,uniform:0.054,uniform:0.098"
    )
    parser.add_argument("--cong", default="0")
    parser.add_argument("--topo", default="LAN")
    parser.add_argument("--seeds", type=int, default=30)
    args = parser.parse_args()
    if shutil.which("ns") is None:
        print("ns-2 is not installed (Debian package ns2)", file=sys.stderr)
        return 1
    os.nice(10)
    have = read_cells(args.out)
    new = not args.out.exists()
    with args.out.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        for topo in args.topo.split(","):
            for cong in args.cong.split(","):
                for error in args.error.split(","):
                    for tcp in args.tcp.split(","):
                        cell = Cell(args.app, tcp, error, int(cong), topo)
                        if cell in have:
                            continue
                        for row in measure(cell, args.seeds):
                            writer.writerow(row)
                        file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
