"""The name server inside live links. Skipped where live links are not permitted."""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from test_live import PATIENCE_S, why_not

pytestmark = pytest.mark.slow

SERVER = "10.71.255.53"
LINK = """
name = "names"
[link.radio]
between = ["Server", "client"]
rate = "10 Mbps"
delay = "5 ms"
errors = { kind = "uniform", loss = "20 %" }
"""
# Sends each query in hexadecimal from the standard input; prints the answers.
ASK_BY_TCP = """
import socket, sys
server = next(l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver"))
queries = [bytes.fromhex(line) for line in sys.stdin]
for is_split in (False, True):
    with socket.create_connection((server, 53), 5) as one, one.makefile("rb") as answers:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, is_split)
        for query in queries:
            whole = len(query).to_bytes(2, "big") + query
            for part in [whole[at : at + 1] for at in range(len(whole))] if is_split else [whole]:
                one.sendall(part)
        for query in queries:
            print(answers.read(int.from_bytes(answers.read(2), "big")).hex())
        one.shutdown(socket.SHUT_WR)
        assert answers.read() == b""
"""
ASK = """
import socket, sys
server = next(l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver"))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.settimeout(0.5)
    one.connect((server, 53))
    for line in sys.stdin:
        one.send(bytes.fromhex(line))
        try: print(one.recv(2000).hex())
        except TimeoutError: print("none")
"""


@pytest.fixture(autouse=True, scope="module")
def _permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


