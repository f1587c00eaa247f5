#!/usr/bin/env python3
"""A NAT that changes its bindings: the scenario `rebind` of the simulator for QUIC.

Runs in the namespace of the client's side. Routing rules pass IPv4 packets between the client and
the link to a TUN device; this program translates the addresses and ports of UDP, and returns them.

At each rebinding, all bindings get other random ports, and with `--rebind-addr` another address of
the client's network. Packets to earlier bindings are dropped. Other protocols pass unchanged.
"""

# ruff: noqa: S603, S311, T201

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

CLIENT, SERVERS = "193.167.0.100", "193.167.100.0/24"
NETWORK = ipaddress.IPv4Network("193.167.0.0/24")
DEVICE, TABLE = "nat0", "100"
UDP = 17
# `ioctl` and flags of /dev/net/tun: a TUN device without packet information.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# The simulator itself and routers.
RESERVED = ("193.167.0.1", "193.167.0.2", CLIENT)


def adjusted(checksum: int, old: bytes, new: bytes) -> int:
    """The Internet checksum after a change of 16-bit words (RFC 1624, equation 3)."""
    total = ~checksum & 0xFFFF
    words = f"!{len(old) // 2}H"
    for before, after in zip(struct.unpack(words, old), struct.unpack(words, new), strict=True):
        total += (~before & 0xFFFF) + after
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass
class Nat:
    """Bindings of one client."""

    rng: random.Random
    changes_address: bool = False
    client: bytes = ipaddress.IPv4Address(CLIENT).packed
    address: bytes = ipaddress.IPv4Address(CLIENT).packed
    # Outer port of each port of the client.
    outer: dict[int, int] = field(default_factory=dict)
    # Port of the client for each outer port that was ever used; None: an earlier binding.
    inner: dict[int, int | None] = field(default_factory=dict)

    def rebind(self) -> list[str]:
        """Changes all bindings; describes the changes."""
        before = ipaddress.IPv4Address(self.address)
        if self.changes_address:
            used = {str(before), *RESERVED}
            free = [one for one in NETWORK.hosts() if str(one) not in used]
            self.address = self.rng.choice(free).packed
        after = ipaddress.IPv4Address(self.address)
        lines = []
        for port, old in self.outer.items():
            new = self.rng.randint(1, 0xFFFF)
            while new in self.inner:
                new = self.rng.randint(1, 0xFFFF)
            self.outer[port], self.inner[new], self.inner[old] = new, port, None
            lines.append(f"{before}:{old} -> {after}:{new}")
        return lines

    def translate(self, packet: bytes) -> bytes | None:
        """Translates an IPv4 packet in either direction; None: it is dropped."""
        header = 4 * (packet[0] & 0xF)
        fragment = struct.unpack("!H", packet[6:8])[0] & 0x1FFF
        if packet[9] != UDP or fragment or len(packet) < header + 8:
            return self._with(packet, header, None)
        source, destination = struct.unpack("!2H", packet[header : header + 4])
        if packet[12:16] == self.client:
            if source not in self.outer:
                self.outer[source] = self.inner[source] = source
            return self._with(packet, header, (12, self.address, 0, self.outer[source]))
        if packet[16:20] == self.address and (port := self.inner.get(destination)) is not None:
            return self._with(packet, header, (16, self.client, 2, port))
        return None

    @staticmethod
    def _with(packet: bytes, header: int, change: tuple[int, bytes, int, int] | None) -> bytes:
        """Replaces an address and a port at these offsets, and undoes the extra hop in the TTL."""
        changed = bytearray(packet)
        changed[8] = min(packet[8] + 1, 255)
        if change:
            at, address, port_at, port = change
            changed[at : at + 4] = address
            place, sum_at = header + port_at, header + 6
            changed[place : place + 2] = struct.pack("!H", port)
            (checksum,) = struct.unpack("!H", packet[sum_at : sum_at + 2])
            # 0: the sender has not computed a checksum (RFC 768).
            if checksum:
                old, new = packet[at : at + 4], bytes(address)
                checksum = adjusted(checksum, old, new)
                checksum = adjusted(checksum, packet[place : place + 2], changed[place : place + 2])
                changed[sum_at : sum_at + 2] = struct.pack("!H", checksum or 0xFFFF)
        (checksum,) = struct.unpack("!H", packet[10:12])
        checksum = adjusted(checksum, packet[8:10], changed[8:10])
        checksum = adjusted(checksum, packet[12:20], changed[12:20])
        changed[10:12] = struct.pack("!H", checksum)
        return bytes(changed)


def run(*words: str) -> str:
    """Runs a command; returns its output."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def open_device() -> int:
    """Creates the TUN device, and the rules that pass packets of both directions to it."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    Path(f"/proc/sys/net/ipv4/conf/{DEVICE}/rp_filter").write_text("0")
    run("ip", "link", "set", DEVICE, "up")
    (route,) = json.loads(run("ip", "-json", "route", "show", SERVERS))
    sides = [("eth0", SERVERS), (route["dev"], str(NETWORK))]
    for number, (name, target) in enumerate(sides, int(TABLE)):
        run("ip", "rule", "add", "pref", str(number), "iif", name, "to", target, "lookup", TABLE)
    # The last step: the simulator waits for this route.
    run("ip", "route", "add", "default", "dev", DEVICE, "table", TABLE)
    return device


def serve(first_s: float, interval_s: float, nat: Nat) -> None:
    """Translates packets until the process is killed; one rebinding if the interval is 0."""
    device = open_device()
    start = time.monotonic()
    due: float | None = start + first_s
    while True:
        now = time.monotonic()
        if due is not None and now >= due:
            for line in nat.rebind():
                print(f"{now - start:.3f} s: rebinding {line}", flush=True)
            due = due + interval_s if interval_s else None
        wait = None if due is None else max(0.0, due - now)
        if select.select([device], [], [], wait)[0]:
            packet = os.read(device, 1 << 16)
            if packet[0] >> 4 == 4 and (translated := nat.translate(packet)):
                os.write(device, translated)


if __name__ == "__main__":
    first, interval, changes, seed = sys.argv[1:]
    serve(float(first), float(interval), Nat(random.Random(seed), changes == "address"))
