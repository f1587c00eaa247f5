"""A separate network namespace per script, with a TUN device whose other end is this program."""

# ruff: noqa: T201

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import re
import select
import socket
import struct
import subprocess
import time
from pathlib import Path

from script import Message, Segment, Unknown

LOCAL, REMOTE, PORT, PEER_PORT = "192.168.0.1", "192.0.2.1", 8080, 32123
PEER_SEQUENCE = 0x7FFF_FF00
#: CLONE_NEWNET, TUNSETIFF, IFF_TUN and IFF_NO_PI of Linux.
NEW_NETWORK, SET_DEVICE, TUN_WITHOUT_HEADER = 0x4000_0000, 0x400454CA, 0x1001
#: Kernel ticks per second (`CONFIG_HZ`), which determine the delay of its timers.
TIMER_HZ = 250
#: The kernel rounds the expiry of timers of up to 16 s to multiples of at most 64 ticks. With
#: the same number of the tick modulo this number, timers of up to 16 s expire alike.
PHASES = 512
DEFAULTS = """tcp_rmem=4096 540000 15728640
tcp_wmem=4096 262144 4194304
tcp_timestamps=1
tcp_sack=1
tcp_dsack=1
tcp_window_scaling=1
tcp_syn_retries=5
tcp_synack_retries=5
tcp_frto=2
tcp_fack=0
tcp_reordering=3
tcp_congestion_control=cubic
tcp_slow_start_after_idle=0
tcp_early_retrans=4
tcp_recovery=1
tcp_tso_win_divisor=3
tcp_ecn=0
tcp_notsent_lowat=4294967295
tcp_min_tso_segs=2
tcp_fastopen=3
tcp_no_metrics_save=1
tcp_invalid_ratelimit=0"""


def product(match: re.Match[str]) -> str:
    """Value of a product in shell arithmetic."""
    return str(math.prod(int(factor) for factor in match[1].split("*")))