def live(
    folder: Path, *words: str, text: str = LINK, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a program over the link, at the client if `words` does not begin with an option."""
    path = folder / "names.toml"
    path.write_text(text)
    at = words if words[0].startswith("-") else ("--quiet", "--at", "client", "--", *words)
    return subprocess.run(
        [sys.executable, "-m", "lasthop", "live", str(path), *at],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def query(name: str, kind: int) -> bytes:
    """A query with number 7 (RFC 1035, section 4)."""
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, kind, 1)


def ask(folder: Path, *queries: bytes, program: str = ASK) -> list[bytes | None]:
    """Sends queries from a program at the client."""
    given = "".join(f"{one.hex()}\n" for one in queries)
    done = live(folder, sys.executable, "-S", "-c", program, given=given)
    assert done.returncode == 0, done.stderr
    return [None if line == "none" else bytes.fromhex(line) for line in done.stdout.splitlines()]


def test_queries_for_hosts_are_answered(tmp_path: Path) -> None:
    names = [("server", 1), ("CLIENT", 1), ("server", 28), ("server", 15), ("example.org", 1)]
    names += [("2.0.71.10.in-addr.arpa", 12)]
    answers = ask(tmp_path, *(query(*one) for one in names))
    data = [socket.inet_aton("10.71.0.1"), socket.inet_aton("10.71.0.2")]
    data += [socket.inet_pton(socket.AF_INET6, "fd71::1"), b"", b"", b"\x06client\0"]
    codes = [0, 0, 0, 0, 3, 0]
    for (name, kind), answer, expected, code in zip(names, answers, data, codes, strict=True):
        asked = query(name, kind)
        assert answer is not None
        number, flags, *counts = struct.unpack("!6H", answer[:12])
        # A response with authority; recursion desired and available.
        assert (number, flags) == (7, 0x8580 | code)
        assert counts == [1, int(bool(expected)), 0, 0]
        assert answer[12 : len(asked)] == asked[12:]
        if expected:
            record = struct.unpack("!HHHIH", answer[len(asked) : len(asked) + 12])
            assert record == (0xC00C, kind, 1, 60, len(expected))
            assert answer[len(asked) + 12 :] == expected


def test_malformed_queries_do_not_end_the_server(tmp_path: Path) -> None:
    good = query("server", 1)
    bad = [b"x", bytes(11), good[:-1], good[:12], b"\xff" * 600, good[:12] + b"\xc0\x0c" * 200]
    answers = ask(tmp_path, *(one for pair in bad for one in (pair, good)))
    assert all(answer is not None and answer[6:8] == b"\0\1" for answer in answers[1::2])
    codes = [answer and answer[3] & 0xF for answer in answers[::2]]
    # Without a header, or marked as a response: no answer.
    assert codes == [None, None, 1, 1, None, 1]


def test_queries_by_tcp_and_with_options_are_answered(tmp_path: Path) -> None:
    """Several queries per connection, whole and byte by byte; OPT with a size, and DO."""
    plain = query("server", 1)
    with_options = plain[:11] + b"\1" + plain[12:] + bytes.fromhex("000029 04b0 00008000 0000")
    by_udp = ask(tmp_path, plain, with_options)
    assert all(by_udp)
    assert by_udp[1] == (by_udp[0] or b"")[:11] + b"\1" + (by_udp[0] or b"")[12:] + bytes.fromhex(
        "000029 04d0 00008000 0000"
    )
    assert ask(tmp_path, plain, with_options, program=ASK_BY_TCP) == [*by_udp, *by_udp]


@pytest.mark.parametrize("options", ["", "edns0 trust-ad", "use-vc", "use-vc edns0"])
@pytest.mark.parametrize(("name", "found"), [("server", True), ("elsewhere", False)])
def test_the_resolver_of_the_c_library_finds_hosts(
    tmp_path: Path, name: str, found: bool, options: str
) -> None:
    """Only by DNS, without /etc/hosts; also by TCP (`use-vc`)."""
    command = ["env", f"RES_OPTIONS={options}", "getent", "-s", "hosts:dns", "ahosts", name]
    done = live(tmp_path, *command)
    assert done.returncode == (0 if found else 2), done.stderr
    addresses = {line.split()[0] for line in done.stdout.splitlines()}
    assert addresses == ({"10.71.0.1", "fd71::1"} if found else set())


def test_other_ports_are_refused_and_none_is_occupied(tmp_path: Path) -> None:
    program = f"""
import socket
try: socket.create_connection(("{SERVER}", 54), 2)
except ConnectionRefusedError: print("refused")
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as one: one.bind(("", 53))
"""
    done = live(tmp_path, sys.executable, "-S", "-c", program)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_queries_use_no_losses_of_the_link(tmp_path: Path) -> None:
    def lost(queries: bool) -> tuple[list[int], dict[str, float]]:
        program = f"""
import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket(
    socket.AF_INET, socket.SOCK_DGRAM
) as names:
    for number in range(60):
        one.sendto(bytes([number]), ("10.71.0.1", 9)); time.sleep(0.002)
        if {queries}:
            names.sendto(bytes.fromhex("{query("server", 1).hex()}"), ("{SERVER}", 53))
            assert names.recv(2000)
time.sleep(0.1)
"""
        receive = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.bind(("", 9))
    with open("got", "wb", 0) as file:
        while True: file.write(one.recv(100))
"""
        (tmp_path / "receive.py").write_text(receive)
        at = [*("--quiet", "--out", "out.json"), "--at", "Server", "--"]
        at += [f"{sys.executable} -S receive.py", "--at", "client", "--"]
        done = live(tmp_path, *at, sys.executable, "-S", "-c", program)
        assert done.returncode == 0, done.stderr
        out = json.loads((tmp_path / "out.json").read_text())
        return list((tmp_path / "got").read_bytes()), out["metrics"]

    without, metrics = lost(False)
    with_queries, same = lost(True)
    assert without == with_queries
    assert 20 < len(without) < 60
    sent = "link.radio.reverse.frames_sent"
    assert metrics[sent] == same[sent] == 60


def test_the_table_of_the_machine_is_unchanged(tmp_path: Path) -> None:
    before = Path("/etc/resolv.conf").read_bytes() if Path("/etc/resolv.conf").exists() else b""
    done = live(tmp_path, "cat", "/etc/resolv.conf")
    if not before:
        assert done.returncode != 0
        return
    assert done.stdout == f"nameserver {SERVER}\n", done.stderr
    assert Path("/etc/resolv.conf").read_bytes() == before
    assert not re.search(SERVER.encode(), Path("/proc/self/mountinfo").read_bytes())


def test_with_a_network_behind_a_host_the_name_servers_of_the_machine_remain(
    tmp_path: Path,
) -> None:
    at = ("--quiet", "--route", "Server=192.0.2.0/24", "--at", "client", "--")
    done = live(tmp_path, *at, "cat", "/etc/resolv.conf")
    assert done.stdout == Path("/etc/resolv.conf").read_text(), done.stderr
