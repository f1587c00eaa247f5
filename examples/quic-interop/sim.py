#!/usr/bin/env python3
"""Entry point of a simulator container for the QUIC Interop Runner, with links of Lasthop.

The container has the interfaces eth0 (towards the client) and eth1 (towards the server). Each is
moved to a separate network namespace, which forwards packets between the interface and a live
link. `SCENARIO` selects the link; see docs/live.md. Environment: SCENARIO, WAITFORSERVER,
LASTHOP_SEED, LOGS (default: /logs).
"""

# ruff: noqa: S603, S607, T201

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Clients wait until this TCP port is open.
READY_PORT = 57832
# Networks of the two sides.
SIDES = {
    "left": ("eth0", ("193.167.0.0/24", "fd00:cafe:cafe::/64")),
    "right": ("eth1", ("193.167.100.0/24", "fd00:cafe:cafe:100::/64")),
}
# Addresses of the two hosts of the link, in the order of `between`.
LEFT, RIGHT = "10.71.0.1", "10.71.0.2"
# Port and payload in bytes of cross traffic.
CROSS_PORT, CROSS_BYTES = 5001, 1000
# Time at which UDP cross traffic starts.
CROSS_START_S = 20.0
# Maximum waiting times for the server and for the devices of the link.
SERVER_S, DEVICES_S = 10.0, 30.0
# Time after which dumpcap has read a packet (250 ms, `CAP_READ_TIMEOUT`), and a margin.
CAPTURE_S = 0.4
# A Markov chain has up to 16 states.
LONGEST_BURST = 15
# Options without a value.
FLAGS = ("rebind-addr",)


class Wrong(Exception):
    """An invalid `SCENARIO`."""


@dataclass
class Plan:
    """Link and losses that a value of `SCENARIO` requests."""

    link: dict[str, Any] = field(default_factory=dict)
    # A WLAN between the client and the link.
    wlan: dict[str, Any] = field(default_factory=dict)
    # Arguments of `lasthop live` instead of `link`.
    arguments: list[str] = field(default_factory=list)
    # Files next to the scenario.
    files: dict[str, str] = field(default_factory=dict)
    cross: list[str] = field(default_factory=list)
    # Arguments of nat.py without the seed.
    nat: list[str] = field(default_factory=list)


def losses(percent: str, burst: str | None) -> dict[str, Any]:
    """Errors with this loss in per cent, of which at most `burst` are consecutive."""
    if not percent.isdigit() or int(percent) > 100:
        raise Wrong(f"invalid rate `{percent}`: expected a whole number from 0 to 100")
    loss = int(percent) / 100
    if burst is None:
        return {"kind": "uniform", "loss": loss}
    if not burst.isdigit() or not 1 <= int(burst) <= LONGEST_BURST:
        raise Wrong(f"invalid burst `{burst}`: expected a whole number from 1 to {LONGEST_BURST}")
    # The state is the number of consecutive losses.
    last = int(burst)
    rows = [[0.0] * (last + 1) for _ in range(last + 1)]
    for state, row in enumerate(rows[:-1]):
        row[0], row[state + 1] = 1 - loss, loss
    rows[-1][0] = 1.0
    return {"kind": "markov-chain", "transitions": rows, "loss": [0.0] + [1.0] * last}


def listed(numbers: str | None) -> dict[str, Any]:
    """Errors that lose the packets with these numbers."""
    if not numbers:
        return {"kind": "none"}
    if not all(one.isdigit() and int(one) > 0 for one in numbers.split(",")):
        raise Wrong(f"invalid list `{numbers}`: expected numbers from 1 on, separated by commas")
    return {"kind": "listed", "lose": sorted({int(one) for one in numbers.split(",")})}


def seconds(text: str) -> float:
    """A time of ns-3, such as `5s` or `200ms`."""
    for unit, size in (("ms", 1e-3), ("us", 1e-6), ("s", 1.0)):
        number = text.removesuffix(unit)
        if number != text:
            try:
                return float(number) * size
            except ValueError:
                break
    raise Wrong(f"invalid time `{text}`: expected a number with s, ms or us")


