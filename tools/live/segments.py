"""Record how this kernel segments: `sudo unshare --net python tools/live/segments.py`.

A packet socket passes packets with a preamble (`struct virtio_net_hdr`) to a TUN device without
offloads, for which the kernel makes the segments. Each case is a line `case NAME`, a line `in` with
preamble (little-endian) and packet, and a line `out` for each packet that the device received, all
in hexadecimal. `crates/lasthop-live/tests/offload.rs` compares the segments of Lasthop with them.
"""

# ruff: noqa: T201

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
from collections.abc import Iterator

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SOL_PACKET, PACKET_VNET_HDR = 263, 15
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
NEEDS_CSUM, NONE, TCPV4, TCPV6, UDP_L4, ECN = 1, 0, 1, 4, 5, 0x80
PROTOCOLS = {"tcp": 6, "udp": 17}
# No operation, no operation, timestamps.
TIMESTAMPS = bytes.fromhex("0101080a0102030405060708")


def checksum(data: bytes) -> int:
    """The sum of RFC 1071, not inverted."""
    total = sum(number for (number,) in struct.iter_unpack("!H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def case(
    version: int,
    kind: str,
    data: int,
    segment: int,
    *,
    flags: int = 0x10,
    options: bytes = b"",
    ip_options: bytes = b"",
    ecn: bool = False,
    identification: int = 0xFFFE,
    sequence: int = 0xFFFFFF00,
) -> bytes:
    """A preamble and a packet with this many bytes of data; `segment` 0: a single packet."""
    payload = bytes((7 * i + 3) % 256 for i in range(data))
    if kind == "tcp":
        words = (5 + len(options) // 4) << 4
        ports = struct.pack("!HHII", 4000, 80, sequence, 77)
        header = ports + struct.pack("!BBHHH", words, flags, 500, 0, 0) + options
        place = 16
    else:
        header = struct.pack("!HHHH", 4000, 53, 8 + data, 0)
        place = 6
    length = len(header) + data
    protocol = PROTOCOLS[kind]
    if version == 4:
        addresses = bytes([10, 71, 0, 1, 10, 71, 0, 2])
        first = 0x45 + len(ip_options) // 4
        total = 20 + len(ip_options) + length
        ip = struct.pack("!BBHHHBBH", first, 2, total, identification, 0x4000, 64, protocol, 0)
        ip += addresses + ip_options
        ip = ip[:10] + struct.pack("!H", checksum(ip) ^ 0xFFFF) + ip[12:]
    else:
        addresses = bytes.fromhex("fd71" + 27 * "0" + "1" + "fd71" + 27 * "0" + "2")
        ip = struct.pack("!IHBB", 0x60212345, length, protocol, 64) + addresses
    pseudo = checksum(addresses + struct.pack("!IHH", length, 0, protocol))
    header = header[:place] + struct.pack("!H", pseudo) + header[place + 2 :]
    gso = {(4, "tcp"): TCPV4, (6, "tcp"): TCPV6}.get((version, kind), UDP_L4) if segment else NONE
    gso |= ECN if ecn else 0
    start = len(ip)
    preamble = (NEEDS_CSUM, gso, start + len(header), segment, start, place)
    return struct.pack("<BBHHHH", *preamble) + ip + header + payload


CASES = {
    "one TCP segment over IPv4": case(4, "tcp", 33, 0),
    "one datagram over IPv6": case(6, "udp", 33, 0),
    "TCP over IPv4, the last segment shorter": case(4, "tcp", 250, 100, flags=0x18),
    "TCP over IPv4, equal segments, options": case(4, "tcp", 300, 100, options=TIMESTAMPS),
    "TCP over IPv4, odd lengths, FIN": case(4, "tcp", 155, 51, flags=0x19),
    "TCP over IPv4, CWR": case(4, "tcp", 300, 100, flags=0xD8, ecn=True),
    "TCP over IPv4 with options of IPv4": case(4, "tcp", 200, 90, ip_options=bytes([1, 1, 1, 0])),
    "TCP over IPv6, options, PSH": case(6, "tcp", 250, 100, flags=0x18, options=TIMESTAMPS),
    "TCP over IPv6, CWR": case(6, "tcp", 300, 100, flags=0xD0, ecn=True),
    "datagrams over IPv4": case(4, "udp", 250, 100),
    "datagrams over IPv6": case(6, "udp", 251, 101),
}


def device() -> int:
    """A TUN device without offloads that is up."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", b"segments", IFF_TUN | IFF_NO_PI))
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"segments", IFF_UP))
    return file


def received(file: int) -> Iterator[bytes]:
    """The packets that wait in the device."""
    while select.select([file], [], [], 0.2)[0]:
        yield os.read(file, 70_000)


def main() -> None:
    """Records all cases."""
    file = device()
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    out.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    print(f"# Linux {os.uname().release}, by tools/live/segments.py")
    for name, packet in CASES.items():
        out.sendto(packet, ("segments", 0x0800 if packet[10] >> 4 == 4 else 0x86DD))
        print(f"case {name}\nin {packet.hex()}")
        for got in received(file):
            if got[0] >> 4 == 4 or got[6] in PROTOCOLS.values():
                print(f"out {got.hex()}")


if __name__ == "__main__":
    main()
