"""Live runs: hosts and interfaces that exist before the run, and networks behind hosts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from test_live import ENVIRONMENT, PATIENCE_S, live, namespace, why_not
from test_live_control import INTERRUPTIBLE, LINK, command


@pytest.fixture(name="permitted", scope="module")
def _permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(name="lossless")
def _lossless(permitted: None, tmp_path: Path) -> Path:
    """The scenario of a link without losses, for root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    path = tmp_path / "link.toml"
    path.write_text(LINK.replace("1 %", "0 %"))
    return path


@pytest.mark.slow
def test_existing_namespaces_are_hosts(lossless: Path, tmp_path: Path) -> None:
    path, lines = lossless, tmp_path / "a.jsonl"
    holders = [namespace() for _ in range(2)]
    enter = [["nsenter", "--net", f"--target={holder.pid}"] for holder in holders]
    started = list(holders)
    try:
        names = [
            f"{host}={one.pid}" for host, one in zip(("server", "client"), holders, strict=True)
        ]
        run = subprocess.Popen(
            [
                *(*INTERRUPTIBLE, str(path), "--quiet", "--json", str(lines)),
                *(word for name in names for word in ("--netns", name)),
            ],
            env=ENVIRONMENT,
        )
        started.append(run)
        ask = "import socket; s=socket.create_server(('10.71.0.1',80)); c,_=s.accept(); c.recv(9)"
        listen = subprocess.Popen(
            [
                *enter[0],
                "sh",
                "-c",
                (f'until {sys.executable} -c "{ask}" 2>/dev/null; do sleep 0.1; done'),
            ]
        )
        started.append(listen)
        connect = (
            "import socket,time\n"
            "for _ in range(300):\n"
            "    try: s=socket.create_connection(('10.71.0.1',80),5)\n"
            "    except OSError: time.sleep(.1)\n"
            "    else: break\n"
            "s.sendall(b'hello'); s.shutdown(1); s.recv(1)\n"
        )
        subprocess.run([*enter[1], sys.executable, "-c", connect], check=True, timeout=PATIENCE_S)
        assert listen.wait(timeout=PATIENCE_S) == 0
        # Without a program, Ctrl-C ends the run.
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=PATIENCE_S) == 0
        left = subprocess.run([*enter[0], "ip", "addr"], capture_output=True, text=True, check=True)
        assert "10.71" not in left.stdout
    finally:
        for process in started:
            process.kill()
            process.wait()
    summary = json.loads(lines.read_text().splitlines()[-1])
    assert all(one["delivered"] > 0 for one in summary["directions"])


def test_a_missing_namespace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "link.toml"
    path.write_text(LINK)
    done = command(str(path), "--netns", "server=no-such", "--netns", "client=1")
    assert done.returncode == 2
    assert "`/run/netns/no-such` does not exist" in done.stderr


SERVE = """
import hashlib, socket, sys
for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, 80))
    server.listen()
    print("ready", flush=True)
    one, _ = server.accept()
    got = hashlib.sha256()
    while data := one.recv(1 << 16):
        got.update(data)
    one.sendall(got.digest())
    one.close()
"""
FETCH = """
import hashlib, os, socket, time
for address in ("192.0.2.1", "2001:db8::1"):
    for _ in range(100):
        since = time.monotonic()
        try:
            one = socket.create_connection((address, 80), 10)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    delay, data = time.monotonic() - since, os.urandom(300_000)
    one.sendall(data)
    one.shutdown(socket.SHUT_WR)
    print(f"{delay:.3f}", one.recv(99) == hashlib.sha256(data).digest())
"""