def options_of(words: Sequence[str]) -> dict[str, str]:
    """Options `--name=value` or `--name value`; `--name` of those in `FLAGS`."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if name in FLAGS and not equals:
            equals, value = "=", "true"
        if not word.startswith("--") or not (equals or rest):
            raise Wrong(f"invalid word `{word}`: expected --NAME=VALUE")
        found[name] = value if equals else rest.pop(0)
    return found


def _drop_rate(plan: Plan, take: Callable[..., str | None]) -> None:
    for side, errors in (("server", plan.link), ("client", plan.link["reverse"])):
        errors["errors"] = losses(take(f"rate_to_{side}") or "", take(f"burst_to_{side}", False))


def _droplist(plan: Plan, take: Callable[..., str | None]) -> None:
    for side, errors in (("server", plan.link), ("client", plan.link["reverse"])):
        errors["errors"] = listed(take(f"drops_to_{side}", False))


def _blackhole(plan: Plan, take: Callable[..., str | None]) -> None:
    on, off = (seconds(take(name) or "") for name in ("on", "off"))
    direction = take("direction", False) or "both"
    if direction not in ("both", "toclient", "toserver"):
        raise Wrong(f"invalid direction `{direction}`: expected one of both, toclient, toserver")
    rows = ["0,up"]
    for number in range(int(take("repeat", False) or 1)):
        start = on + number * (on + off)
        rows += [f"{start},down", f"{start + off},up"]
    plan.files["blackhole.csv"] = "\n".join(rows) + "\n"
    errors = {"kind": "outages", "file": "blackhole.csv"}
    plan.link["errors"] = {"kind": "none"} if direction == "toclient" else errors
    plan.link["reverse"]["errors"] = {"kind": "none"} if direction == "toserver" else errors


def _tcp_cross(plan: Plan, _: Callable[..., str | None]) -> None:
    plan.cross = ["tcp"]


def _udp_cross(plan: Plan, take: Callable[..., str | None]) -> None:
    rate = take("crossdatarate") or ""
    units = {"kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "bps": 1.0}
    unit = next((one for one in units if rate.endswith(one)), None)
    try:
        bps = float(rate.removesuffix(unit or "")) * units[unit or ""]
    except (ValueError, KeyError):
        raise Wrong(f"invalid rate `{rate}`: expected a rate such as 5Mbps") from None
    plan.cross = ["udp", str(bps)]


def _rebind(plan: Plan, take: Callable[..., str | None]) -> None:
    first = seconds(take("first-rebind") or "")
    interval = seconds(take("rebind-freq", False) or "0s")
    flag = take("rebind-addr", False) or "false"
    if flag not in ("true", "false", "1", "0"):
        raise Wrong(f"invalid rebind-addr `{flag}`: expected true or false")
    kind = "address" if flag in ("true", "1") else "port"
    plan.nat = [str(first), str(interval), kind]


# Names of the simulator for QUIC.
KNOWN: dict[str, Callable[[Plan, Callable[..., str | None]], None]] = {
    "simple-p2p": lambda _plan, _take: None,
    "drop-rate": _drop_rate,
    # A changed packet fails authentication and is dropped by QUIC: a loss at the receiver.
    "corrupt-rate": _drop_rate,
    "droplist": _droplist,
    "blackhole": _blackhole,
    "rebind": _rebind,
    "tcp-cross-traffic": _tcp_cross,
    "udp-cross-traffic": _udp_cross,
}


def wlan(distance: str) -> dict[str, Any]:
    """A WLAN of 802.11ax as in the profile `wifi-6`, at this distance."""
    return {
        "access_point": "ap",
        "stations": ["left"],
        "standard": "802.11ax",
        "width": "80 MHz",
        "spatial_streams": 2,
        "snr": {"kind": "distance", "distance": distance},
        "fading": {"kind": "rician", "period": "50 ms"},
        "rate_control": "minstrel-ht",
        "queue": {"kind": "fq-codel"},
        "scheduler": "airtime",
    }


def plan_of(text: str) -> Plan:
    """Reads a value of `SCENARIO`."""
    name, *words = shlex.split(text) or [""]
    if name == "lasthop":
        if not words:
            raise Wrong("missing file: expected `lasthop FILE [--set KEY=VALUE]…`")
        return Plan(arguments=words)
    build = KNOWN.get(name)
    kind, dash, detail = name.partition("-")
    is_own = bool(dash and detail) and kind in ("arq", "wifi6")
    if build is None and not is_own:
        known = ", ".join([*KNOWN, "arq-PROTOCOL", "wifi6-DISTANCE", "lasthop FILE"])
        raise Wrong(f"unknown scenario `{name}`: expected one of {known}")
    given = options_of(words)

    def take(key: str, required: bool = True) -> str | None:
        if required and key not in given:
            raise Wrong(f"{name}: missing `--{key}`")
        return given.pop(key, None)

    plan = Plan()
    rate, delay, queue = (take(key) or "" for key in ("bandwidth", "delay", "queue"))
    if not queue.isdigit():
        raise Wrong(f"invalid queue `{queue}`: expected a number of packets")
    plan.link = {
        "between": ["left", "right"],
        "rate": rate,
        "delay": delay,
        # ns-3: a queue of this size, and a packet in the device. PPP adds 2 B.
        "queue": f"{int(queue) + 1} packets",
        "header": "2 B",
        "reverse": {},
    }
    if build:
        build(plan, take)
    elif kind == "wifi6":
        plan.link["between"] = ["ap", "right"]
        plan.wlan = wlan(detail)
    else:
        plan.link["header"] = "4 B"
        plan.link["protocol"] = detail
        plan.link["errors"] = losses(take("rate") or "", take("burst", False))
        del plan.link["reverse"]
    if given:
        raise Wrong(f"{name}: unknown option `--{next(iter(given))}`")
    if not plan.link.get("reverse", True):
        del plan.link["reverse"]
    return plan


def scenario_of(plan: Plan, seed: int) -> dict[str, Any]:
    """The scenario of a plan, for `lasthop live`."""
    scenario = {"name": "quic-interop", "link": {"path": plan.link}, "run": {"seed": seed}}
    return {**scenario, "wlan": {"home": plan.wlan}} if plan.wlan else scenario


def inside(pid: int, *words: str) -> list[str]:
    """A command in the network namespace of a process."""
    return ["nsenter", "--net", f"--target={pid}", *words]


def begin(words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a command that the kernel kills when this process dies."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *words], **options)


def run(*words: str) -> str:
    """Runs a command; returns its output."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def await_server(target: str) -> None:
    """Waits until a QUIC server answers an unknown version with Version Negotiation.

    Raises:
        TimeoutError: If none has answered.
    """
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    # Long header, version 0x1a2a3a4a, connection IDs of 8 B, padded.
    probe = bytes([0xC0]) + bytes.fromhex("1a2a3a4a") + (b"\x08" + b"lasthop0") * 2
    probe = probe.ljust(1207, b"\0")
    end = time.monotonic() + SERVER_S
    while time.monotonic() < end:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.settimeout(0.5)
                one.sendto(probe, address)
                answer = one.recv(2000)
            if answer[:1] >= b"\x80" and answer[1:5] == bytes(4):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"{target} has not answered in {SERVER_S:g} s")


