"""Compares QUIC of a real program over live links with the simulator: goodput by link and loss.

    python tools/live/quic.py [TRANSFERS]     default: 20 for each cell

Builds `examples/live/quic` (quinn with TLS 1.3), sends a file of 4 MB in every cell over
`lasthop live`, simulates the same transfers, and prints a Markdown table. Replication k has the
same losses in both, frame by frame. The exit code is 1 if the means of a cell differ by more than
5 % and by more than the 95 % confidence interval of the paired difference.
"""

# ruff: noqa: S603, S607, T201

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lasthop import run
from lasthop.evaluating.statistics import difference, interval
from lasthop.running.live.session import LiveError, Program, Session
from lasthop.scenarios.scenario import Scenario

__all__ = ["LINKS", "LOSSES", "build", "scenario", "transfer"]

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "live" / "quic"
LINKS = {"raw": {"kind": "raw"}, "selective repeat": {"kind": "selective-repeat", "window": 256}}
LOSSES = ("0 %", "1 %", "5 %")
SIZE = 4_000_000
# Maximum relative difference of goodputs that agree.
TOLERANCE = 0.05


def build() -> Path:
    """Builds the program; returns its path.

    Raises:
        subprocess.CalledProcessError: If cargo fails.
    """
    target = ROOT / "target" / "quic-live"
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "--target-dir", target],
        cwd=EXAMPLE,
        check=True,
    )
    return target / "release" / "quic-live"


def scenario(link: str, loss: str, size: int = SIZE) -> Scenario:
    """A file over QUIC through a link of 20 Mbps with an RTT of 40 ms."""
    return Scenario(
        {
            "name": f"quic over {link}, {loss}",
            "link": {
                "radio": {
                    "between": ["client", "server"],
                    "rate": "20 Mbps",
                    "delay": "20 ms",
                    "queue": "100 packets",
                    "protocol": LINKS[link],
                    "errors": {"kind": "uniform", "loss": loss},
                }
            },
            "flow": {
                "file": {
                    "from": "client",
                    "to": "server",
                    "transport": {"kind": "quic", "variant": "cubic"},
                    "app": {"kind": "file", "size": f"{size} B"},
                }
            },
            "run": {"seed": 20261127},
        }
    )


def transfer(program: Path, cell: Scenario, replication: int, size: int = SIZE) -> dict[str, Any]:
    """Runs one live transfer; returns the program's result and the metrics of the links.

    Raises:
        LiveError: If the transfer did not finish.
    """
    with tempfile.TemporaryFile() as output:
        session = Session(
            cell,
            [
                Program("server", [str(program), "serve"]),
                Program("client", [str(program), "send", "server", str(size)]),
            ],
            replication=replication,
            output=output.fileno(),
        )
        messages = list(session.run())
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines or messages[-1]["code"] != 0:
        raise LiveError(f"replication {replication}: the transfer failed: {text.strip()[-300:]}")
    return {**json.loads(lines[0]), **dict(messages[-1]["metrics"])}


def main() -> int:
    """Runs all cells."""
    transfers = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    program = build()
    print("| link | loss | live, Mbps | simulated, Mbps | difference |")
    print("|---|---|---|---|---|")
    apart = 0
    for link in LINKS:
        for loss in LOSSES:
            cell = scenario(link, loss)
            lives = [transfer(program, cell, number) for number in range(transfers)]
            found = run(cell, replications=transfers, jobs=1)
            live = [each["goodput_bps"] / 1e6 for each in lives]
            simulated = [value / 1e6 for value in found.samples("flow.file.goodput_bps", 0)]
            own, other = interval(live), interval(simulated)
            gap = difference(simulated, live)
            share = gap.mean / own.mean
            agrees = abs(share) <= TOLERANCE or abs(gap.mean) <= gap.ci95
            apart += not agrees
            print(
                f"| {link} | {loss} | {own.mean:.2f} ± {own.ci95:.2f} "
                f"| {other.mean:.2f} ± {other.ci95:.2f} "
                f"| {100 * share:+.1f} %{'' if agrees else ' *'} |",
                flush=True,
            )
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
