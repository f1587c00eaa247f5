"""Live runs: changes during a run, Ctrl-C, labels of output, and errors before a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lasthop
from lasthop.commands import main
from lasthop.running.live.control import change_of
from lasthop.scenarios.arguments import ArgumentError
from test_live import (
    COMMAND,
    ENVIRONMENT,
    PATIENCE_S,
    live,
    scenario,
    until_gone,
    why_not,
)

LINK = """
name = "control"
[link.air]
between = ["server", "client"]
rate = "2 Mbps"
delay = "5 ms"
errors = { kind = "uniform", loss = "1 %" }
"""

# `lasthop live`, also where the caller ignores SIGINT, as shells do for commands in the background.
INTERRUPTIBLE = [
    *(sys.executable, "-c"),
    (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "import lasthop.commands; lasthop.commands.main()"
    ),
    "live",
]


@pytest.fixture(name="permitted", scope="module")
def _permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs the command without programs."""
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def with_flow(text: str) -> lasthop.Scenario:
    """The scenario with a flow, as for a live run."""
    flow = 'from = "server"\nto = "client"\ntransport = { kind = "udp" }\n'
    app = 'app = { kind = "on-off", rate = "1 kbps", on = "1 s", off = "1 s", packet = "60 B" }\n'
    return lasthop.Scenario.from_toml(f'{text}[flow.f]\n{flow}{app}[run]\nduration = "1 s"\n')


def test_changes_are_validated_like_a_scenario() -> None:
    base = with_flow(LINK)
    change, changed = change_of(base, ["set", "link.air.rate=3Mbps", "link.air.errors.loss=5%"])
    assert change["scenario"]["link"]["air"]["rate"] == "3 Mbps"
    assert changed.to_dict()["link"]["air"]["errors"]["loss"] == "5%"
    assert change_of(base, ["down", "5s"])[0]["pause_ns"] == 5_000_000_000
    assert change_of(base, ["down", "20 ms", "link.air"])[0]["link"] == "air"
    with pytest.raises(lasthop.ScenarioError, match=r"link\.air\.rate"):
        change_of(base, ["set", "link.air.rate=3Mpbs"])
    for words in ([], ["up"], ["down"], ["down", "soon"], ["down", "1 s", "x"], ["set", "rate"]):
        with pytest.raises(ArgumentError, match=r"invalid|unknown"):
            change_of(base, words)


def test_ctl_needs_a_run(tmp_path: Path) -> None:
    missing = command("ctl", "--control", str(tmp_path / "none"), "down", "1 s")
    assert missing.returncode == 1
    assert "no response of a run at" in missing.stderr
    assert command("ctl").returncode == 2


def test_an_unquoted_command_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "link.toml"
    path.write_text(LINK)
    words = ["--at", "server", "--", "python3", "-m", "http.server", "--at", "client", "--", "true"]
    done = command(str(path), *words)
    assert done.returncode == 2
    assert "quotes around each command except the last" in done.stderr
    assert "`-- 'python3 -m http.server' --at client -- …`" in done.stderr


def test_check_accepts_a_scenario_for_live_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "link.toml"
    path.write_text(LINK)
    with pytest.raises(SystemExit) as ended:
        _run(["check", str(path)])
    assert not ended.value.code
    assert "valid, 1 point; without flows, for `lasthop live` only" in capsys.readouterr().out
    path.write_text(LINK.replace("2 Mbps", "2 Mpbs"))
    with pytest.raises(SystemExit) as ended:
        _run(["check", str(path)])
    assert ended.value.code == 2


def _run(words: list[str]) -> None:
    before, sys.argv = sys.argv, ["lasthop", *words]
    try:
        main()
    finally:
        sys.argv = before


