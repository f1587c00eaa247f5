"""Saturate a live link for a long time: memory, descriptors, throughput and lateness per minute.

Usage: .venv/bin/python benches/live_soak.py [--seconds 3600] [--every 60] [--out FILE]

A program at one host sends datagrams of 1472 B at 1.1 times the rate of a link with selective
repeat and 2 % loss in both directions; a program at the other host receives them. For each interval
a row is printed, and written to FILE as a line of JSON:

- resident memory in kB and open descriptors of all processes of Lasthop, and processor time of all
  as a share of one core;
- throughput at the receiver in Mbps;
- the time of the run, by its last line of results, minus the time at which the machine wrote this
  line, relative to the first row, in ms;
- the mean delay of datagrams at the programs, and that of the link by its own results; the
  difference is the lateness of the driver and of the programs.

At the end, the exit code is 1 if memory or descriptors grew by more than 2 % after the sixth minute
(in shorter runs: the second row), or if the throughput of a row differs by more than 5 % from the
median, as on a busy machine. In the first minutes, packets that the queue drops fill the table by
which delays are measured. Needs the built package, and permission to create namespaces.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

RATE_BPS = 50e6
# Time after which memory is constant.
STEADY_MINUTES = 5.5

SCENARIO = """
name = "soak"

[link.radio]
between = ["server", "client"]
rate = "50 Mbps"
delay = "5 ms"
queue = "100 packets"
protocol = { kind = "selective-repeat", window = 256 }
errors = { kind = "uniform", loss = 0.02 }
"""

SENDER = """
import socket, struct, sys, time
rate, seconds = float(sys.argv[1]), float(sys.argv[2])
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.connect(("client", 9000))
out.setsockopt(17, 103, 1472)  # UDP_SEGMENT: the kernel makes datagrams of 1472 B
start, sent, pad = time.monotonic(), 0, bytes(1464)
while (now := time.monotonic()) < start + seconds:
    while sent < rate * (now - start) / 8 / 1500:
        one = struct.pack("=q", time.monotonic_ns()) + pad
        out.send(one * 16)
        sent += 16
    time.sleep(0.004)
"""

RECEIVER = """
import os, socket, struct, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
own.bind(("0.0.0.0", 9000))
own.settimeout(1.0)
got = delay = 0
with open("received.part", "w") as file:
    os.rename("received.part", "received")
    end = time.monotonic_ns() + 10**9
    while True:
        try:
            data = own.recv(2000)
            got += 1
            delay += time.monotonic_ns() - struct.unpack("=q", data[:8])[0]
        except TimeoutError:
            pass
        now = time.monotonic_ns()
        if got and now >= end:
            print(now, got, delay, file=file, flush=True)
            end = now + 10**9
"""


@dataclass
class Row:
    """Result of one interval."""

    minute: float
    memory_kb: dict[str, int]
    descriptors: dict[str, int]
    processor_share: float
    throughput_mbps: float
    drift_ms: float
    program_delay_ms: float
    link_delay_ms: float
    load: float


def processes_of(parent: int) -> dict[str, int]:
    """Processes of Lasthop under a process, by role."""
    parents, roles = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.name)] = int(fields[1])
        if any(word.startswith(b"lasthop") for word in words):
            role = "command"
            if b"lasthop.running.live.process" in words:
                role = "driver" if words[-2].endswith(b"driver") else "launcher"
            roles[int(path.name)] = role
    found = {}
    for number, role in roles.items():
        one = number
        while one in parents and one != parent:
            one = parents[one]
        if one == parent:
            found[role] = number
    return found


def processor_s(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kb(process: int) -> int:
    """Resident memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


class Reader:
    """Lines that a growing file obtained since the last call."""

    def __init__(self, path: Path) -> None:
        """Begins at the start of the file."""
        self.path, self.place = path, 0

    def lines(self) -> list[str]:
        """New complete lines."""
        if not self.path.exists():
            return []
        with self.path.open(encoding="utf-8") as file:
            file.seek(self.place)
            whole = file.read().rpartition("\n")[0]
        self.place += len(whole.encode()) + bool(whole)
        return whole.splitlines()


def sample(
    roles: dict[str, int],
    before: dict[str, float],
    first: list[int],
    passed_s: float,
    files: tuple[Reader, Reader],
) -> tuple[Row, list[int]]:
    """A row, and the counters of the receiver at its end; `first` are those at its beginning."""
    received = [[int(word) for word in line.split()] for line in files[0].lines()]
    written = files[1].path.stat().st_mtime
    seconds = [json.loads(line) for line in files[1].lines()]
    delays = [
        (one["delay"]["n"], one["delay"]["mean_s"])
        for second in seconds
        if second["kind"] == "second"
        for one in second["directions"]
        if one["direction"] == "forward" and one["delay"]
    ]
    if not received or not delays:
        sys.exit("nothing was received in an interval")
    total = sum(number for number, _ in delays)
    passed_ns, packets, delay_ns = (
        after - start for start, after in zip(first, received[-1], strict=True)
    )
    row = Row(
        minute=0.0,
        memory_kb={role: memory_kb(process) for role, process in roles.items()},
        descriptors={
            role: len(list(Path(f"/proc/{process}/fd").iterdir()))
            for role, process in roles.items()
        },
        processor_share=sum(processor_s(process) - before[role] for role, process in roles.items())
        / passed_s,
        throughput_mbps=packets * 1500 * 8e3 / passed_ns,
        drift_ms=1e3 * (seconds[-1]["time"] - written),
        program_delay_ms=1e-6 * delay_ns / packets,
        link_delay_ms=1e3 * sum(number * mean for number, mean in delays) / total,
        load=os.getloadavg()[0],
    )
    for role, process in roles.items():
        before[role] = processor_s(process)
    return row, received[-1]


