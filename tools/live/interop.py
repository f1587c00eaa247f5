"""Transfers files with a QUIC implementation through the simulator of `examples/quic-interop`.

    python tools/live/interop.py [--python PYTHON] [--case NAME] [--logs FOLDER]

Client, simulator and server run in network namespaces with the addresses of the containers of the
QUIC Interop Runner, which needs root. Both endpoints are `endpoint.py`, run by PYTHON, an
interpreter with aioquic. Each case is checked as by the runner: files are equal byte by byte, both
captures contain decrypted QUIC, and the server sees the addresses that the scenario implies. The
exit code is 1 if a case fails. Needs `ip`, `nsenter`, `openssl`, `dumpcap` and `tshark`.
"""

# ruff: noqa: S603, S607, T201

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "examples" / "quic-interop" / "sim.py"
ENDPOINT = Path(__file__).with_name("endpoint.py")
P2P = "--delay=15ms --bandwidth=10Mbps --queue=25"
SERVERS = {4: "193.167.100.100", 6: "fd00:cafe:cafe:100::100"}
SIMS = {4: "193.167.0.2", 6: "fd00:cafe:cafe:0::2"}
# Types of frames (RFC 9000, section 19).
STREAM = frozenset(range(0x08, 0x10))
PATH_CHALLENGE, PATH_RESPONSE = 0x1A, 0x1B
# Maximum time of a case, as in the runner.
CASE_S = 60.0


@dataclass(frozen=True)
class Case:
    """A transfer of files of these sizes in bytes over a scenario."""

    name: str
    scenario: str
    sizes: tuple[int, ...]
    families: tuple[int, ...] = (4, 6)
    # Minimum number of client addresses and ports at the server.
    bindings: int = 1


MB = 1 << 20
CASES = (
    Case("transfer", f"simple-p2p {P2P}", (2 * MB, 3 * MB, 5 * MB)),
    Case("handshake", f"simple-p2p {P2P}", (1024,)),
    Case("long RTT", "simple-p2p --delay=750ms --bandwidth=10Mbps --queue=25", (1024,)),
    Case("multiplexing", f"simple-p2p {P2P}", (32,) * 100),
    Case("droplist", f"droplist {P2P} --drops_to_server=2,3,4,5,6,7", (5120,)),
    Case(
        "transfer loss",
        f"drop-rate {P2P} --rate_to_client=2 --rate_to_server=2 --burst_to_client=3"
        " --burst_to_server=3",
        (2 * MB,),
    ),
    Case(
        "handshake corruption",
        f"corrupt-rate {P2P} --rate_to_client=30 --rate_to_server=30 --burst_to_client=3"
        " --burst_to_server=3",
        (1024,),
    ),
    Case("blackhole", f"blackhole {P2P} --on=2s --off=2s", (5 * MB,)),
    Case("rebind port", f"rebind {P2P} --first-rebind=1s --rebind-freq=5s", (10 * MB,), (4,), 2),
    Case(
        "rebind address",
        f"rebind {P2P} --first-rebind=1s --rebind-freq=5s --rebind-addr",
        (10 * MB,),
        (4,),
        2,
    ),
    Case("TCP cross traffic", f"tcp-cross-traffic {P2P}", (1 * MB,)),
    # Its traffic starts after 20 s.
    Case("UDP cross traffic", f"udp-cross-traffic {P2P} --crossdatarate=5Mbps", (27 * MB,), (4,)),
    Case("selective repeat", f"arq-selective-repeat {P2P} --rate=5", (2 * MB,)),
    Case("Wi-Fi 6", f"wifi6-8m {P2P}", (2 * MB,)),
)


