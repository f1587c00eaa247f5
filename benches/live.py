"""Compares `lasthop live` with other emulators of links, in one run: a Markdown table.

    python benches/live.py [--seconds 3] [--out FILE.md]

Other tools: toxiproxy (command `toxiproxy-server`, or its path in TOXIPROXY), netem (kernel module
sch_netem), mahimahi (`mm-delay`). A tool that is absent is named. Each tool carries, one after the
other, with one-way delays of 20, 1 and 1 ms:

- 300 small requests and answers over TCP: the added delay is the round trip time minus 40 ms;
- as much data as possible over one TCP connection: packets per second (of 1448 B of data), and the
  processor time of the tool per packet;
- 20,000 datagrams with a loss of 5 %: the measured loss and its 95 % confidence interval.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PORT, PROXY_PORT, API_PORT = 9000, 9001, 8474
ECHOES, DATAGRAMS, LOSS = 300, 20_000, 0.05
SEGMENT = 1448
DELAYS_MS = {"echo": 20, "bulk": 1, "loss": 1}
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
START_S = 20.0


def serve() -> None:
    """Answers requests until it is killed: echoes, data without end, or the datagrams received."""
    received: set[bytes] = set()

    def count() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            one.bind(("", PORT))
            while True:
                received.add(one.recv(200))

    def answer(one: socket.socket) -> None:
        with one, suppress(OSError):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            match one.recv(1):
                case b"e":
                    while data := one.recv(100):
                        one.sendall(data)
                case b"b":
                    while True:
                        one.sendall(bytes(1 << 18))
                case b"c":
                    one.sendall(str(len(received)).encode())

    threading.Thread(target=count, daemon=True).start()
    with socket.create_server(("", PORT), backlog=64) as listener:
        while True:
            threading.Thread(target=answer, args=[listener.accept()[0]], daemon=True).start()


def connect(host: str, port: int) -> socket.socket:
    """A connection to a server that may not have started yet."""
    end = time.monotonic() + START_S
    while True:
        try:
            return socket.create_connection((host, port), 5)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def ask(kind: str, host: str, port: int, seconds: float) -> Any:
    """Measures: round trip times in s, bytes per second, or the number of datagrams received."""
    with connect(host, port) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if kind == "echo":
            one.sendall(b"e")
            times = []
            for _ in range(ECHOES):
                began = time.perf_counter()
                one.sendall(bytes(64))
                left = 64
                while left:
                    left -= len(one.recv(left))
                times.append(time.perf_counter() - began)
                time.sleep(0.005)
            return times
        if kind == "bulk":
            one.sendall(b"b")
            began, received = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                received += len(one.recv(1 << 18))
            return received / (time.perf_counter() - began)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        began = time.perf_counter()
        for number in range(DATAGRAMS):
            datagrams.sendto(number.to_bytes(4, "big") + bytes(96), (host, port))
            time.sleep(max(0.0, began + number / 5_000 - time.perf_counter()))
    time.sleep(0.5)
    with connect(host, port) as one:
        one.sendall(b"c")
        return int(one.recv(100))


OWN = [sys.executable, str(Path(__file__).resolve())]


@dataclass
class Row:
    """Results of a tool; `None` where it has none."""

    tool: str
    added_p50_ms: float | None = None
    added_p99_ms: float | None = None
    packets_per_s: float | None = None
    processor_us: float | None = None
    loss: float | None = None

    def add(self, kind: str, found: Any, processor_s: float | None, seconds: float) -> None:
        """Adds the result of one measurement, and the processor time of the tool during it."""
        if kind == "echo":
            added = sorted(1e3 * one - 2 * DELAYS_MS["echo"] for one in found)
            self.added_p50_ms = added[len(added) // 2]
            self.added_p99_ms = added[math.ceil(0.99 * len(added)) - 1]
        elif kind == "bulk":
            self.packets_per_s = found / SEGMENT
            if processor_s is not None:
                self.processor_us = 1e6 * processor_s / (self.packets_per_s * seconds)
        else:
            self.loss = 1 - found / DATAGRAMS

    def cells(self) -> list[str]:
        """The cells of the table."""
        loss = "–"
        if self.loss is not None:
            half = 196 * math.sqrt(self.loss * (1 - self.loss) / DATAGRAMS)
            loss = f"{100 * self.loss:.2f} ± {half:.2f}"
        numbers = (
            (self.added_p50_ms, ".2f"),
            (self.added_p99_ms, ".2f"),
            (self.packets_per_s, ",.0f"),
            (self.processor_us, ".2f"),
        )
        shown = ["–" if number is None else format(number, form) for number, form in numbers]
        return [self.tool, *shown, loss]


def lasthop(seconds: float) -> Row:
    """`lasthop live`, with a raw link."""
    row = Row("Lasthop")
    for kind, delay in DELAYS_MS.items():
        link: dict[str, Any] = {"between": ["server", "client"], "rate": "10 Gbps"}
        link |= {"delay": f"{delay} ms", "queue": "10000 packets"}
        if kind == "loss":
            # Datagrams only: connections are not to lose packets while they are counted.
            link["reverse"] = {"errors": {"kind": "uniform", "loss": LOSS}}
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder) / "link.json", Path(folder) / "out.json"
            path.write_text(json.dumps({"name": "bench", "link": {"path": link}}))
            command = [sys.executable, "-m", "lasthop", "live", str(path), "--quiet"]
            command += ["--out", str(out), "--at", "server", "--", " ".join([*OWN, "serve"])]
            command += ["--at", "client", "--", *OWN, kind, "server", str(PORT), str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            processor_s = json.loads(out.read_text())["processor_s"]
        row.add(kind, json.loads(done.stdout), processor_s, seconds)
    return row


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def toxiproxy(seconds: float) -> Row:
    """Toxiproxy on the loopback interface: it relays TCP connections, without packets or loss."""
    path = os.environ.get("TOXIPROXY") or shutil.which("toxiproxy-server")
    if path is None:
        return Row("toxiproxy: absent")
    row = Row("toxiproxy")

    def post(place: str, body: dict[str, Any]) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{API_PORT}/{place}", json.dumps(body).encode()
        )
        urllib.request.urlopen(request, timeout=5).close()  # noqa: S310

    for kind in ("echo", "bulk"):
        with running(*OWN, "serve"), running(path, "-port", str(API_PORT)) as proxy:
            for port in (PORT, API_PORT):
                connect("127.0.0.1", port).close()
            listen, upstream = f"127.0.0.1:{PROXY_PORT}", f"127.0.0.1:{PORT}"
            post("proxies", {"name": "a", "listen": listen, "upstream": upstream, "enabled": True})
            for stream in ("upstream", "downstream"):
                toxic = {"type": "latency", "stream": stream, "name": stream}
                post("proxies/a/toxics", {**toxic, "attributes": {"latency": DELAYS_MS[kind]}})
            before = processor_s(proxy.pid)
            found = ask(kind, "127.0.0.1", PROXY_PORT, seconds)
            row.add(kind, found, processor_s(proxy.pid) - before, seconds)
    return row


def netem(seconds: float) -> Row:
    """Netem between two namespaces. Its processor time is the kernel's, and not measured."""
    if shutil.which("tc") is None or os.geteuid() != 0:
        return Row("netem: absent (`tc` and root are needed)")
    row = Row("netem")
    with (
        running("unshare", "--net", "sleep", "600") as server,
        running("unshare", "--net", "sleep", "600") as client,
    ):
        own = Path("/proc/self/ns/net").readlink()
        while any(Path(f"/proc/{one.pid}/ns/net").readlink() == own for one in (server, client)):
            time.sleep(0.01)
        enter = [["nsenter", "--net", f"--target={one.pid}"] for one in (server, client)]
        link = ["ip", "link", "add", "eth0", "netns", str(server.pid), "type", "veth"]
        subprocess.run([*link, "peer", "name", "eth0", "netns", str(client.pid)], check=True)
        for number, words in enumerate(enter, 1):
            address = ["ip", "addr", "add", f"10.9.0.{number}/24", "dev", "eth0"]
            subprocess.run([*words, *address], check=True)
            subprocess.run([*words, "ip", "link", "set", "eth0", "up"], check=True)
        for kind, delay in DELAYS_MS.items():
            for number, words in enumerate(enter):
                shape = ["delay", f"{delay}ms", "limit", "10000"]
                if kind == "loss" and number == 1:
                    shape += ["loss", f"{100 * LOSS}%"]
                tc = [*words, "tc", "qdisc", "replace", "dev", "eth0", "root", "netem", *shape]
                if subprocess.run(tc, capture_output=True, check=False).returncode != 0:
                    return Row("netem: absent (the kernel has no sch_netem)")
            with running(*enter[0], *OWN, "serve"):
                asked = [*enter[1], *OWN, kind, "10.9.0.1", str(PORT), str(seconds)]
                done = subprocess.run(asked, capture_output=True, text=True, check=True)
            row.add(kind, json.loads(done.stdout), None, seconds)
    return row


