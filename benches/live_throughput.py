"""Print the throughput of live links of 1 Gbps, 4 Gbps and no limit, at an MTU of 1500 B.

Usage: .venv/bin/python benches/live_throughput.py [--rounds 3] [--seconds 4] [--case TEXT]
           [--no-offload]

A program at one host sends datagrams of 1472 B, at the rate of the link plus 5 % or as fast as
possible, or data over one TCP connection, to a program at the other host. The rows `interop` use
the simulator container of `examples/quic-interop`, in network namespaces (root only): two veth
interfaces and four forwarding steps in addition. Columns: medians over the rounds of the packets
and bits per second that the link delivered in one direction, in the median second, with the
minimum and maximum round; for plain links, processor time of the driver per packet that hosts sent
(data and acknowledgments). Needs the built package.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

SEND = """
import socket, sys, time
kind, host, bps, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
end = time.monotonic() + seconds
if kind == "udp":
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect((host, 9000))
    out.setsockopt(17, 103, 1472)  # UDP_SEGMENT: the kernel makes datagrams of 1472 B
    start, sent, data = time.monotonic(), 0, bytes(1472 * 16)
    while (now := time.monotonic()) < end:
        if bps and sent * 1500 * 8 > bps * (now - start):
            time.sleep(0.0002)
            continue
        out.send(data)
        sent += 16
else:
    for _ in range(100):
        try: out = socket.create_connection((host, 9000), 5)
        except OSError: time.sleep(0.05)
        else: break
    out.settimeout(1)
    while time.monotonic() < end:
        out.send(bytes(1 << 18))
"""

RECEIVE = """
import socket, sys
if sys.argv[1] == "udp":
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("", 9000))
    data = bytearray(2000)
    while True:
        own.recv_into(data)
with socket.create_server(("", 9000)) as listener, listener.accept()[0] as one:
    data = bytearray(1 << 18)
    while one.recv_into(data): pass
"""


@dataclass(frozen=True)
class Case:
    """A path, the kind of traffic, and the rate; 0: unlimited."""

    path: str
    kind: str
    bps: float

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.path}, {self.kind.upper()}, {self.rate}"

    @property
    def rate(self) -> str:
        """The rate of the link."""
        return f"{self.bps / 1e9:g} Gbps" if self.bps else "unlimited"


CASES = [Case("link", kind, bps) for kind in ("udp", "tcp") for bps in (1e9, 4e9, 0.0)] + [
    Case("interop", kind, 1e9) for kind in ("udp", "tcp")
]


@dataclass
class Speed:
    """Result of one round."""

    packets: float  # per second
    bps: float
    processor: float | None  # seconds per packet


def read(results: Path, out: Path | None) -> Speed:
    """Reads the results of a run: the direction with more bytes, in its median second."""
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    lines = [line for line in lines if line["kind"] == "second"]
    seconds = [
        (line["time"] - before["time"], line["directions"])
        for before, line in itertools.pairwise(lines)
    ]
    busiest = max(
        range(len(seconds[0][1])),
        key=lambda one: sum(row[one]["goodput_bps"] for _, row in seconds),
    )
    rows = sorted(
        (row[busiest]["goodput_bps"], row[busiest]["delivered"] / passed) for passed, row in seconds
    )
    bps, packets = rows[len(rows) // 2]
    processor = json.loads(out.read_text())["processor_per_packet_s"] if out else None
    return Speed(packets, bps, processor)


def plain(case: Case, seconds: float, folder: Path, options: list[str]) -> Speed:
    """A live link between two hosts, with these options of the command."""
    link = {
        "between": ["server", "client"],
        "rate": case.rate,
        "delay": "1 ms",
        "queue": "1000 packets",
    }
    (folder / "link.json").write_text(json.dumps({"name": "fast", "link": {"path": link}}))
    command = [sys.executable, "-m", "lasthop", "live", "link.json", "--quiet", *options]
    command += ["--json", "results.jsonl", "--out", "out.json", "--at", "client", "--"]
    command += [f"{sys.executable} -S receive.py {case.kind}", "--at", "server", "--"]
    command += [sys.executable, "-S", "send.py", case.kind, "client"]
    command += [str(1.05 * case.bps), str(seconds)]
    subprocess.run(command, cwd=folder, check=True)
    return read(folder / "results.jsonl", folder / "out.json")


def interop(case: Case, seconds: float, folder: Path) -> Speed:
    """The simulator container; the server sends."""
    tool: Any = load(ROOT / "tools" / "live" / "interop.py")
    scenario = "simple-p2p --delay=1ms --bandwidth=1Gbps --queue=1000"
    environment = {**os.environ, "SCENARIO": scenario, "LOGS": str(folder), "LASTHOP_SEED": "1"}
    entry = [sys.executable, str(ROOT / "examples" / "quic-interop" / "sim.py")]
    with tool.containers() as enter:
        own = [*enter["client"], sys.executable, "-S", "receive.py", case.kind]
        started = [
            subprocess.Popen([*enter["sim"], *entry], env=environment, stdout=subprocess.DEVNULL),
            subprocess.Popen(own, cwd=folder),
        ]
        try:
            ready = [*enter["client"], sys.executable, "-c", READY]
            subprocess.run(ready, check=True)
            send = [sys.executable, "-S", "send.py", case.kind, "193.167.0.100"]
            send += [str(1.05 * case.bps), str(seconds)]
            subprocess.run([*enter["server"], *send], cwd=folder, check=True)
            started[0].send_signal(signal.SIGTERM)
            started[0].wait()
        finally:
            for one in started:
                one.kill()
                one.wait()
    return read(folder / "lasthop.jsonl", None)


READY = """
import socket, time
for _ in range(300):
    try: socket.create_connection(("193.167.0.2", 57832), 5).close()
    except OSError: time.sleep(0.1)
    else: break
"""


def load(path: Path) -> Any:
    """Imports a program."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Measures all cases and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which medians count")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="duration of a round, at least 3"
    )
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--no-offload", action="store_true", help="single packets at plain links")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} at the start, {os.cpu_count()} cores, ", end="")
    print(f"{time.strftime('%Y-%m-%d')}, {options.rounds} rounds\n")
    print("| case | packets/s | Gbps | minimum to maximum | processor time per packet, µs |")
    print("|---|---|---|---|---|")
    for case in CASES:
        if options.case not in case.name:
            continue
        speeds = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "send.py").write_text(SEND, encoding="utf-8")
                (folder / "receive.py").write_text(RECEIVE, encoding="utf-8")
                seconds = max(3.0, options.seconds)
                if case.path == "link":
                    words = ["--no-offload"] if options.no_offload else []
                    speeds.append(plain(case, seconds, folder, words))
                else:
                    speeds.append(interop(case, seconds, folder))
        gbps = [one.bps / 1e9 for one in speeds]
        processor = [one.processor for one in speeds if one.processor is not None]
        cells = [
            case.name,
            f"{statistics.median(one.packets for one in speeds):,.0f}",
            f"{statistics.median(gbps):.3f}",
            f"{min(gbps):.3f} to {max(gbps):.3f}",
            f"{1e6 * statistics.median(processor):.2f}" if processor else "–",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