# Sends a datagram every 10 ms until the file `stop` exists.
SEND = """
import socket, time, pathlib
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while not pathlib.Path("stop").exists():
    s.sendto(bytes(400), ("client", 9))
    time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_links_change_during_a_run(tmp_path: Path) -> None:
    path = tmp_path / "link.toml"
    path.write_text(LINK)
    (tmp_path / "send.py").write_text(SEND)
    socket_, lines, record = (tmp_path / name for name in ("ctl", "a.jsonl", "a.rec"))
    run = subprocess.Popen(
        [
            *(*COMMAND, str(path), "--control", str(socket_), "--json", str(lines), "--quiet"),
            *("--record", str(record), "--at", "server", "--", sys.executable, "send.py"),
        ],
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    try:
        end = time.monotonic() + PATIENCE_S
        while not (lines.exists() and lines.read_text().count("\n") >= 2):
            assert time.monotonic() < end
            time.sleep(0.05)
        where = ("ctl", "--control", str(socket_))
        assert command(*where, "set", "link.air.delay=80ms").returncode == 0
        assert command(*where, "set", "link.air.errors.loss=100%").returncode == 0
        time.sleep(2.5)
        refused = command(*where, "set", "link.air.queue=3 packets")
        assert refused.returncode == 1
        assert "link.air: found a change of another key" in refused.stderr
        assert command(*where, "set", "link.air.errors.loss=0%").returncode == 0
        assert "down 300 ms" in command(*where, "down", "300", "ms").stdout
        time.sleep(1.0)
        (tmp_path / "stop").touch()
        assert run.wait(timeout=PATIENCE_S) == 0
    finally:
        run.kill()
    assert not socket_.exists()
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    changes = [row for row in rows if row["kind"] == "change"]
    assert [row["text"].split("=")[0] for row in changes] == [
        *("set link.air.delay", "set link.air.errors.loss", "set link.air.errors.loss"),
        "down 300 ms",
    ]
    seconds = [row for row in rows if row["kind"] == "second"]
    # The last second before the loss has the first delay; with a loss of 100 %, no packet arrives.
    before = [row for row in seconds if row["time"] <= changes[0]["time"]][-1]
    assert 0.005 <= before["directions"][0]["delay"]["p50_s"] < 0.05
    [from_, to] = changes[1]["time"], changes[2]["time"]
    silent = [row for row in seconds if from_ + 1.1 <= row["time"] <= to]
    assert silent
    assert all(row["directions"][0]["delivered"] == 0 for row in silent)
    assert rows[-1]["directions"][0]["delay"]["max_s"] >= 0.3
    replay = json.loads(lasthop._lasthop.live_replay(str(record), messages=True))
    assert replay["difference"] is None
    told = [message for message in replay["messages"] if message["kind"] == "change"]
    assert [one["text"] for one in told] == [one["text"] for one in changes]


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_output_of_other_programs_is_labelled(tmp_path: Path) -> None:
    program = "sh -c 'echo one; printf two; echo three >&2'"
    last = "import time; time.sleep(1); print('four')"
    done = live(
        scenario(tmp_path),
        *("--quiet", "--at", "server", "--", program),
        *("--at", "client", "--", sys.executable, "-c", last),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[server] one", "[server] two", "four"]
    assert done.stderr == "[server] three\n"


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_a_second_ctrl_c_ends_the_run_immediately(tmp_path: Path) -> None:
    lines, ready = tmp_path / "a.jsonl", tmp_path / "ready"
    # Ignores SIGINT and SIGTERM.
    stubborn = f"trap '' INT TERM; touch {ready}; while :; do sleep 0.1; done"
    run = subprocess.Popen(
        [
            *(*INTERRUPTIBLE, str(scenario(tmp_path)), "--quiet"),
            *("--json", str(lines), "--", "sh", "-c", stubborn),
        ],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    try:
        end = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        os.kill(run.pid, signal.SIGINT)
        time.sleep(0.5)
        assert run.poll() is None
        os.kill(run.pid, signal.SIGINT)
        assert run.wait(timeout=PATIENCE_S) == 128 + signal.SIGKILL
    finally:
        run.kill()
    summary = json.loads(lines.read_text().splitlines()[-1])
    assert (summary["kind"], summary["complete"]) == ("summary", True)
    assert until_gone()


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_a_missing_algorithm_names_the_remedy(tmp_path: Path) -> None:
    option = "net.ipv4.tcp_congestion_control=no_such"
    done = live(scenario(tmp_path), "--sysctl", option, "--", "true", cwd=tmp_path)
    assert done.returncode == 1
    assert "modprobe tcp_no_such" in done.stderr
    listed = {
        name: Path(f"/proc/sys/net/ipv4/tcp_{name}_congestion_control").read_text().split()
        for name in ("available", "allowed")
    }
    assert f"available are {' '.join(listed['available'])}: load" in done.stderr
    forbidden = sorted(set(listed["available"]) - set(listed["allowed"]))
    if not forbidden:
        pytest.skip("this kernel permits all its algorithms")
    option = f"net.ipv4.tcp_congestion_control={forbidden[0]}"
    done = live(scenario(tmp_path), "--sysctl", option, "--", "true", cwd=tmp_path)
    assert done.returncode == 1
    assert "sysctl -w net.ipv4.tcp_allowed_congestion_control=" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_a_live_run_follows_a_timeline(tmp_path: Path) -> None:
    path, lines, changes = (tmp_path / name for name in ("link.toml", "a.jsonl", "changes.txt"))
    path.write_text(LINK.replace("1 %", "0 %"))
    changes.write_text("1 s set link.air.delay=100 ms\n2500 ms down 400 ms\n")
    (tmp_path / "send.py").write_text(SEND)
    done = live(
        path,
        *("--timeline", str(changes), "--json", str(lines), "--timeout", "4 s"),
        *("--at", "server", "--", sys.executable, "send.py"),
        cwd=tmp_path,
    )
    assert done.returncode == 124, done.stderr
    summary = json.loads(lines.read_text().splitlines()[-1])
    assert [one["time"] for one in summary["changes"]] == [1.0, 2.5]
    assert summary["directions"][0]["delay"]["max_s"] >= 0.45


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_hosts_have_both_families(tmp_path: Path) -> None:
    path, lines = tmp_path / "link.toml", tmp_path / "a.jsonl"
    path.write_text(LINK.replace("1 %", "0 %"))
    serve = (
        "import socket; s=socket.socket(socket.AF_INET6); s.bind(('::',80)); s.listen(); "
        "c,a=s.accept(); print(a[0], c.recv(9).decode())"
    )
    ask = (
        "import socket; names=[socket.getaddrinfo('server',80,f)[0][4][0] for f in (2,10)]; "
        "print(*names); s=socket.create_connection((names[1],80)); s.sendall(b'hello'); "
        "s.shutdown(1); s.recv(1)"
    )
    done = live(
        path,
        *("--quiet", "--json", str(lines), "--at", "server", "--"),
        f'{sys.executable} -c "{serve}"',
        *("--at", "client", "--", sys.executable, "-c", ask),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["10.71.0.1 fd71::1", "[server] fd71::2 hello"]
    summary = json.loads(lines.read_text().splitlines()[-1])
    talks = [talk for one in summary["directions"] for talk in one["conversations"]]
    assert {(talk["protocol"], talk["from"]) for talk in talks} == {
        ("tcp", "fd71::1"),
        ("tcp", "fd71::2"),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_neighbour_discovery_uses_no_losses(tmp_path: Path) -> None:
    path, lines = tmp_path / "link.toml", tmp_path / "a.jsonl"
    path.write_text(LINK)
    # Joining a group sends a report, which must not cross the link.
    idle = (
        "import socket,struct,time; s=socket.socket(10,2); "
        "s.setsockopt(41,20,socket.inet_pton(10,'ff05::7')+struct.pack('i',2)); time.sleep(2)"
    )
    program = ("--at", "client", "--", sys.executable, "-c", idle)
    done = live(path, "--quiet", "--json", str(lines), *program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(lines.read_text().splitlines()[-1])
    assert [one["frames"] for one in summary["directions"]] == [0, 0]


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
@pytest.mark.parametrize("address", ["10.71.0.2", "fd71::2"])
def test_queues_mark_packets_of_both_families(tmp_path: Path, address: str) -> None:
    path, out = tmp_path / "link.toml", tmp_path / "out.json"
    queue = 'queue = { kind = "step", limit = "100 packets", threshold = "5 packets" }\n'
    path.write_text(LINK.replace("1 %", "0 %") + queue)
    receive = (
        "import socket; s=socket.create_server(('::',80),family=10,dualstack_ipv6=True); "
        "c,_=s.accept(); n=0\n"
        "while d:=c.recv(65536): n+=len(d)\n"
        "print(n)"
    )
    send = f"import socket; s=socket.create_connection(('{address}',80)); s.sendall(bytes(300000))"
    done = live(
        path,
        *("--quiet", "--out", str(out), "--sysctl", "net.ipv4.tcp_ecn=1", "--at", "client", "--"),
        f'{sys.executable} -c "{receive}"',
        *("--at", "server", "--", sys.executable, "-c", f"{send}; s.shutdown(1); s.recv(1)"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "[client] 300000\n"), done.stderr
    assert json.loads(out.read_text())["metrics"]["link.air.forward.queue_marks"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_fragments_cross_links_of_different_mtu(tmp_path: Path) -> None:
    path = tmp_path / "link.toml"
    narrow = '[link.core]\nbetween = ["client", "far"]\nrate = "9 Mbps"\ndelay = "1 ms"\n'
    path.write_text(LINK.replace("1 %", "0 %") + narrow + 'mtu = "1300 B"\n')
    echo = (
        "import socket; s=socket.socket(10,2); s.bind(('',7))\n"
        "while True: d,a=s.recvfrom(65535); s.sendto(d,a)"
    )
    # 1400 B exceed the second MTU: the middle host fragments IPv4, and reports it to IPv6 senders.
    ask = """
import socket
for family in (2, 10):
    address = socket.getaddrinfo("far", 7, family, 2)[0][4]
    s = socket.socket(family, 2); s.settimeout(0.5)
    for size in (1400, 20000):
        for _ in range(40):
            s.sendto(bytes(size), address)
            try: print(len(s.recv(65535)) == size)
            except TimeoutError: continue
            break
"""
    done = live(
        path,
        *("--quiet", "--at", "far", "--", f'{sys.executable} -c "{echo}"'),
        *("--at", "server", "--", sys.executable, "-c", ask),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "True\n" * 4), done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_devices_drop_no_packet_before_the_programs_start(tmp_path: Path) -> None:
    """Each of 24 devices announces its multicast groups when it is activated."""
    link = '[link.l{0}]\nbetween = ["h{0}", "h{1}"]\nrate = "1 Mbps"\ndelay = "1 ms"\n'
    links = "".join(link.format(number, number + 1) for number in range(12))
    path = scenario(tmp_path, text='name = "chain"\n' + links)
    done = live(path, "--json", "out.jsonl", "--at", "h0", "--", "true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])
    assert not [note for note in summary["notes"] if "dropped" in note]
