"""Run `relay.c`, a minimal relay between two TUN devices in network namespaces of their own."""

# ruff: noqa: S603, S607

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

NEW_NETWORK = 0x4000_0000
SET_DEVICE, TUN_WITHOUT_HEADER = 0x4004_54CA, 0x1001
ADDRESSES = ("10.9.0.1", "10.9.0.2")


def build(folder: Path) -> Path:
    """Compile the relay; returns the program."""
    program = folder / "relay"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    return program


@contextmanager
def namespace() -> Iterator[int]:
    """A process with a separate network namespace."""
    with subprocess.Popen(["unshare", "-n", "sleep", "infinity"]) as process:
        own, other = Path("/proc/self/ns/net"), Path(f"/proc/{process.pid}/ns/net")
        while other.readlink() == own.readlink():
            time.sleep(0.01)
        try:
            yield process.pid
        finally:
            process.kill()


def tun(process: int, address: str, peer: str) -> int:
    """Open a TUN device in the namespace of `process`."""
    library = ctypes.CDLL(None, use_errno=True)
    spaces = [Path(f"/proc/{one}/ns/net") for one in ("self", process)]
    with spaces[0].open() as own, spaces[1].open() as other:
        library.setns(other.fileno(), NEW_NETWORK)
        try:
            device = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(device, SET_DEVICE, struct.pack("16sH22x", b"relay", TUN_WITHOUT_HEADER))
            command = ["ip", "address", "add", address, "peer", peer, "dev", "relay"]
            subprocess.run(command, check=True)
            subprocess.run(["ip", "link", "set", "relay", "up"], check=True)
        finally:
            library.setns(own.fileno(), NEW_NETWORK)
    return device


@contextmanager
def running(
    program: Path, delay: float, spin: float, folder: Path, commands: Sequence[Sequence[str]]
) -> Iterator[tuple[int, list[subprocess.Popen[bytes]]]]:
    """Run commands at the two ends of a relay: the process of the relay, and theirs.

    The first command runs at the end with the second address, to which the relay writes after
    `delay` nanoseconds, of which it polls during the last `spin`. The other command runs at the
    sending end.
    """
    with ExitStack() as stack:
        ends = [stack.enter_context(namespace()) for _ in ADDRESSES]
        devices = [
            tun(end, own, peer)
            for end, own, peer in zip(ends, ADDRESSES, reversed(ADDRESSES), strict=True)
        ]
        words = [str(program), *map(str, devices), str(int(delay)), str(int(spin))]
        relay = stack.enter_context(subprocess.Popen(words, pass_fds=devices))
        stack.callback(relay.kill)
        for device in devices:
            os.close(device)
        programs = [
            subprocess.Popen(["nsenter", "-t", str(end), "-n", *command], cwd=folder)
            for end, command in zip(reversed(ends), commands, strict=True)
        ]
        yield relay.pid, programs
