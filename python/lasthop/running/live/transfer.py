"""File transfer over the kernel's TCP, with a checksum: `python -m lasthop.running.live.transfer`.

`receive` listens, receives the file and reports whether it is complete. `send` opens the
connection, like the sender of a simulated transfer, and prints the kernel's counters.
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
import threading
import time
from pathlib import Path

__all__ = ["PORT"]

PORT = 5001
TIMEOUT_S = 300.0
# Interval between the sender's checks whether all data is acknowledged.
POLL_S = 0.000_5
OPENING_S = 10.0

# Interval at which a program checks whether it obtains a processor in time.
BEAT_S = 0.002

# Counters of the kernel, by the corresponding metric of a simulated flow.
COUNTS = {
    "timeouts": "TCPTimeouts",
    "tail_probes": "TCPLossProbes",
    "retransmissions": "RetransSegs",
}


class Heartbeat:
    """A thread that measures how late this process obtains a processor, until `stop`."""

    def __init__(self) -> None:
        self._ended, self._most = threading.Event(), 0.0
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        due = time.monotonic() + BEAT_S
        while not self._ended.wait(BEAT_S):
            now = time.monotonic()
            self._most = max(self._most, now - due)
            due = now + BEAT_S

    def stop(self) -> float:
        """Returns the maximum lateness in seconds."""
        self._ended.set()
        self._thread.join()
        return self._most


def contents(size: int, seed: int) -> bytes:
    """Returns the contents of the file number `seed`."""
    return random.Random(seed).randbytes(size)  # noqa: S311 - a file to send


def counters() -> dict[str, int]:
    """Returns the counters of this network namespace."""
    found: dict[str, int] = {}
    for table in ("snmp", "netstat"):
        lines = Path(f"/proc/thread-self/net/{table}").read_text("ascii").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            pairs = zip(names.split()[1:], values.split()[1:], strict=False)
            found.update({name: int(value) for name, value in pairs})
    return found


def receive(size: int, seed: int) -> int:
    """Receives one file and reports to its sender whether it is correct."""
    with socket.create_server(("", PORT)) as server:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            heartbeat = Heartbeat()
            digest, received = hashlib.sha256(), 0
            while data := connection.recv(1 << 16):
                digest.update(data)
                received += len(data)
            late = heartbeat.stop()
            is_whole = digest.digest() == hashlib.sha256(contents(size, seed)).digest()
            is_whole = is_whole and received == size
            answer = {"whole": is_whole, "programs_late_s": late}
            connection.sendall(json.dumps(answer).encode())
    return 0 if is_whole else 1


def unacknowledged(connection: socket.socket) -> int:
    """Returns the number of bytes that are not acknowledged."""
    number: int = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0]
    return number


def opened(host: str, congestion: str | None) -> tuple[socket.socket, float]:
    """Opens a connection, retrying until the receiver listens; returns it and its start time."""
    give_up = time.monotonic() + OPENING_S
    while True:
        connection = socket.socket()
        if congestion is not None:
            # The root of a namespace may select any available algorithm, unlike with a sysctl.
            try:
                connection.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode()
                )
            except OSError as error:
                listed = "net.ipv4.tcp_allowed_congestion_control"
                raise SystemExit(
                    f"cannot use {congestion}: {error.strerror}: it must be a module of the kernel "
                    f"(`modprobe tcp_{congestion}`) and, without CAP_NET_ADMIN, in {listed}"
                ) from None
        connection.settimeout(TIMEOUT_S)
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
    """Sends the file and prints the time until all data is acknowledged."""
    data = contents(size, seed)
    before = counters()
    heartbeat = Heartbeat()
    connection, start = opened(host, congestion)
    with connection:
        connection.sendall(data)
        while unacknowledged(connection):
            time.sleep(POLL_S)
        seconds = time.monotonic() - start
        late = heartbeat.stop()
        after = counters()
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            # A receiver that failed does not answer.
            found = json.loads(answer.read() or "{}")
    late, is_whole = max(late, found.get("programs_late_s", 0.0)), found.get("whole", False)
    result: dict[str, float] = {name: after[key] - before[key] for name, key in COUNTS.items()}
    result |= {"duration_s": seconds, "goodput_bps": 8 * size / seconds, "whole": is_whole}
    result["programs_late_s"] = late
    sys.stdout.write(json.dumps(result) + "\n")
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