def take_interface(pid: int, name: str) -> None:
    """Moves an interface to a namespace, with its addresses, and lets it forward packets."""
    (shown,) = json.loads(run("ip", "-json", "addr", "show", "dev", name))
    run("ip", "link", "set", name, "netns", str(pid))
    # Without detection of duplicate addresses, neighbour discovery works immediately.
    switches = ("ipv4/ip_forward=1", "ipv6/conf/all/forwarding=1", "ipv4/conf/all/rp_filter=0")
    switches = (*switches, f"ipv6/conf/{name}/accept_dad=0", "ipv6/conf/all/accept_dad=0")
    for switch in (*switches, f"ipv4/conf/{name}/rp_filter=0", "ipv4/conf/all/send_redirects=0"):
        path, value = switch.split("=")
        run(*inside(pid, "sh", "-c", f"echo {value} > /proc/sys/net/{path}"))
    run(*inside(pid, "ip", "link", "set", "lo", "up"))
    run(*inside(pid, "ip", "link", "set", name, "up"))
    for one in shown["addr_info"]:
        if one["scope"] == "global":
            address = f"{one['local']}/{one['prefixlen']}"
            flags = ["nodad"] if one["family"] == "inet6" else []
            run(*inside(pid, "ip", "addr", "replace", address, "dev", name, *flags))