def mahimahi(seconds: float) -> Row:
    """Mahimahi's shells around a server on the machine; processor time of both is not separable."""
    if shutil.which("mm-delay") is None or shutil.which("mm-loss") is None:
        return Row("mahimahi: absent")
    row = Row("mahimahi")
    for kind, delay in DELAYS_MS.items():
        shell = ["mm-delay", str(delay)]
        if kind == "loss":
            shell += ["mm-loss", "uplink", str(LOSS)]
        script = f'exec {" ".join(OWN)} {kind} "$MAHIMAHI_BASE" {PORT} {seconds}'
        with running(*OWN, "serve"):
            words = [*shell, "sh", "-c", script]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
        row.add(kind, json.loads(done.stdout), None, seconds)
    return row


HEAD = (
    "tool",
    "added delay p50 (ms)",
    "p99 (ms)",
    "packets/s",
    "processor per packet (µs)",
    "loss of 5 % (%)",
)


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main() -> int:
    """Runs all tools, or one end of a measurement."""
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case [("echo" | "bulk" | "loss") as kind, host, port, seconds]:
            print(json.dumps(ask(kind, host, int(port), float(seconds))))
        case _:
            parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
            parser.add_argument("--seconds", type=float, default=3.0, help="of the data transfer")
            parser.add_argument("--out", type=Path, help="also write the table to this file")
            asked = parser.parse_args()
            tools = (lasthop, toxiproxy, netem, mahimahi)
            text = table([tool(asked.seconds) for tool in tools])
            print(text, end="")
            if asked.out:
                asked.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
