"""A file over a kernel's TCP, checked to the byte: `python -m lasthop.running.live.transfer`.

`receive` listens, takes the file and says whether it is whole; `send` opens the connection, as the
sender of a simulated transfer does, and prints what the kernel counted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import random
import socket
import struct
import sys
import termios
import time
from pathlib import Path

__all__ = ["PORT"]

PORT = 5001
PATIENCE_S = 300.0
# How often the sender asks whether everything has been acknowledged.
LOOK_S = 0.000_5
OPENING_S = 10.0

# What the kernel counts, by the name of the metric of a simulated flow.
COUNTS = {
    "timeouts": "TCPTimeouts",
    "tail_probes": "TCPLossProbes",
    "retransmissions": "RetransSegs",
}


def contents(size: int, seed: int) -> bytes:
    """The file number `seed`."""
    return random.Random(seed).randbytes(size)  # noqa: S311 - a file to send


def counters() -> dict[str, int]:
    """The counters of this network namespace."""
    found: dict[str, int] = {}
    for table in ("snmp", "netstat"):
        lines = Path(f"/proc/thread-self/net/{table}").read_text("ascii").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            pairs = zip(names.split()[1:], values.split()[1:], strict=False)
            found.update({name: int(value) for name, value in pairs})
    return found


def receive(size: int, seed: int) -> int:
    """Takes one file, and tells its sender whether it is the right one."""
    with socket.create_server(("", PORT)) as server:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            digest, received = hashlib.sha256(), 0
            while data := connection.recv(1 << 16):
                digest.update(data)
                received += len(data)
            is_whole = digest.digest() == hashlib.sha256(contents(size, seed)).digest()
            connection.sendall(b"whole" if is_whole and received == size else b"other")
    return 0 if is_whole else 1


def unacknowledged(connection: socket.socket) -> int:
    """Bytes that the other end has not acknowledged."""
    number: int = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0]
    return number


def opened(host: str, congestion: str | None) -> tuple[socket.socket, float]:
    """A connection, and when its opening began; the other end may be a moment late."""
    give_up = time.monotonic() + OPENING_S
    while True:
        connection = socket.socket()
        if congestion is not None:
            # Root of a namespace may choose any that the kernel has, which a sysctl refuses.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        connection.settimeout(PATIENCE_S)
        start = time.monotonic()
        try:
            connection.connect((host, PORT))
        except ConnectionRefusedError:
            connection.close()
            if start > give_up:
                raise
            time.sleep(0.05)
        else:
            return connection, start


def send(host: str, size: int, seed: int, congestion: str | None = None) -> int:
    """Sends the file, and prints how long it took until all of it was acknowledged."""
    data = contents(size, seed)
    before = counters()
    connection, start = opened(host, congestion)
    with connection:
        connection.sendall(data)
        while unacknowledged(connection):
            time.sleep(LOOK_S)
        seconds = time.monotonic() - start
        after = counters()
        connection.shutdown(socket.SHUT_WR)
        is_whole = connection.recv(16) == b"whole"
    told: dict[str, float] = {name: after[key] - before[key] for name, key in COUNTS.items()}
    told |= {"duration_s": seconds, "goodput_bps": 8 * size / seconds, "whole": is_whole}
    sys.stdout.write(json.dumps(told) + "\n")
    return 0 if is_whole else 1


def main(arguments: list[str]) -> int:
    """Sends or receives."""
    match arguments:
        case ["receive", size, seed]:
            return receive(int(size), int(seed))
        case ["send", host, size, seed]:
            return send(host, int(size), int(seed))
        case ["send", host, size, seed, congestion]:
            return send(host, int(size), int(seed), congestion)
    sys.stderr.write("usage: receive SIZE SEED | send HOST SIZE SEED [CONGESTION]\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
