"""Print the cost of a packet of a live link when packets are sparse, and when they are not.

Usage: .venv/bin/python benches/live_packets.py [--rounds 3] [--rate 500] [--seconds 4] [--spin 0]
       [--calls] [--relay] [PYTHON...]

A program at one host sends UDP datagrams of 500 B at a constant rate to a program at the other
host, which compares their time of arrival with the time of sending and the delay of the link. The
columns are the processor time of the driver per packet (user and kernel) and its waits per packet,
both while the programs run, and the delay that it adds. The last case sends without pause. With
the paths of several Python interpreters, whose packages differ, all are measured in alternation.
--spin is the time in microseconds during which the driver polls before a delivery. --calls counts
system calls with strace in a separate run. --relay also measures `relay.c`, which only reads,
delays and writes packets: what the system calls and waits of any driver cost on the machine. Needs
the built package, and permission to create namespaces.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import relay

# Name of the minimal relay in the column of packages.
RELAY = "relay.c"
SCENARIO = """
name = "sparse"

[link.wireless]
between = ["server", "client"]
rate = "{rate}"
delay = "{delay}"
protocol = "{protocol}"

[run]
duration = "1 s"
seed = 1
"""

SENDER = """
import os, socket, struct, sys, time
rate, seconds = float(sys.argv[1]), float(sys.argv[2])
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.connect((sys.argv[3], 9000))
open("started", "w").close()
start = time.monotonic()
if rate:
    for count in range(int(rate * seconds)):
        time.sleep(max(0.0, start + count / rate - time.monotonic()))
        out.send(struct.pack("=q", time.monotonic_ns()) + bytes(464))
else:
    out.setsockopt(17, 103, 472)  # UDP_SEGMENT: the kernel makes datagrams of 472 B
    while time.monotonic() < start + seconds:
        out.send(bytes(472 * 100))
while not os.path.exists("added.json") and time.monotonic() < start + seconds + 10:
    time.sleep(0.05)
"""

RECEIVER = """
import json, os, socket, struct, sys, time
path, delay = sys.argv[1], float(sys.argv[2])
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("0.0.0.0", 9000))
added = []
own.settimeout(0.1)
last = None
while last is None or time.monotonic() < last + 0.3:
    try:
        data = own.recv(1500)
    except TimeoutError:
        continue
    last = time.monotonic()
    sent, = struct.unpack("=q", data[:8])
    if sent:
        added.append(time.monotonic_ns() - sent - delay)
with open("added.part", "w") as file:
    json.dump(added, file)