@pytest.mark.slow
def test_interfaces_are_the_ends_of_a_link(lossless: Path, tmp_path: Path) -> None:
    """A device and a network are connected to the machine by an interface each."""
    path, lines = lossless, tmp_path / "a.jsonl"
    machine, network, device = holders = [namespace() for _ in range(3)]
    started = list(holders)

    def within(holder: subprocess.Popen[bytes], *words: str) -> list[str]:
        return ["nsenter", "--net", f"--target={holder.pid}", *words]

    def ip(holder: subprocess.Popen[bytes], words: str) -> None:
        subprocess.run(within(holder, "ip", *words.split()), check=True)

    try:
        for number, (name, holder) in enumerate((("eth1", network), ("eth2", device)), 1):
            ip(machine, f"link add {name} type veth peer name e0 netns {holder.pid}")
            ip(machine, f"link set {name} up")
            ip(holder, f"addr add 192.0.2.{number}/24 dev e0")
            ip(holder, f"addr add 2001:db8::{number}/64 dev e0 nodad")
            ip(holder, "link set e0 up")
        run = subprocess.Popen(
            within(
                machine,
                *(*INTERRUPTIBLE, str(path), "--json", str(lines)),
                *("--between", "eth1", "eth2"),
            ),
            env=ENVIRONMENT,
            stderr=subprocess.PIPE,
        )
        started.append(run)
        serve = subprocess.Popen(within(network, sys.executable, "-c", SERVE))
        started.append(serve)
        # The first connection waits for ARP, which the bridge passes once it runs.
        done = subprocess.run(
            within(device, sys.executable, "-c", FETCH),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        run.send_signal(signal.SIGINT)
        _, problems = run.communicate(timeout=PATIENCE_S)
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert run.returncode == 0, problems
    delays, equal = zip(*(line.split() for line in done.stdout.splitlines()), strict=True)
    assert equal == ("True", "True"), done.stderr
    # The second connection, by IPv6, has the RTT of the link.
    assert 0.01 <= float(delays[1]) < 1
    summary = json.loads(lines.read_text().splitlines()[-1])
    # 300 kB are more than 200 packets with each version, which no segment exceeds.
    assert max(one["delivered"] for one in summary["directions"]) > 400
    assert not [note for note in summary["notes"] if "rejected" in note]


@pytest.mark.usefixtures("permitted")
def test_invalid_interfaces_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "link.toml"
    path.write_text(LINK)
    done = command(str(path), "--between", "lo", "lo")
    assert (done.returncode, "two different interfaces" in done.stderr) == (2, True)
    done = command(str(path), "--between", "lo", "no-such", "--", "true")
    assert "cannot use `COMMAND` with `--between`" in done.stderr
    two = '[link.core]\nbetween = ["far", "server"]\nrate = "9 Mbps"\ndelay = "1 ms"\n'
    path.write_text(LINK + two)
    done = command(str(path), "--between", "lo", "no-such")
    assert (done.returncode, "with 2 links" in done.stderr) == (2, True)
    path.write_text(LINK)
    done = command(str(path), "--between", "lo", "no-such")
    assert done.returncode == 1
    reason = "--between lo: not an Ethernet interface"
    assert (reason if os.geteuid() == 0 else "CAP_NET_ADMIN") in done.stderr


@pytest.mark.slow
def test_networks_behind_hosts_are_reached(lossless: Path) -> None:
    # The network is behind the client, which is two hops away from the server.
    middle = '[link.core]\nbetween = ["far", "server"]\nrate = "9 Mbps"\ndelay = "1 ms"\n'
    lossless.write_text(lossless.read_text() + middle)
    # A device of the client's namespace has an address of its network.
    holder = namespace()
    enter = ["nsenter", "--net", f"--target={holder.pid}"]
    try:
        subprocess.run([*enter, "ip", "addr", "add", "192.0.2.7/24", "dev", "lo"], check=True)
        ask = (
            "import socket; s=socket.socket(2,2); s.settimeout(20); "
            "s.sendto(b'ping',('192.0.2.7',7)); print(s.recv(9).decode())"
        )
        echo = (
            "import socket; s=socket.socket(2,2); s.bind(('192.0.2.7',7)); "
            "d,a=s.recvfrom(9); s.sendto(d,a)"
        )
        answer = subprocess.Popen([*enter, sys.executable, "-c", echo])
        done = live(
            lossless,
            *("--quiet", "--netns", f"client={holder.pid}", "--route", "client=192.0.2.0/24"),
            *("--at", "far", "--", sys.executable, "-c", f"import time; time.sleep(1); {ask}"),
            cwd=lossless.parent,
        )
        assert (done.returncode, done.stdout) == (0, "ping\n"), done.stderr
        assert answer.wait(timeout=PATIENCE_S) == 0
    finally:
        holder.kill()
        holder.wait()


def test_a_network_has_a_prefix(tmp_path: Path) -> None:
    path = tmp_path / "link.toml"
    path.write_text(LINK)
    done = command(str(path), "--route", "client=192.0.2.7/24", "--", "true")
    assert done.returncode == 2
    assert "has host bits set" in done.stderr