def shell(*words: str | Path) -> str:
    """Runs a command; returns its output."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def namespace() -> subprocess.Popen[bytes]:
    """Starts a process that keeps a separate network namespace, as a container has.

    Returns when the namespace exists and its loopback device is up: before that, `nsenter` enters
    the namespace of the caller.
    """
    keep = "ip link set lo up && echo ready && exec sleep 600"
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", keep], stdout=subprocess.PIPE)
    assert holder.stdout is not None  # noqa: S101
    with holder.stdout as lines:
        if lines.readline() != b"ready\n":
            raise OSError("a network namespace could not be created")
    return holder


@contextmanager
def containers() -> Iterator[dict[str, list[str]]]:
    """Namespaces of client, simulator and server with the addresses of the runner's containers.

    Yields:
        The commands that enter them.
    """
    names = ("client", "sim", "server")
    holders = {name: namespace() for name in names}
    enter = {name: ["nsenter", "--net", f"--target={one.pid}"] for name, one in holders.items()}
    try:
        for host, device, number in (("client", "eth0", 0), ("server", "eth1", 100)):
            sides = [(host, "eth0", "100"), ("sim", device, "2")]
            shell(
                *("ip", "link", "add", "eth0", "netns", str(holders[host].pid), "type", "veth"),
                *("peer", "name", device, "netns", str(holders["sim"].pid)),
            )
            for name, interface, last in sides:
                four, six = f"193.167.{number}.{last}/24", f"fd00:cafe:cafe:{number}::{last}/64"
                shell(*enter[name], "ip", "link", "set", interface, "up")
                shell(*enter[name], "ip", "addr", "add", four, "dev", interface)
                shell(*enter[name], "ip", "addr", "add", six, "dev", interface, "nodad")
            shell(
                *enter[host], "ip", "route", "add", "193.167.0.0/16", "via", f"193.167.{number}.2"
            )
            via = f"fd00:cafe:cafe:{number}::2"
            shell(*enter[host], "ip", "-6", "route", "add", "fd00:cafe:cafe::/48", "via", via)
        yield enter
    finally:
        for one in holders.values():
            one.kill()
            one.wait()


@contextmanager
def started(command: list[str], log: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **more})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Packet:
    """A datagram with QUIC in a capture."""

    source: str
    port: str
    is_short: bool
    frames: frozenset[int]


def packets(capture: Path, keys: Path) -> list[Packet]:
    """The datagrams of a capture, decrypted."""
    names = ("ip.src", "ipv6.src", "udp.srcport", "quic.header_form", "quic.frame_type")
    wanted = [word for name in names for word in ("-e", name)]
    command = ["tshark", "-r", str(capture), "-o", f"tls.keylog_file:{keys}", "-Y", "quic"]
    found = []
    for line in shell(*command, "-T", "fields", *wanted).splitlines():
        four, six, port, forms, frames = line.split("\t")
        kinds = frozenset(int(one, 0) for one in frames.split(",") if one)
        is_short = bool({"0", "False"} & set(forms.split(",")))
        found.append(Packet(four or six, port, is_short, kinds))
    return found


def transfer(case: Case, family: int, python: str, folder: Path) -> float:
    """Runs a case; returns the duration of the transfer in seconds.

    Raises:
        AssertionError: If a check fails.
        subprocess.SubprocessError: If an endpoint fails, or takes too long.
    """
    files, downloads, keys = folder / "www", folder / "downloads", folder / "keys.log"
    for one in (files, downloads):
        one.mkdir(parents=True)
    shell(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server"),
        *("-keyout", files / "key.pem", "-out", files / "cert.pem"),
    )
    names = [f"{number}.bin" for number in range(len(case.sizes))]
    for name, size in zip(names, case.sizes, strict=True):
        (files / name).write_bytes(secrets.token_bytes(size))
    own = {"SSLKEYLOGFILE": str(keys)}
    # The runner has a name here; a name server is not part of the namespaces.
    await_server = f"[{SERVERS[6]}]:443" if family == 6 else f"{SERVERS[4]}:443"
    sim = {"SCENARIO": case.scenario, "LOGS": str(folder), "WAITFORSERVER": await_server}
    with containers() as enter:
        server = [*enter["server"], python, str(ENDPOINT), "server", str(files)]
        entry = [*enter["sim"], sys.executable, str(ENTRY)]
        client = [*enter["client"], python, str(ENDPOINT), "client", SIMS[family]]
        with (
            started(server, folder / "server.log", **own),
            started(entry, folder / "sim.log", **sim) as simulator,
        ):
            done = subprocess.run(
                [*client, SERVERS[family], *names],
                cwd=downloads,
                env={**os.environ, **own},
                capture_output=True,
                text=True,
                timeout=CASE_S,
                check=False,
            )
            time.sleep(0.2)
            simulator.send_signal(signal.SIGTERM)
            code = simulator.wait(timeout=CASE_S)
    assert done.returncode == 0, done.stderr[-500:]  # noqa: S101
    assert code == 0, (folder / "sim.log").read_text()[-500:]  # noqa: S101
    for name in names:
        assert (downloads / name).read_bytes() == (files / name).read_bytes(), name  # noqa: S101
    check(case, family, folder, keys)
    return float(done.stdout)


def check(case: Case, family: int, folder: Path, keys: Path) -> None:
    """Checks the captures of a case.

    Raises:
        AssertionError: If one is wrong.
    """
    for side in ("left", "right"):
        seen = packets(folder / f"trace_node_{side}.pcap", keys)
        assert all((":" in one.source) == (family == 6) for one in seen), side  # noqa: S101
        # Frames of streams are visible only in decrypted packets.
        streams = [one for one in seen if STREAM & one.frames and one.source == SERVERS[family]]
        assert len(streams) >= sum(case.sizes) / 1500, f"{side}: {len(streams)}"  # noqa: S101
    # The last capture is that of the server's side. The simulator itself sends no short headers.
    clients = {
        (one.source, one.port) for one in seen if one.is_short and one.source != SERVERS[family]
    }
    assert len(clients) >= case.bindings, clients  # noqa: S101
    if case.bindings > 1:
        kinds = frozenset[int]().union(*(one.frames for one in seen))
        assert {PATH_CHALLENGE, PATH_RESPONSE} <= kinds, "no path validation"  # noqa: S101


def main() -> int:
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter with aioquic")
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--logs", type=Path, help="keep captures and logs in this folder")
    options = parser.parse_args()
    failed = 0
    print("| case | scenario | IP | files | time (s) | result |\n|---|---|---|---|---|---|")
    for case in CASES:
        if options.case not in case.name:
            continue
        for family in case.families:
            with tempfile.TemporaryDirectory() as temporary:
                folder = (options.logs or Path(temporary)) / f"{case.name}-{family}"
                try:
                    duration, result = f"{transfer(case, family, options.python, folder):.2f}", "ok"
                except (AssertionError, subprocess.SubprocessError) as error:
                    duration, result, failed = "–", f"{error}".replace("\n", " "), 1
            total = f"{len(case.sizes)} × {sum(case.sizes) // len(case.sizes):,} B"
            cells = (case.name, f"`{case.scenario}`", family, total, duration, result)
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
