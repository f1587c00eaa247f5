"""Compare Snoop with ns-2's Snoop: both simulators lose the same packets.

Usage: .venv/bin/python tools/ns2/snoop_losses.py

Prints how much longer the transfer of 1000 packets takes here than in ns-2, in milliseconds, for
twelve patterns per loss rate.
"""

# ruff: noqa: S311, S603, T201

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from pathlib import Path

import lasthop

HERE = Path(__file__).resolve().parent
PACKETS = 1000
PATTERNS = 12
RATES = ((0.02, 0.0), (0.0, 0.05), (0.02, 0.02), (0.05, 0.05), (0.1, 0.1))


def ns2(snoop: bool, down: list[int], up: list[int]) -> float:
    """Duration of a transfer in ns-2, in seconds."""
    lost = [f"drop={','.join(map(str, down))}", f"dropack={','.join(map(str, up))}"]
    command = ["ns", str(HERE / "snoop.tcl"), "p=0", f"snoop={snoop:d}", f"packets={PACKETS}"]
    done = subprocess.run([*command, *lost], capture_output=True, text=True, check=True)
    found = re.search(r"why=done .* sec=(\S+)", done.stdout)
    if not found:
        raise SystemExit(
            f"{' '.join(command)}: unexpected output {done.stdout!r}: the run did not finish"
        )
    return float(found[1])


def ours(snoop: bool, down: list[int], up: list[int], folder: Path) -> float:
    """Duration of the same transfer here, in seconds."""
    errors = []
    for name, lost in (("down", down), ("up", up)):
        frames = range(1, max(lost, default=1) + 1)
        record = "".join("1\n" if frame in lost else "0\n" for frame in frames)
        (folder / name).write_text(record)
        errors.append({"kind": "trace", "file": str(folder / name), "at_end": "clean"})
    transport = {"kind": "tcp", "variant": "reno", "profile": "ns-2", "ack_size": "40 B"}
    link = {"rate": "2 Mbps", "delay": "3 ms", "header": "64 B", "errors": errors[0]}
    agent = {"agent": {"kind": "snoop", "at": "ap", "quirks": "ns-2"}} if snoop else {}
    scenario = {
        "name": "snoop",
        "link": {
            "wired": {"between": ["server", "ap"], "rate": "10 Mbps", "delay": "1 ms"},
            "wireless": {
                "between": ["ap", "client"],
                **link,
                "reverse": {"errors": errors[1]},
                **agent,
            },
        },
        "flow": {
            "transfer": {
                "from": "server",
                "to": "client",
                "transport": {**transport, "segment": "1000 B", "header": "0 B"},
                "app": {"kind": "file", "size": f"{PACKETS * 1000} B"},
            }
        },
    }
    results = lasthop.run(scenario, replications=1)
    return float(results.wide["flow.transfer.duration_s"][0])


def main() -> None:
    """Prints a line for each loss rate."""
    with tempfile.TemporaryDirectory() as folder:
        for snoop in (True, False):
            for down_rate, up_rate in RATES:
                draw = random.Random(7)
                late = []
                for _ in range(PATTERNS):
                    frames = range(3, PACKETS + 300)
                    down = [frame for frame in frames if draw.random() < down_rate]
                    up = [frame for frame in frames if draw.random() < up_rate]
                    mine = ours(snoop, down, up, Path(folder))
                    late.append(1e3 * (mine - ns2(snoop, down, up)))
                agent = "Snoop" if snoop else "none"
                shown = " ".join(f"{value:.1f}" for value in late)
                print(f"{agent}, {down_rate:g} down, {up_rate:g} up: {shown}", flush=True)


if __name__ == "__main__":
    main()