def await_route(pid: int, what: str, *words: str) -> None:
    """Waits until a namespace has a route.

    Raises:
        TimeoutError: If it has not appeared.
    """
    end = time.monotonic() + DEVICES_S
    # A table of routes that does not exist yet is an error.
    while not subprocess.run(
        inside(pid, "ip", *words), capture_output=True, check=False
    ).stdout.strip():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} has not started")
        time.sleep(0.05)


def await_devices(pids: dict[str, int]) -> None:
    """Waits until each side has routes to the other one.

    Raises:
        TimeoutError: If they have not appeared.
    """
    for side, pid in pids.items():
        for network in SIDES["right" if side == "left" else "left"][1]:
            family = "-6" if ":" in network else "-4"
            await_route(pid, "the link", family, "route", "show", network)


def start(
    plan: Plan, seed: int, logs: Path, folder: Path, pids: dict[str, int]
) -> list[subprocess.Popen[bytes]]:
    """Starts the link and what observes it. The first process is the link."""
    for name, text in plan.files.items():
        (folder / name).write_text(text)
    arguments = plan.arguments
    if not arguments:
        path = folder / "scenario.json"
        path.write_text(json.dumps(scenario_of(plan, seed)))
        arguments = [str(path)]
    command = [sys.executable, "-m", "lasthop", "live", *arguments, "--seed", str(seed), "--quiet"]
    command += ["--json", str(logs / "lasthop.jsonl")]
    for side, pid in pids.items():
        command += ["--netns", f"{side}={pid}"]
        for network in SIDES[side][1]:
            command += ["--route", f"{side}={network}"]
    started = [begin(command)]
    for side, pid in pids.items():
        capture = capture_of(logs, side)
        capture.unlink(missing_ok=True)
        words = ["dumpcap", "-q", "-P", "-i", SIDES[side][0], "-w", str(capture)]
        started.append(begin(inside(pid, *words), stderr=subprocess.DEVNULL))
    return started


def capture_of(logs: Path, side: str) -> Path:
    """The capture at an interface."""
    return logs / f"trace_node_{side}.pcap"


def await_captures(logs: Path) -> None:
    """Waits until both captures run: dumpcap opens the interface, and then creates the file.

    Raises:
        TimeoutError: If one does not exist.
    """
    end = time.monotonic() + DEVICES_S
    while not all(capture_of(logs, side).exists() for side in SIDES):
        if time.monotonic() > end:
            raise TimeoutError(f"dumpcap has not started in {DEVICES_S:g} s")
        time.sleep(0.01)


def start_nat(plan: Plan, seed: int, pid: int) -> list[subprocess.Popen[bytes]]:
    """Starts the NAT of a plan, if any.

    Raises:
        TimeoutError: If it has not started.
    """
    if not plan.nat:
        return []
    program = Path(__file__).resolve().with_name("nat.py")
    words = [sys.executable, str(program), *plan.nat, str(seed)]
    started = begin(inside(pid, *words))
    try:
        await_route(pid, "the NAT", "route", "show", "table", "100")
    except TimeoutError:
        started.kill()
        raise
    return [started]