os.rename("added.part", path)
"""


@dataclass(frozen=True)
class Case:
    """A link, and the rate of its packets; 0: as fast as possible."""

    name: str
    protocol: str
    rate: str
    delay: str
    # Nominal delay of a datagram of 500 B, in nanoseconds.
    nominal: float
    is_sparse: bool = True


CASES = [
    Case("raw, unlimited", "raw", "unlimited", "0.1 ms", 0.1e6),
    Case("raw, 10 Mbps, 5 ms", "raw", "10 Mbps", "5 ms", 5.4e6),
    Case("selective repeat, 10 Mbps, 5 ms", "selective-repeat", "10 Mbps", "5 ms", 5.4e6),
    Case("raw, saturated", "raw", "unlimited", "0.1 ms", 0.1e6, is_sparse=False),
]


@dataclass
class Cost:
    """Results of one run."""

    processor: float  # seconds of the driver per packet
    packets: float  # per second
    waits: float  # voluntary context switches per packet
    added: list[float]  # nanoseconds
    calls: str = ""


def driver_of(process: int) -> int | None:
    """Find the driver: the grandchild of the command whose last argument is its role."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            stat = (path.parent / "stat").read_text().rpartition(")")[2].split()
            launcher = (Path("/proc") / stat[1] / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[-2:-1] and words[-2].endswith(b"driver") and launcher[1] == str(process):
            return int(path.parent.name)
    return None


#: Time, processor time in seconds and voluntary context switches of a process.
Use = tuple[float, float, int]


def use_of(process: int) -> Use:
    """Use of a process until now."""
    folder = Path(f"/proc/{process}")
    lines = (folder / "status").read_text().splitlines()
    waits = next(line.split()[1] for line in lines if line.startswith("voluntary"))
    processor = int((folder / "schedstat").read_text().split()[0])
    return time.monotonic(), 1e-9 * processor, int(waits)


def write_programs(
    folder: Path, case: Case, options: argparse.Namespace, to: str
) -> list[list[str]]:
    """Write the programs; returns the commands of the receiver and of the sender."""
    (folder / "sender.py").write_text(SENDER, encoding="utf-8")
    (folder / "receiver.py").write_text(RECEIVER, encoding="utf-8")
    python = [sys.executable, "-S"]
    rate = options.rate if case.is_sparse else 0.0
    return [
        [*python, "receiver.py", "added.json", str(case.nominal)],
        [*python, "sender.py", str(rate), str(options.seconds), to],
    ]


def wait_for_packets(folder: Path, seconds: float, alive: Callable[[], bool]) -> None:
    """Wait until packets are sent, and a tenth of their time, or until the program has ended."""
    while alive() and not (folder / "started").exists():
        time.sleep(0.05)
    time.sleep(seconds / 10)


def cost(before: Use, now: Use, packets: float, added: list[float], calls: str = "") -> Cost:
    """Cost of a packet between two uses of a process, with `packets` per second."""
    span, processor, waits = (last - first for first, last in zip(before, now, strict=True))
    return Cost(processor / (packets * span), packets, waits / (packets * span), added, calls)


def measure_relay(program: Path, case: Case, options: argparse.Namespace) -> Cost:
    """Run one case once over the minimal relay."""
    seconds = options.seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = write_programs(folder, case, options, relay.ADDRESSES[1])
        nanoseconds = 1e3 * options.spin
        with relay.running(program, case.nominal, nanoseconds, folder, commands) as (one, programs):
            wait_for_packets(folder, seconds, lambda: True)
            before = use_of(one)
            time.sleep(seconds / 3)
            now = use_of(one)
            for started in programs:
                started.wait()
        added = json.loads((folder / "added.json").read_text())
    return cost(before, now, options.rate, added)


def measure(python: str, case: Case, options: argparse.Namespace, *, counts: bool) -> Cost:
    """Run one case once."""
    seconds = options.seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = SCENARIO.format(rate=case.rate, delay=case.delay, protocol=case.protocol)
        (folder / "link.toml").write_text(text, encoding="utf-8")
        receiver, sender = write_programs(folder, case, options, "client")
        command = [str(Path(python).absolute()), "-m", "lasthop", "live", "link.toml", "--quiet"]
        command += ["--out", "out.json", "--spin", f"{options.spin:g}us"]
        command += ["--at", "client", "--", " ".join(receiver), "--at", "server", "--", *sender]
        process = subprocess.Popen(command, cwd=folder)
        wait_for_packets(folder, seconds, lambda: process.poll() is None)
        driver = driver_of(process.pid)
        if driver is None:
            sys.exit(f"{case.name}: no driver found; is the run too short?")
        calls = ""
        before = use_of(driver)
        if counts:
            trace = ["strace", "-c", "-f", "-U", "calls,name", "-p", str(driver)]
            timed = ["timeout", "-s", "INT", str(seconds / 2), *trace]
            result = subprocess.run(timed, check=False, capture_output=True, text=True)
            rows = [line.split() for line in result.stderr.splitlines()]
            counted = {row[-1]: row[0] for row in rows if len(row) == 2 and row[0].isdigit()}
            counted.pop("total", None)
            # Every delivery is one write.
            if "write" not in counted:
                sys.exit(f"{case.name}: strace counted nothing: {result.stderr}")
            calls = f"{sum(map(int, counted.values())) / int(counted['write']):.1f}"
        else:
            time.sleep(seconds / 3)
        now = use_of(driver)
        if process.wait() != 0:
            sys.exit(f"{case.name}: exit code {process.returncode}")
        out = json.loads((folder / "out.json").read_text())
        added = json.loads((folder / "added.json").read_text()) or [0.0]
    packets = out["metrics"]["link.wireless.forward.packets_delivered"] / seconds
    return cost(before, now, packets, added, calls)


def median(values: list[float]) -> float:
    """Median of values."""
    return statistics.median(values)


def quantile(values: list[float], share: float) -> float:
    """Quantile of values."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def print_costs(options: argparse.Namespace, program: Path) -> None:
    """Measure all cases and print a table."""
    pythons = options.python or [sys.executable]
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, kernel {platform.release()}, ", end="")
    print(f"load {load:.1f} at the start; {options.rate:g} packets/s, {options.rounds} rounds\n")
    print("| link | package | packets/s | processor time, µs | waits | system calls ", end="")
    print("| added delay p50, µs | p99, µs |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        if options.case and options.case not in case.name:
            continue
        names = {python: str(number) for number, python in enumerate(pythons, start=1)}
        if options.relay and case.protocol == "raw" and case.is_sparse:
            names[RELAY] = RELAY
        costs: dict[str, list[Cost]] = {python: [] for python in names}
        for _ in range(options.rounds):
            for python, found in costs.items():
                if python == RELAY:
                    found.append(measure_relay(program, case, options))
                else:
                    found.append(measure(python, case, options, counts=False))
        for python, name in names.items():
            rounds = costs[python]
            calls = ""
            if options.calls and python != RELAY:
                calls = measure(python, case, options, counts=True).calls
            row = [
                case.name,
                name,
                f"{median([cost.packets for cost in rounds]):.0f}",
                f"{1e6 * median([cost.processor for cost in rounds]):.1f}",
                f"{median([cost.waits for cost in rounds]):.2f}",
                calls,
            ]
            if case.is_sparse:
                for share in (0.5, 0.99):
                    value = median([quantile(cost.added, share) for cost in rounds])
                    row.append(f"{value / 1e3:.0f}")
            else:
                row += ["", ""]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("python", nargs="*", help="Python interpreters with packages to compare")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which medians count")
    parser.add_argument("--rate", type=float, default=500.0, help="packets per second")
    parser.add_argument("--seconds", type=float, default=4.0, help="duration of a run")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--spin", type=float, default=0.0, help="microseconds of polling")
    parser.add_argument("--relay", action="store_true", help="also measure a minimal relay")
    parser.add_argument("--calls", action="store_true", help="count system calls with strace")
    arguments = parser.parse_args()
    for program in ("cc", "ip", "nsenter", "unshare"):
        if arguments.relay and not shutil.which(program):
            sys.exit(f"--relay: {program} is not installed")
    if arguments.calls and not shutil.which("strace"):
        sys.exit("--calls: strace is not installed")
    with tempfile.TemporaryDirectory() as built:
        print_costs(arguments, relay.build(Path(built)) if arguments.relay else Path())
