"""Print the processor time of short commands as multiples of that of `python -c pass`.

Usage: .venv/bin/python benches/start.py [--rounds 15]

Each command alternates with `python -c pass`; medians of the processor time (user and system) of
the whole process count. Needs the built package. Standard library only.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCENARIO = """
name = "tiny"

[link.wireless]
between = ["server", "client"]
rate = "2 Mbps"
delay = "10 ms"

[flow.transfer]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "reno" }
app = { kind = "file", size = "50 kB" }

[run]
seed = 1
"""
# Arguments of Python, and the maximum multiple.
COMMANDS = {
    "lasthop --help": (["-m", "lasthop", "--help"], 6.0),
    "lasthop check": (["-m", "lasthop", "check", "tiny.toml"], 8.0),
    "lasthop run, 1 replication": (
        ["-m", "lasthop", "run", "tiny.toml", "--replications", "1"],
        12.0,
    ),
    "import lasthop": (["-c", "import lasthop"], 1.5),
}


def processor_time(arguments: list[str], folder: Path) -> float:
    """Run Python to its end; returns its processor time in seconds."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: exit code {process.returncode}")
    return float(usage.ru_utime + usage.ru_stime)


def print_multiples(rounds: int) -> None:
    """Measure and print."""
    print("| start | ms | `python -c pass` = 1 | required |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tiny.toml").write_text(SCENARIO, encoding="utf-8")
        for label, (arguments, most) in COMMANDS.items():
            processor_time(arguments, folder)  # the files are in memory afterwards
            pairs = [
                (processor_time(arguments, folder), processor_time(["-c", "pass"], folder))
                for _ in range(rounds)
            ]
            own = 1e3 * statistics.median(pair[0] for pair in pairs)
            multiple = statistics.median(pair[0] / pair[1] for pair in pairs)
            print(f"| {label} | {own:.0f} | {multiple:.1f} | at most {most:g} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds of which medians count")
    print_multiples(parser.parse_args().rounds)