def helpers(plan: Plan, pids: dict[str, int]) -> list[subprocess.Popen[bytes]]:
    """Starts cross traffic, and opens the port for which clients wait."""
    own = [sys.executable, str(Path(__file__).resolve())]
    jobs = [(pid, ["ready"]) for pid in pids.values()]
    if plan.cross:
        kind, *rest = plan.cross
        jobs += [(pids["left"], [f"{kind}-sink"]), (pids["right"], [f"{kind}-source", *rest])]
    return [begin(inside(pid, *own, *words)) for pid, words in jobs]


def job(words: Sequence[str]) -> None:
    """Runs in a namespace until it is killed: the open port, or one end of cross traffic."""
    match words:
        case ["ready"]:
            listener = socket.create_server(
                ("", READY_PORT), family=socket.AF_INET6, dualstack_ipv6=True
            )
            with listener:
                signal.pause()
        case ["tcp-sink"]:
            with socket.create_server((LEFT, CROSS_PORT)) as listener, listener.accept()[0] as one:
                while one.recv(1 << 16):
                    pass
        case ["tcp-source"]:
            while True:
                try:
                    with socket.create_connection((LEFT, CROSS_PORT), 5) as one:
                        one.settimeout(None)
                        while True:
                            one.sendall(bytes(1 << 16))
                except OSError:
                    time.sleep(0.1)
        case ["udp-sink"]:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                one.bind((LEFT, CROSS_PORT))
                while one.recv(1 << 16):
                    pass
        case ["udp-source", rate]:
            interval = CROSS_BYTES * 8 / float(rate)
            due = time.monotonic() + CROSS_START_S
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                while True:
                    time.sleep(max(0.0, due - time.monotonic()))
                    one.sendto(bytes(CROSS_BYTES), (LEFT, CROSS_PORT))
                    due += interval


def main() -> int:
    """Runs the scenario until the link ends, or until SIGINT or SIGTERM."""
    if len(sys.argv) > 1:
        job(sys.argv[1:])
        return 0
    try:
        plan = plan_of(os.environ.get("SCENARIO", ""))
    except Wrong as error:
        print(f"SCENARIO: {error}", file=sys.stderr)
        return 1
    logs = Path(os.environ.get("LOGS") or "/logs")
    logs.mkdir(parents=True, exist_ok=True)
    stopped: list[int] = []
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda number, _: stopped.append(number))
    started: list[subprocess.Popen[bytes]] = []
    holders = [begin(["unshare", "--net", "sleep", "infinity"]) for _ in SIDES]
    try:
        if target := os.environ.get("WAITFORSERVER"):
            await_server(target)
        own = Path("/proc/self/ns/net").readlink()
        while any(Path(f"/proc/{one.pid}/ns/net").readlink() == own for one in holders):
            time.sleep(0.01)
        pids = {side: one.pid for side, one in zip(SIDES, holders, strict=True)}
        for side, pid in pids.items():
            take_interface(pid, SIDES[side][0])
        seed = int(os.environ.get("LASTHOP_SEED") or secrets.randbelow(2**32))
        print(f"seed {seed}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            started = start(plan, seed, logs, Path(folder), pids)
            await_devices(pids)
            await_captures(logs)
            started += start_nat(plan, seed, pids["left"])
            started += helpers(plan, pids)
            while not stopped and started[0].poll() is None:
                time.sleep(0.05)
            if stopped:
                # The last packets are still in the kernel's buffer.
                time.sleep(CAPTURE_S)
                started[0].send_signal(signal.SIGINT)
            return started[0].wait()
    except subprocess.CalledProcessError as error:
        print(f"{shlex.join(error.cmd)}: {error.stderr.strip()}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"sim: {error}", file=sys.stderr)
        return 1
    finally:
        for process in started[::-1]:
            process.terminate()
        for process in started:
            process.wait()
        for process in holders:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
