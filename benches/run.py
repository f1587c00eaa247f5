"""Print the cost of a replication here and in ns-2, and of a frame in each link protocol.

Usage: python benches/run.py [--rounds 5]

Builds and runs `crates/lasthop/benches/study.rs`. If `ns` (ns-2) is installed, the same scenarios
are run there with its fastest settings (slim=1 sched=Heap); the processor time of the whole process
counts. Both alternate, and medians are printed. Then `crates/lasthop/examples/link_speed.rs` is
run; with --links, only that. If valgrind is installed, `instructions.py` counts the instructions of
a replication as well, and those of networks as they grow. If the package is built, `start.py`
measures the start of short commands, `live_packets.py` the packets of live links, and `campaign.py`
the fraction of a sweep's processor time that its replications use. The date, the machine and its
load are printed above the tables. Standard library only.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import instructions

ROOT = Path(__file__).resolve().parent.parent
NS2 = ROOT / "tools" / "ns2"

SETTING = ["tcp=Reno", "err=uniform", "p=0.025", "sched=Heap", "slim=1"]
FILE = ["ft.tcl", *SETTING, "pkt=252", "minrto=1"]
WEB = ["web.tcl", *SETTING]
# Case of the Rust bench: arguments of the same case in ns-2, and the required ratio.
CASES: dict[str, tuple[list[str] | None, str]] = {
    "raw": (FILE, "25"),
    "raw-congestion": ([*FILE, "cong=1"], "80"),
    "raw-congestion-per-packet": (None, ""),
    "sr": (None, "at most 2 x raw"),
    "sr-congestion": (None, ""),
    "web": (WEB, ""),
    "web-congestion": ([*WEB, "cong=1"], ""),
    "web-sr": (None, ""),
}
# Required millions of instructions by case.
REQUIRED = {"raw": 33, "sr": 65, "raw-congestion": 42, "web-sr": 60}

# Protocols whose links must process 10 M frame events per second and core.
FAST = ("selective repeat", "Karn RLP", "out-of-sequence RLP")


def processor_time(command: list[str], **options: object) -> float:
    """Run a command to its end; returns its processor time in seconds, user and system."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
    return float(usage.ru_utime + usage.ru_stime)


def ns(arguments: list[str], seed: int) -> float:
    """Time of one ns-2 process in milliseconds."""
    script, *rest = arguments
    return 1e3 * processor_time(["ns", script, *rest, f"seed={seed}"], cwd=NS2)


def lasthop() -> dict[str, tuple[float, int]]:
    """Time in milliseconds and number of events of one replication, by case."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "lasthop", "--bench", "study"]
    output = subprocess.run(
        [*command, "--", "--csv"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    rows = [line.split(",") for line in output.splitlines() if line.count(",") == 2]
    return {name: (float(milliseconds), int(events)) for name, milliseconds, events in rows}


def link_costs() -> None:
    """Print the cost of a frame event on saturated links."""
    command = ["cargo", "run", "--locked", "--quiet", "--release", "-p", "lasthop"]
    output = subprocess.run(
        [*command, "--example", "link_speed", "--", "--csv"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    print("| protocol | loss | ns per frame event | M frame events per second | asked |")
    print("|---|---|---|---|---|")
    for line in output.splitlines():
        name, loss, nanoseconds = line.split(",")
        asked = "10" if name.startswith(FAST) else ""
        rate = 1e3 / float(nanoseconds)
        print(f"| {name} | {loss} | {float(nanoseconds):.1f} | {rate:.1f} | {asked} |")


def instruction_counts() -> None:
    """Print the instructions of a replication; ratios to the hand-written loop and to `raw`."""
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: no counts of instructions.")
        return
    now = instructions.counts()
    print("| one replication | M instructions | floor = 1 | raw = 1 | asked, M |")
    print("|---|---|---|---|---|")
    for name, count in now.items():
        ratios = f"{count / now['floor']:.2f} | {count / now['raw']:.2f}"
        print(f"| {name} | {count / 1e6:.1f} | {ratios} | {REQUIRED.get(name, '')} |")
    print()
    instructions.scale(instructions.build("scale")["scale"])


# Programs that need the built package, and their arguments.
OF_PACKAGE = (["start.py"], ["live_packets.py", "--rounds", "1"], ["campaign.py", "--sweep"])


def costs_of_package() -> None:
    """Print the costs of short commands, of packets of live links, and of sweeps."""
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        print("the package is not built (`make setup`): no short commands, live links and sweeps.")
        return
    for program, *arguments in OF_PACKAGE:
        # Where live links are not permitted, the other programs run nevertheless.
        done = subprocess.run([python, ROOT / "benches" / program, *arguments], check=False)
        if done.returncode != 0:
            print(f"{program}: exit code {done.returncode}")
        print()


def machine() -> str:
    """The date, the processor, and the load of the machine."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor()
    today = datetime.date.today().isoformat()
    return f"{today}, {processor}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}:\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which medians count")
    parser.add_argument("--links", action="store_true", help="only what a frame costs")
    arguments = parser.parse_args()
    print(machine())
    if not arguments.links:
        replication_costs(arguments.rounds)
        print()
        instruction_counts()
        print()
        costs_of_package()
    link_costs()


def replication_costs(rounds: int) -> None:
    """Print the cost of a replication here and in ns-2."""
    has_ns = shutil.which("ns") is not None
    ours: dict[str, list[float]] = {name: [] for name in CASES}
    theirs: dict[str, list[float]] = {name: [] for name in CASES}
    start_up: list[float] = []
    events: dict[str, int] = {}
    for seed in range(1, rounds + 1):
        for name, (milliseconds, count) in lasthop().items():
            ours[name].append(milliseconds)
            events[name] = count
        if has_ns:
            start_up.append(1e3 * processor_time(["ns", "/dev/null"]))
            for name, (arguments, _) in CASES.items():
                if arguments:
                    theirs[name].append(ns(arguments, seed))
    heads = "one replication, lasthop ms, events, ns per event, raw = 1, ns-2 ms, ratio, asked"
    print(f"| {heads.replace(', ', ' | ')} |")
    print("|---|---|---|---|---|---|---|---|")
    raw = statistics.median(ours["raw"])
    for name, (_, asked) in CASES.items():
        own = statistics.median(ours[name])
        cells = [
            name,
            f"{own:.3f}",
            str(events[name]),
            f"{own * 1e6 / events[name]:.2f}",
            f"{own / raw:.2f}",
        ]
        if theirs[name]:
            other = statistics.median(theirs[name])
            cells += [f"{other:.1f}", f"{other / own:.1f}"]
        else:
            cells += ["", ""]
        print(f"| {' | '.join([*cells, asked])} |")
    if has_ns:
        print(f"\nns-2 start-up alone, in its figures: {statistics.median(start_up):.1f} ms.")
    else:
        print("\nns-2 is not installed (Debian: ns2): no ratios.")


if __name__ == "__main__":
    main()