def soak(seconds: float, every: float, out: Path | None) -> list[Row]:
    """Runs the link; prints and writes the rows."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "link.toml").write_text(SCENARIO, encoding="utf-8")
        (folder / "sender.py").write_text(SENDER, encoding="utf-8")
        (folder / "receiver.py").write_text(RECEIVER, encoding="utf-8")
        python = f"{sys.executable} -S"
        command = [sys.executable, "-m", "lasthop", "live", "link.toml", "--quiet"]
        command += ["--json", "seconds.jsonl", "--at", "client", "--"]
        command += [f"{python} receiver.py", "--at", "server", "--", *python.split()]
        command += ["sender.py", str(1.1 * RATE_BPS), str(seconds + 5)]
        process = subprocess.Popen(command, cwd=folder)
        files = Reader(folder / "received"), Reader(folder / "seconds.jsonl")
        end = time.monotonic() + 20
        while process.poll() is None and len(processes_of(process.pid)) < 3:
            if time.monotonic() > end:
                sys.exit("the processes of the run were not found")
            time.sleep(0.1)
        time.sleep(3)
        counters = [int(word) for word in files[0].lines()[-1].split()]
        files[1].lines()
        roles = processes_of(process.pid)
        before = {role: processor_s(one) for role, one in roles.items()}
        start = last = time.monotonic()
        offset_ms = 0.0
        while process.poll() is None and (len(rows) + 1) * every <= seconds:
            time.sleep(max(0.0, start + (len(rows) + 1) * every - time.monotonic()))
            now = time.monotonic()
            row, counters = sample(roles, before, counters, now - last, files)
            row.minute, last = (now - start) / 60, now
            offset_ms = offset_ms or row.drift_ms
            row.drift_ms -= offset_ms
            rows.append(row)
            show(row, out)
        if process.wait() != 0:
            sys.exit(f"exit code {process.returncode} of the run")
    return rows


def show(row: Row, out: Path | None) -> None:
    """Prints a row, and appends it to the file."""
    memory = ", ".join(f"{role} {number}" for role, number in row.memory_kb.items())
    print(
        f"{row.minute:6.1f} min  {memory} kB  {sum(row.descriptors.values())} descriptors"
        f"  {100 * row.processor_share:.1f} % of a core  {row.throughput_mbps:.3f} Mbps"
        f"  drift {row.drift_ms:.0f} ms  delay {row.program_delay_ms:.2f} ms,"
        f" of the link {row.link_delay_ms:.2f} ms  load {row.load:.1f}",
        flush=True,
    )
    if out:
        with out.open("a", encoding="utf-8") as file:
            print(json.dumps(asdict(row)), file=file)


def judge(rows: list[Row]) -> int:
    """1 if memory, descriptors or throughput were not constant; which is printed."""
    wrong = []
    last = rows[-1]
    first = next((row for row in rows if row.minute > STEADY_MINUTES), rows[min(1, len(rows) - 1)])
    for role, number in last.memory_kb.items():
        if number > 1.02 * first.memory_kb[role]:
            wrong.append(f"memory of {role}: {first.memory_kb[role]} kB, then {number} kB")
        if last.descriptors[role] > first.descriptors[role]:
            wrong.append(f"descriptors of {role}: {last.descriptors[role]}")
    middle = statistics.median(row.throughput_mbps for row in rows)
    wrong += [
        f"throughput after {row.minute:.0f} min: {row.throughput_mbps:.2f} Mbps, median"
        f" {middle:.2f}; load {row.load:.1f}"
        for row in rows
        if abs(row.throughput_mbps / middle - 1) > 0.05
    ]
    print("\n".join(wrong) or "constant")
    return int(bool(wrong))


def main() -> int:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600.0, help="duration of the load")
    parser.add_argument("--every", type=float, default=60.0, help="interval of rows, seconds")
    parser.add_argument("--out", type=Path, help="append the rows to this file as JSON lines")
    options = parser.parse_args()
    if not 2 <= options.every <= options.seconds:
        parser.error("--every is at least 2 s and at most --seconds")
    return judge(soak(options.seconds, options.every, options.out))


if __name__ == "__main__":
    sys.exit(main())
