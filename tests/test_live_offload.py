"""Segmentation offload of live hosts: links still carry single packets."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from test_live import COMMAND, live, why_not

pytestmark = pytest.mark.slow

LINK = """
name = "fast"
[link.path]
between = ["server", "client"]
rate = "RATE"
delay = "1 ms"
queue = "2000 packets"
"""
# Prints the hash of the received bytes, and the packets that the device of the client received.
TRANSFER = """
import hashlib, socket, sys
data = bytes(i * i % 251 for i in range(100_000)) * 40
if sys.argv[1] == "send":
    both = {"family": socket.AF_INET6, "dualstack_ipv6": True}
    with socket.create_server(("", 9000), **both) as listener, listener.accept()[0] as one:
        one.sendall(data)
else:
    received, own = hashlib.sha256(), socket.create_connection((sys.argv[2], 9000))
    while some := own.recv(1 << 20):
        received.update(some)
    assert received.digest() == hashlib.sha256(data).digest()
    with open("/proc/net/dev") as devices:
        line = next(line for line in devices if line.strip().startswith("path:"))
    print("packets", line.split()[2])
"""
DATAGRAMS = """
import socket, sys, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "send":
    own.bind(("", 9000))
    own.connect(own.recvfrom(10)[1])
    for number in range(200):
        # UDP_SEGMENT: datagrams of 1000 B, the last one shorter.
        own.setsockopt(17, 103, 1000)
        own.send(bytes([number]) * (16_000 + number))
        time.sleep(0.001)
    own.setsockopt(17, 103, 0)
    own.send(b"end")
else:
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    own.connect(("server", 9000))
    own.send(b"start")
    sizes = []
    while (some := own.recv(65_536)) != b"end":
        assert len(set(some)) == 1
        sizes.append(f"{some[0]}:{len(some)}")
    print("sizes", *sizes)
"""


@pytest.fixture(scope="module", autouse=True)
def _where_allowed() -> None:
    if reason := why_not():
        pytest.skip(reason)


@dataclass
class Captured:
    """A packet of a capture."""

    interface: int
    time: int
    data: bytes

    @property
    def is_right(self) -> bool:
        """Whether the lengths and checksums of IPv4 or IPv6, and of TCP or UDP, are right."""
        if self.data[0] >> 4 == 4:
            start, length = 20, int.from_bytes(self.data[2:4])
            addresses, protocol = self.data[12:20], self.data[9]
            if folded(self.data[:20]) != 0xFFFF:
                return False
        else:
            start, length = 40, 40 + int.from_bytes(self.data[4:6])
            addresses, protocol = self.data[8:40], self.data[6]
        pseudo = addresses + struct.pack("!IHH", length - start, 0, protocol)
        return length == len(self.data) and folded(pseudo + self.data[start:]) == 0xFFFF


def folded(data: bytes) -> int:
    """The sum of RFC 1071."""
    total: int = sum(number for (number,) in struct.iter_unpack("!H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def capture(path: Path) -> list[Captured]:
    """The enhanced packet blocks (type 6) of a pcapng file."""
    data, packets, place = path.read_bytes(), [], 0
    while place < len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if kind == 6:
            interface, high, low, size = struct.unpack_from("<IIII", data, place + 8)
            start = place + 28
            packets.append(Captured(interface, high << 32 | low, data[start : start + size]))
        place += length
    return packets


MIDDLE = (
    LINK.replace('"client"', '"middle"')
    + """
