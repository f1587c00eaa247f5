"""The simulator container for the QUIC Interop Runner, with namespaces in place of containers."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from test_live import PATIENCE_S, why_not

ENTRY = Path(__file__).parents[1] / "examples" / "quic-interop" / "sim.py"
TOOL = Path(__file__).parents[1] / "tools" / "live"
P2P = "--delay=15ms --bandwidth=10Mbps --queue=25"


@pytest.fixture(name="permitted", scope="module")
def _permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


def load(name: str, folder: Path = ENTRY.parent) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sim() -> ModuleType:
    return load("sim")


def test_scenarios_are_those_of_the_simulator(sim: ModuleType) -> None:
    """Parameters of the runner's tests; `quic-network-simulator`, README and scenarios."""
    link = sim.plan_of(f"simple-p2p {P2P}").link
    # 25 packets and one in the device; PPP adds 2 B.
    assert (link["queue"], link["header"], link["rate"], link["delay"]) == (
        *("26 packets", "2 B"),
        *("10Mbps", "15ms"),
    )
    droplist = sim.plan_of(f"droplist {P2P} --drops_to_server=2,3,4,5,6,7").link
    assert droplist["errors"] == {"kind": "listed", "lose": [2, 3, 4, 5, 6, 7]}
    assert droplist["reverse"]["errors"] == {"kind": "none"}
    words = "--rate_to_client=30 --rate_to_server 2 --burst_to_client=3"
    rate = sim.plan_of(f"drop-rate {P2P} {words}").link
    assert rate["errors"] == {"kind": "uniform", "loss": 0.02}
    # After three consecutive losses a packet passes.
    chain = rate["reverse"]["errors"]
    assert chain["loss"] == [0.0, 1.0, 1.0, 1.0]
    assert chain["transitions"][0] == [0.7, 0.3, 0.0, 0.0]
    assert chain["transitions"][3] == [1.0, 0.0, 0.0, 0.0]
    hole = sim.plan_of(f"blackhole {P2P} --on=5s --off=2s --repeat=2 --direction=toclient")
    assert hole.files == {"blackhole.csv": "0,up\n5.0,down\n7.0,up\n12.0,down\n14.0,up\n"}
    assert hole.link["errors"] == {"kind": "none"}
    assert sim.plan_of(f"udp-cross-traffic {P2P} --crossdatarate=5Mbps").cross == [
        "udp",
        "5000000.0",
    ]
    assert sim.plan_of("lasthop a.toml --set b=c").arguments == ["a.toml", "--set", "b=c"]
    arq = sim.plan_of(f"arq-selective-repeat {P2P} --rate=5").link
    assert arq["protocol"] == "selective-repeat"
    rebind = sim.plan_of(f"rebind {P2P} --first-rebind=1s --rebind-freq=5s --rebind-addr")
    assert rebind.nat == ["1.0", "5.0", "address"]
    assert sim.plan_of(f"rebind {P2P} --first-rebind=1s").nat == ["1.0", "0.0", "port"]
    wifi = sim.plan_of(f"wifi6-8m {P2P}")
    assert (wifi.link["between"], wifi.wlan["snr"]["distance"]) == (["ap", "right"], "8m")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown scenario ``"),
        (f"wifi6- {P2P}", "unknown scenario `wifi6-`"),
        (f"rebind {P2P}", "rebind: missing `--first-rebind`"),
        (f"rebind {P2P} --first-rebind=1s --rebind-addr=2", "invalid rebind-addr `2`"),
        ("simple-p2p --delay=15ms --queue=25", "missing `--bandwidth`"),
        (f"drop-rate {P2P} --rate_to_client=3", "missing `--rate_to_server`"),
        (f"drop-rate {P2P} --rate_to_server=1.5 --rate_to_client=3", "whole number from 0 to 100"),
        (f"droplist {P2P} --drops_to_server=0,1", "numbers from 1 on"),
        (f"simple-p2p {P2P} --loss=1", "unknown option `--loss`"),
        (f"blackhole {P2P} --on=5 --off=2s", "invalid time `5`"),
    ],
)
def test_other_scenarios_are_rejected(text: str, message: str) -> None:
    done = subprocess.run(
        [sys.executable, ENTRY],
        env={**os.environ, "SCENARIO": text},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        f"simple-p2p {P2P}",
        f"drop-rate {P2P} --rate_to_client=30 --rate_to_server=30 --burst_to_server=3",
        f"corrupt-rate {P2P} --rate_to_client=2 --rate_to_server=2",
        f"droplist {P2P} --drops_to_server=2,3",
        f"blackhole {P2P} --on=5s --off=2s",
        f"tcp-cross-traffic {P2P}",
        f"udp-cross-traffic {P2P} --crossdatarate=1Mbps",
        f"arq-rlc-am {P2P} --rate=5",
        f"rebind {P2P} --first-rebind=1s",
        f"wifi6-8m {P2P}",
    ],
)
def test_scenarios_are_valid(sim: ModuleType, tmp_path: Path, text: str) -> None:
    plan = sim.plan_of(text)
    for name, content in plan.files.items():
        (tmp_path / name).write_text(content)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(sim.scenario_of(plan, 1)))
    done = subprocess.run(
        [sys.executable, "-m", "lasthop", "check", path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def containers() -> Iterator[dict[str, list[str]]]:
    """The commands that enter the namespaces of client, simulator and server."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with load("interop", TOOL).containers() as enter:
        yield enter


# Answers each datagram with its ECN field and TTL.
ECHO = """
import socket, sys
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
    one.bind(("", 443))
    one.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    one.setsockopt(socket.IPPROTO_IP, 12, 1)  # IP_RECVTTL
    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
    while True:
        data, extra, _, address = one.recvmsg(2000, 200)
        if data[:1] == b"\\xc0":
            one.sendto(b"\\x80" + bytes(4) + data[5:30], address)  # Version Negotiation
            continue
        # IP_TOS and IPV6_TCLASS; IP_TTL and IPV6_HOPLIMIT.
        fields = {(level, kind): value[0] for level, kind, value in extra}
        mark = fields.get((0, 1), fields.get((41, 67)))
        hops = fields.get((0, 2), fields.get((41, 52)))
        one.sendto(data + f" {mark} {hops}".encode(), address)
"""

# Sends ten numbered datagrams to each family's address of the server, once the port is open.
ASK = """
import socket, time
for host in ("193.167.0.2", "fd00:cafe:cafe:0::2"):
    for _ in range(300):
        try: socket.create_connection((host, 57832), 5).close()
        except OSError: time.sleep(0.1)
        else: break
    else: raise SystemExit("not ready")
for family, host in ((2, "193.167.100.100"), (10, "fd00:cafe:cafe:100::100")):
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.setsockopt(*((0, socket.IP_TOS) if family == 2 else (41, socket.IPV6_TCLASS)), 1)
        one.settimeout(2)
        for number in range(10):
            one.sendto(str(number).encode(), (host, 443)); time.sleep(0.02)
        answers = []
        try:
            while len(answers) < 10: answers.append(one.recv(2000).decode())
        except TimeoutError: pass
    print(host, *answers, sep=",")
"""


def exchange(
    containers: dict[str, list[str]], environment: dict[str, str], answer: str, ask: str
) -> tuple[str, str]:
    """Runs programs in the server and the client, with the simulator between them.

    Returns:
        The output of the simulator and that of the client.
    """
    started: list[subprocess.Popen[Any]] = [
        subprocess.Popen([*containers["server"], sys.executable, "-c", answer])
    ]
    try:
        run = subprocess.Popen(
            [*containers["sim"], sys.executable, ENTRY],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(run)
        done = subprocess.run(
            [*containers["client"], sys.executable, "-c", ask],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        run.send_signal(signal.SIGTERM)
        output, _ = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 0, output
    finally:
        for one in started:
            one.kill()
            one.wait()
    return output, done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_packets_of_both_families_cross_and_listed_ones_are_lost(
    containers: dict[str, list[str]], tmp_path: Path
) -> None:
    scenario = f"droplist {P2P} --drops_to_server=2,4 --drops_to_client=15"
    environment = {
        **os.environ,
        "SCENARIO": scenario,
        "LOGS": str(tmp_path),
        "LASTHOP_SEED": "7",
        "WAITFORSERVER": "193.167.100.100:443",
    }
    output, text = exchange(containers, environment, ECHO, ASK)
    assert "seed 7" in output
    # ECT(1) passes untouched; two routers decrement the TTL of 64.
    answer = [f"{number} 1 62" for number in range(10)]
    four, six = (line.split(",") for line in text.splitlines())
    assert four[1:] == [one for number, one in enumerate(answer, 1) if number not in (2, 4)]
    # Of 18 answers, the 15th is the seventh of IPv6.
    assert six[1:] == [one for number, one in enumerate(answer, 1) if number != 7]
    for side, count in (("left", 37), ("right", 36)):
        shown = subprocess.run(
            ["tshark", "-r", tmp_path / f"trace_node_{side}.pcap", "-Y", "udp.port == 443"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert len(shown.stdout.splitlines()) == count


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071); 0 for data that contains a correct one."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp(source: tuple[str, int], destination: tuple[str, int], data: bytes) -> bytes:
    """A packet with correct checksums; `data` has an even length."""
    addresses = socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    size = 8 + len(data)
    ports = struct.pack("!3H", source[1], destination[1], size)
    pseudo = addresses + struct.pack("!2H", 17, size) + ports + bytes(2) + data
    head = struct.pack("!BBHHHBBH", 0x45, 1, 20 + size, 7, 0x4000, 61, 17, 0)
    head = head[:10] + struct.pack("!H", checksum(head + addresses)) + addresses
    return head + ports + struct.pack("!H", checksum(pseudo)) + data


def test_a_nat_translates_both_directions_and_forgets_earlier_bindings() -> None:
    module = load("nat")
    client, server = ("193.167.0.100", 4000), ("193.167.100.100", 443)
    nat = module.Nat(random.Random(1), changes_address=True)
    data = b"0123456789"
    # Only the TTL changes before the first rebinding.
    sent = nat.translate(udp(client, server, data))
    assert sent[12:24] == udp(client, server, data)[12:24]
    (line,) = nat.rebind()
    before, _, outer = line.partition(" -> ")
    assert before == "193.167.0.100:4000"
    address, _, port = outer.partition(":")
    assert address not in ("193.167.0.1", "193.167.0.2", "193.167.0.100")
    bound = (address, int(port))
    sent = nat.translate(udp(client, server, data))
    # The TTL grows by one; both checksums are correct.
    expected = bytearray(udp(bound, server, data))
    assert (sent[8], sent[12:]) == (62, expected[12:])
    assert checksum(sent[:20]) == 0
    answer = nat.translate(udp(server, bound, data))
    assert answer[12:] == udp(server, client, data)[12:]
    # Earlier bindings, unknown ports and other hosts.
    for target in (client, (address, 4000), ("193.167.0.100", bound[1])):
        assert nat.translate(udp(server, target, data)) is None
    # A datagram without a checksum keeps none; other protocols keep their addresses.
    bare = bytearray(udp(client, server, data))
    bare[26:28] = bytes(2)
    assert nat.translate(bytes(bare))[26:28] == bytes(2)
    bare[9] = 6
    assert nat.translate(bytes(bare))[12:] == bytes(bare[12:])


# Answers each datagram with the address of its sender.
MIRROR = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.bind(("", 443))
    while True:
        data, address = one.recvfrom(2000)
        one.sendto(data + f" {address[0]} {address[1]}".encode(), address)
"""

# Sends 30 numbered datagrams in 3 s from one port, once the simulator is ready.
PROBE = """
import socket, time
for _ in range(300):
    try: socket.create_connection(("193.167.0.2", 57832), 5).close()
    except OSError: time.sleep(0.1)
    else: break
else: raise SystemExit("not ready")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.bind(("", 4000))
    one.settimeout(2)
    for number in range(30):
        one.sendto(str(number).encode(), ("193.167.100.100", 443)); time.sleep(0.1)
    try:
        while True: print(one.recv(2000).decode())
    except TimeoutError: pass
"""


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
@pytest.mark.parametrize("scenario", ["rebind", "wifi6"])
def test_a_client_is_seen_at_its_bindings(
    containers: dict[str, list[str]], tmp_path: Path, scenario: str
) -> None:
    rebinds = scenario == "rebind"
    name = "rebind" if rebinds else "wifi6-8m"
    options = " --first-rebind=1s --rebind-freq=1s --rebind-addr" if rebinds else ""
    environment = {**os.environ, "SCENARIO": f"{name} {P2P}{options}", "LOGS": str(tmp_path)}
    environment["LASTHOP_SEED"] = "3"
    output, text = exchange(containers, environment, MIRROR, PROBE)
    answers = [line.split() for line in text.splitlines()]
    # Datagrams whose answer was in flight at a rebinding are lost.
    assert len(answers) >= 26
    seen = list(dict.fromkeys((address, int(port)) for _, address, port in answers))
    if not rebinds:
        assert seen == [("193.167.0.100", 4000)]
        return
    bound = [line.split(" -> ")[1] for line in output.splitlines() if "rebinding" in line]
    assert len(seen) >= 3
    expected = ["193.167.0.100:4000", *bound]
    assert [f"{address}:{port}" for address, port in seen] == expected[: len(seen)]
    assert len({address for address, _ in seen}) == len(seen)


@pytest.mark.slow
def test_a_server_that_does_not_answer_ends_the_simulator(
    containers: dict[str, list[str]], sim: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim, "SERVER_S", 1.0)
    with pytest.raises(TimeoutError, match="has not answered"):
        sim.await_server("127.0.0.1:9")


def interpreter() -> str:
    """An interpreter that has aioquic; empty if none is known."""
    python = os.environ.get("LASTHOP_AIOQUIC", sys.executable)
    done = subprocess.run([python, "-c", "import aioquic"], capture_output=True, check=False)
    return "" if done.returncode else python


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
@pytest.mark.parametrize("name", ["droplist", "rebind address"])
def test_files_cross_by_a_quic_implementation(tmp_path: Path, name: str) -> None:
    """Checks of the tool: equal files, decrypted captures of both sides, validated paths."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not (python := interpreter()):
        pytest.skip("aioquic is not installed")
    tool = load("interop", TOOL)
    (case,) = (one for one in tool.CASES if one.name == name)
    assert 0 < tool.transfer(case, case.families[-1], python, tmp_path) < tool.CASE_S


def test_captures_without_the_packets_of_a_transfer_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = load("interop", TOOL)
    case = tool.Case("a", "rebind", (3000,), (4,), 2)
    server, client = tool.SERVERS[4], "193.167.0.100"
    data = [tool.Packet(server, "443", True, frozenset([0x08]))] * 2
    paths = [tool.Packet(client, port, True, frozenset([0x1B, 0x1A])) for port in ("1", "2")]
    probe = tool.Packet("193.167.0.2", "9", False, frozenset())

    def judge(seen: list[Any]) -> None:
        monkeypatch.setattr(tool, "packets", lambda _capture, _keys: seen)
        tool.check(case, 4, tmp_path, tmp_path)

    judge([*data, *paths, probe])
    # Too few packets with data, IPv6, a single binding, and paths that were not validated.
    stray = tool.Packet("fd00::1", "1", True, frozenset())
    silent = [tool.Packet(client, port, True, frozenset()) for port in ("1", "2")]
    for wrong in ([*data[:1], *paths], [*data, *paths, stray], [*data, paths[0], probe]):
        with pytest.raises(AssertionError):
            judge(wrong)
    with pytest.raises(AssertionError, match="path validation"):
        judge([*data, *silent])


# Sends a datagram to the IPv6 address of the server as soon as the port is open.
HURRY = """
import socket, time
for _ in range(3000):
    try: socket.create_connection(("fd00:cafe:cafe:0::2", 57832), 5).close()
    except OSError: time.sleep(0.01)
    else: break
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
    one.settimeout(10)
    one.sendto(b"0", ("fd00:cafe:cafe:100::100", 443))
    print(one.recv(2000).decode())
"""


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_ipv6_is_ready_with_the_port(containers: dict[str, list[str]], tmp_path: Path) -> None:
    """Neighbour discovery needs a link-local address, which must not be tentative for a second."""
    environment = {**os.environ, "SCENARIO": f"simple-p2p {P2P}", "LOGS": str(tmp_path)}
    _, text = exchange(containers, environment, ECHO, HURRY)
    assert text == "0 0 62\n"
    times = []
    for side in ("left", "right"):
        capture = ["tshark", "-r", str(tmp_path / f"trace_node_{side}.pcap")]
        accept = ["-Y", "ipv6.src == fd00:cafe:cafe::100 and udp.dstport == 443"]
        fields = ["-T", "fields", "-e", "frame.time_epoch"]
        shown = subprocess.run([*capture, *accept, *fields], capture_output=True, text=True)
        times.append(float(shown.stdout))
    # The delay is 15 ms.
    assert 0.015 <= times[1] - times[0] < 0.7


# Returns once the simulator is ready.
READY = """
import socket, time
while True:
    try: socket.create_connection(("193.167.0.2", 57832), 5).close(); break
    except OSError: time.sleep(0.1)
"""


def marked(mark: str) -> list[str]:
    """Commands of the processes whose environment has `mark`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_text(errors="replace"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_nothing_is_left_of_a_killed_simulator(
    containers: dict[str, list[str]], tmp_path: Path
) -> None:
    mark = f"LASTHOP_TEST_{os.getpid()}_{tmp_path.name}"
    environment = {**os.environ, "SCENARIO": f"simple-p2p {P2P}", "LOGS": str(tmp_path), mark: "1"}
    run = subprocess.Popen([*containers["sim"], sys.executable, ENTRY], env=environment)
    try:
        ready = [*containers["client"], sys.executable, "-c", READY]
        subprocess.run(ready, check=True, timeout=PATIENCE_S)
        # The link, two captures, two open ports, two holders of namespaces.
        assert len(marked(mark)) >= 8
    finally:
        run.kill()
        run.wait()
    end = time.monotonic() + PATIENCE_S
    while marked(mark):
        assert time.monotonic() < end, marked(mark)
        time.sleep(0.05)