def latest_tick(reads: int = 30) -> tuple[float, int]:
    """Returns the time of the latest kernel tick and its number, which determine its timers.

    The number is read several times: each reading bounds the time of tick 0.
    """
    first, last = -float("inf"), float("inf")
    for _ in range(reads):
        before = time.monotonic()
        text = Path("/proc/timer_list").read_text()
        number = int(re.findall(r"^jiffies: (\d+)", text, re.M)[0])
        first = max(first, before - (number + 1) / TIMER_HZ)
        last = min(last, time.monotonic() - number / TIMER_HZ)
        time.sleep(0.0007)
    zero = (first + last) / 2
    number = int((time.monotonic() - zero) * TIMER_HZ)
    return zero + number / TIMER_HZ, number


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Host:
    """The namespace, its settings, and the segments that cross its border."""

    def __init__(self, options: dict[str, str], verbose: bool) -> None:
        self.verbose = verbose
        self.law = "cubic"
        self.start = 0.0
        self.arrived: list[tuple[float, Segment]] = []
        #: Ports of the connection under test, the kernel's first; initial sequence numbers by
        #: ports.
        self.port = (PORT, PEER_PORT)
        self.isns: dict[tuple[int, int], int] = {}
        self.stamps: list[tuple[int, int]] = []
        self.ipid = 1
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(NEW_NETWORK):
            raise Unknown("a network namespace")
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.tun, SET_DEVICE, struct.pack("16sH22x", b"tun0", TUN_WITHOUT_HEADER))
        commands = (
            f"link set lo up\nlink set tun0 mtu {options.get('mtu', '1500')} up\n"
            f"addr add {LOCAL}/16 dev tun0\nroute add default dev tun0\n"
        )
        subprocess.run(["/usr/sbin/ip", "-batch", "-"], input=commands.encode(), check=True)
        for path in ("all", "default", "tun0"):
            Path(f"/proc/sys/net/ipv6/conf/{path}/disable_ipv6").write_text("1")
        self.set("net.ipv4.conf.all.rp_filter", "0")

    def set(self, name: str, value: str) -> None:
        """Writes a setting; settings that are not allowed in a namespace remain unchanged."""
        if name == "net.ipv4.tcp_congestion_control":
            # A namespace may only select algorithms allowed for all users; a socket of root may
            # select any.
            self.law = value
            return
        path = Path("/proc/sys") / name.replace(".", "/")
        try:
            path.write_text(value)
        except OSError as problem:
            if self.verbose:
                print(f"  {name}={value}: {problem}")

    def defaults(self) -> None:
        """Applies the settings with which suites of scripts begin."""
        for entry in DEFAULTS.splitlines():
            name, value = entry.split("=")
            self.set(f"net.ipv4.{name}", value)

    def shell(self, text: str) -> None:
        """Executes a shell command: writes its settings, and runs all other commands."""
        text = text.replace("\\\n", " ")
        for command in re.split(r"[\n;]", text):
            command = command.strip()
            if not command or command.startswith("#"):
                continue
            if command.endswith("defaults.sh"):
                self.defaults()
            elif command.startswith("sysctl") or "set_sysctls" in command:
                for name, quoted, plain in re.findall(r"([\w./]+)=(?:\"([^\"]*)\"|(\S+))", command):
                    name = name.removeprefix("/proc/sys/").replace("/", ".")
                    value = quoted or plain
                    value = re.sub(r"\$\(\(([\d*]+)\)\)", product, value)
                    self.set(name, value.strip("'"))
            else:
                # A script is as trusted as this program.
                subprocess.run(  # noqa: S603
                    ["/bin/sh", "-c", command], check=False, stdout=subprocess.DEVNULL
                )

    # Segments

    def inject(self, one: Segment) -> None:
        """Sends a segment to the kernel."""
        if one.ports:
            self.port = one.ports
        local, remote = self.port
        options = b""
        for name, value in one.options.items():
            if name == "mss":
                options += struct.pack("!BBH", 2, 4, value)
            elif name == "wscale":
                options += struct.pack("!BBBB", 1, 3, 3, value)
            elif name == "sackOK":
                options += struct.pack("!BBBB", 1, 1, 4, 2)
            elif name == "TS":
                options += struct.pack("!BBBBII", 1, 1, 8, 10, value[0], self.live_stamp(value[1]))
            elif name == "sack":
                options += struct.pack("!BBBB", 1, 1, 5, 2 + 8 * len(value))
                for left, right in value:
                    options += struct.pack(
                        "!II", *((end + self.isn) % 2**32 for end in (left, right))
                    )
        length = 20 + len(options)
        ack = (one.ack + self.isn) % 2**32 if one.ack is not None else 0
        window = one.window if one.window is not None else 0
        seq = (one.seq + PEER_SEQUENCE) % 2**32
        bits = one.flags & 0xFF | (length // 4) << 12 | (one.flags & 256)
        header = struct.pack("!HHIIHHHH", remote, local, seq, ack, bits, window, 0, 0) + options
        body = header + bytes(one.payload)
        pseudo = (
            socket.inet_aton(REMOTE)
            + socket.inet_aton(LOCAL)
            + struct.pack("!BBH", 0, 6, len(body))
        )
        body = body[:16] + struct.pack("!H", checksum(pseudo + body)) + body[18:]
        os.write(self.tun, self.ip_header(len(body), 6, one.ecn or 0) + body)
        if self.verbose:
            print(f"  {self.now():9.4f} < {one}")

    def ip_header(self, length: int, protocol: int, tos: int, *, comes_in: bool = True) -> bytes:
        """The IPv4 header of a packet with `length` bytes of payload."""
        ends = (REMOTE, LOCAL) if comes_in else (LOCAL, REMOTE)
        self.ipid = (self.ipid + 1) % 65536
        ip = struct.pack(
            "!BBHHHBBH4s4s", 0x45, tos, 20 + length, self.ipid, 0x4000, 64, protocol, 0,
            *(socket.inet_aton(end) for end in ends),
        )  # fmt: skip
        return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]

    def inject_message(self, one: Message) -> None:
        """Sends an ICMP message to the kernel, with the header of the segment that it concerns."""
        local, remote = self.port
        seq = (one.seq + self.isn) % 2**32
        about = self.ip_header(20 + one.payload, 6, 0, comes_in=False)
        about += struct.pack("!HHI", local, remote, seq)
        body = struct.pack("!BBHHH", 3, one.code, 0, 0, one.mtu) + about
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        os.write(self.tun, self.ip_header(len(body), 1, 0) + body)

    @property
    def isn(self) -> int:
        """The kernel's initial sequence number in the connection under test."""
        return self.isns.get(self.port, 0)

    def live_stamp(self, echo: int) -> int:
        """The kernel's timestamp that corresponds to a timestamp of the script."""
        for script, live in reversed(self.stamps):
            if script == echo:
                return live
        if self.stamps and echo:
            return (self.stamps[0][1] + echo - self.stamps[0][0]) % 2**32
        return echo

    def take(self, packet: bytes, at: float) -> None:
        """Processes a packet sent by the kernel."""
        if packet[0] >> 4 != 4 or packet[9] != 6:
            return
        total = struct.unpack("!H", packet[2:4])[0]
        ecn = packet[1] & 3
        body = packet[(packet[0] & 15) * 4 : total]
        source, target, seq, ack, bits, window = struct.unpack("!HHIIHH", body[:16])
        offset = (bits >> 12) * 4
        one = Segment(flags=bits & 0x1FF & ~8, payload=len(body) - offset, ecn=ecn)
        is_syn = bool(one.flags & 2)
        if is_syn:
            self.port = (source, target)
            self.isns[self.port] = seq
        one.ports = (source, target)
        isn = self.isns.get(one.ports, 0)
        place = 20
        while place < offset:
            kind = body[place]
            if kind in (0, 1):
                place += 1
                continue
            size = body[place + 1]
            value = body[place + 2 : place + size]
            if kind == 2:
                one.options["mss"] = struct.unpack("!H", value)[0]
            elif kind == 3:
                one.options["wscale"] = value[0]
            elif kind == 4:
                one.options["sackOK"] = True
            elif kind == 8:
                one.options["TS"] = struct.unpack("!II", value)
            elif kind == 5:
                ends = struct.unpack(f"!{len(value) // 4}I", value)
                relative = [(end - PEER_SEQUENCE) % 2**32 for end in ends]
                one.options["sack"] = list(zip(relative[::2], relative[1::2], strict=True))
            else:
                one.options[f"option {kind}"] = value.hex()
            place += size
        bare_reset = one.flags == 4 | 16 and seq == 0
        one.seq = (seq - (0 if bare_reset else isn)) % 2**32
        one.ack = (ack - PEER_SEQUENCE) % 2**32 if one.flags & 16 else None
        one.window = window
        if self.verbose:
            print(f"  {at - self.start:9.4f} > {one}")
        self.arrived.append((at - self.start, one))

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def drain(self, until: float | None) -> None:
        """Processes packets sent by the kernel until a time, or those that are available."""
        while True:
            wait = 0.0 if until is None else max(0.0, until - self.now())
            ready = select.select([self.tun], [], [], wait)[0]
            if not ready:
                return
            while True:
                try:
                    packet = os.read(self.tun, 65536)
                except BlockingIOError:
                    break
                self.take(packet, time.monotonic())
            if until is not None and self.now() >= until:
                return

    def sleep_until(self, at: float) -> None:
        """Waits until a time, and processes packets in the meantime."""
        while self.now() < at:
            self.drain(at)

    # Events