[link.last]
between = ["middle", "client"]
rate = "RATE"
delay = "1 ms"
queue = "2000 packets"
mtu = "1280 B"
"""
)


@dataclass
class Run:
    """Results of a transfer from the server to the client."""

    sent: list[Captured]
    delivered: list[Captured]
    bursts: Counter[int]  # packets that the server sent at the same time
    device: int  # packets that the device of the client received
    counted: float  # packets delivered by the link
    output: str


def run(tmp_path: Path, program: str, *options: str, rate: str = "5 Gbps", to: str = "") -> Run:
    """Runs the program at both hosts, with a capture."""
    (tmp_path / "link.toml").write_text(LINK.replace("RATE", rate))
    (tmp_path / "program.py").write_text(program)
    words = [*options, "--quiet", "--out", "out.json", "--pcap", "run.pcapng"]
    own = f"{sys.executable} program.py"
    words += ["--at", "server", "--", f"{own} send"]
    words += ["--at", "client", "--", *f"{own} receive {to}".split()]
    done = live(tmp_path / "link.toml", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    packets = capture(tmp_path / "run.pcapng")
    # Acknowledgments are shorter.
    data = [one for one in packets if len(one.data) > 100]
    sent, delivered = ([one for one in data if one.interface == end] for end in (0, 1))
    device = int(done.stdout.partition("packets ")[2] or 0)
    metrics = json.loads((tmp_path / "out.json").read_text())
    counted = metrics["metrics"]["link.path.forward.packets_delivered"]
    bursts = Counter(Counter(one.time for one in sent).values())
    return Run(sent, delivered, bursts, device, counted, done.stdout)


@pytest.mark.parametrize("to", ["server", "fd71::1"])
def test_super_segments_cross_a_fast_link_as_single_packets(tmp_path: Path, to: str) -> None:
    result = run(tmp_path, TRANSFER, "--record", "run.rec", to=to)
    assert all(len(one.data) <= 1500 for one in result.sent)
    assert all(one.is_right for one in [*result.sent, *result.delivered])
    # Without losses, the same packets are delivered in the same order.
    assert [one.data for one in result.delivered] == [one.data for one in result.sent]
    assert max(result.bursts) > 4
    # The device counts several packets that are written together as one.
    assert 2 * result.device < result.counted
    assert len(result.delivered) <= result.counted <= len(result.delivered) + 10
    replayed = subprocess.run(
        [*COMMAND, "--replay", "run.rec"], cwd=tmp_path, capture_output=True, check=False
    )
    assert replayed.returncode == 0, replayed.stderr


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        (("--no-offload",), "5 Gbps"),
        ((), "499 Mbps"),
        # A later rate that is too low.
        (("--timeline", "changes"), "5 Gbps"),
    ],
    ids=["option", "rate", "timeline"],
)
def test_without_offload_hosts_send_and_receive_single_packets(
    tmp_path: Path, options: tuple[str, ...], rate: str
) -> None:
    (tmp_path / "changes").write_text("90 s  set link.path.rate=499Mbps\n")
    result = run(tmp_path, TRANSFER, *options, rate=rate, to="server")
    assert list(result.bursts) == [1]
    assert result.device >= len(result.delivered)
    assert all(one.is_right for one in result.sent)


@pytest.mark.parametrize(
    ("options", "rate", "warns"),
    [((), "499Mbps", True), ((), "500Mbps", False), (("--no-offload",), "499Mbps", False)],
)
def test_a_link_with_offload_that_is_slowed_down_is_named(
    tmp_path: Path, options: tuple[str, ...], rate: str, warns: bool
) -> None:
    (tmp_path / "link.toml").write_text(LINK.replace("RATE", "5 Gbps"))
    program = f"{sys.executable} -m lasthop live ctl set link.path.rate={rate}"
    words = ["--json", "out.jsonl", "--control", "own", *options, "--at", "client", "--"]
    done = live(tmp_path / "link.toml", *words, program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    notes = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])["notes"]
    warnings = [note for note in notes if "--no-offload" in note]
    assert ["of link path fell below 500 Mbps" in note for note in warnings] == [True] * warns


def test_a_host_forwards_super_segments_within_the_mtu_of_the_next_link(tmp_path: Path) -> None:
    """The kernel of the host in the middle reports the smaller MTU of the second link."""
    (tmp_path / "link.toml").write_text(MIDDLE.replace("RATE", "5 Gbps"))
    (tmp_path / "program.py").write_text(TRANSFER.replace('"path:"', '"last:"'))
    for to in ("server", "fd71::1"):
        words = ["--quiet", "--out", "out.json", "--pcap", "run.pcapng", "--at", "server", "--"]
        words += [f"{sys.executable} program.py send", "--at", "client", "--"]
        words += [sys.executable, "program.py", "receive", to]
        done = live(tmp_path / "link.toml", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        data = [one for one in capture(tmp_path / "run.pcapng") if len(one.data) > 1000]
        first, last = ([one for one in data if one.interface == end] for end in (0, 2))
        assert max(len(one.data) for one in first) <= 1500
        assert max(len(one.data) for one in last) == 1280
        assert all(one.is_right for one in [*first, *last])
        # Packets that the middle received together leave it together.
        assert max(Counter(one.time for one in last).values()) > 4


def test_datagrams_keep_their_sizes(tmp_path: Path) -> None:
    result = run(tmp_path, DATAGRAMS)
    sizes = [[1000] * 16 + [number] * (number > 0) for number in range(200)]
    expected = [f"{number}:{size}" for number, own in enumerate(sizes) for size in own]
    assert result.output.partition("sizes ")[2].split() == expected
    assert all(one.is_right for one in result.sent)
    assert max(result.bursts) > 4
