"""Properties of live links, except absolute goodput. Skipped where they are not permitted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lasthop
from lasthop.running.live.session import LiveError, Program, Session

pytestmark = pytest.mark.slow

LINK = """
name = "live"
[link.wireless]
between = ["server", "client"]
rate = "20 Mbps"
delay = "5 ms"
queue = "50 packets"
protocol = { kind = "PROTOCOL" }
errors = { kind = "uniform", loss = "3 %" }
[flow.transfer]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "reno", profile = "linux" }
app = { kind = "file", size = "200 kB" }
"""
WIFI = """
name = "wifi"
[wlan.home]
access_point = "ap"
stations = ["client", "server"]
standard = "802.11ax"
mcs = 3
errors = { kind = "uniform", loss = "5 %" }
"""
PATIENCE_S = 60
COMMAND = [sys.executable, "-m", "lasthop", "live"]
# Identifies the processes that a run should have ended.
MARK = f"LASTHOP_TEST={secrets.token_hex(8)}"
ENVIRONMENT = {**os.environ, "LASTHOP_TEST": MARK.partition("=")[2]}


def scenario(tmp_path: Path, protocol: str = "selective-repeat", text: str = LINK) -> Path:
    """A scenario file."""
    path = tmp_path / "link.toml"
    path.write_text(text.replace("PROTOCOL", protocol))
    return path


def why_not() -> str:
    """The reason why live links cannot run here; empty if they can."""
    if sys.platform != "linux":
        return "live links need Linux"
    session = Session(lasthop.Scenario.from_toml(LINK.replace("PROTOCOL", "raw")), [])
    session.programs = [Program("client", ["true"])]
    try:
        codes = [message["code"] for message in session.run() if message["kind"] == "end"]
    except LiveError as error:
        return f"live links are not allowed here: {error}"
    return "" if codes == [0] else f"live links do not run here: {codes}"


@pytest.fixture(scope="module", autouse=True)
def _where_allowed() -> None:
    if reason := why_not():
        pytest.skip(reason)


def live(path: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    return subprocess.run(
        [*COMMAND, str(path), *words],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def processes() -> set[int]:
    """The processes of this test's runs, excluding the commands: all carry its mark."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_own = MARK.encode() in (folder / "environ").read_bytes().split(b"\0")
            if is_own and b"\0live\0" not in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return found


def until(is_met: Callable[[], bool], patience_s: float = 10) -> bool:
    """Whether a condition is met within this time."""
    end = time.monotonic() + patience_s
    while not is_met():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def until_gone() -> bool:
    """Whether all processes end within 10 s."""
    return until(lambda: not processes())


def until_restored(known: list[str]) -> bool:
    """Whether within 10 s no network device exists that did not exist before.

    Tests that run at the same time have devices for a few seconds.
    """
    return until(lambda: not set(devices()) - set(known))


def namespace() -> subprocess.Popen[bytes]:
    """Starts a process that keeps a separate network namespace, as a container has.

    Returns when the namespace exists and its loopback device is up: before that, `nsenter` enters
    the namespace of the caller.
    """
    keep = "ip link set lo up && echo ready && exec sleep 600"
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", keep], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout as lines:
        assert lines.readline() == b"ready\n"
    return holder


def until_running(count: int) -> None:
    """Waits until `count` processes run."""
    until(lambda: len(processes()) >= count, PATIENCE_S)


def devices() -> list[str]:
    """Network devices of the machine outside of namespaces."""
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


@pytest.mark.parametrize(
    "protocol", ["raw", "selective-repeat", "go-back-n", "karn-rlp", "xor-fec", "wifi"]
)
def test_a_file_crosses_every_protocol_unharmed(tmp_path: Path, protocol: str) -> None:
    path = scenario(tmp_path, protocol, WIFI if protocol == "wifi" else LINK)
    served, here = tmp_path / "served", tmp_path / "here"
    served.mkdir()
    here.mkdir()
    data = os.urandom(200_000)
    (served / "file").write_bytes(data)
    known = devices()
    fetch = (
        "import sys, urllib.request; "
        "sys.stdout.write(__import__('hashlib').sha256("
        "urllib.request.urlopen('http://server:8000/file').read()).hexdigest())"
    )
    serve = f"{sys.executable} -m http.server 8000 --directory {served}"
    done = live(
        path,
        *("--quiet", "--at", "server", "--", serve, "--at", "client", "--", sys.executable),
        "-c",
        fetch,
        cwd=here,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == hashlib.sha256(data).hexdigest()
    assert until_gone()
    assert until_restored(known)


def test_packets_cross_a_wlan_in_aggregates(tmp_path: Path) -> None:
    """The access point forwards packets of two stations; 5 % of the MPDUs are retransmitted."""
    path, out = scenario(tmp_path, text=WIFI), tmp_path / "metrics.json"
    transfer = [sys.executable, "-m", "lasthop.running.live.transfer"]
    receive, send = [*transfer, "receive", "1000000", "1"], [*transfer, "send", "client"]
    done = live(
        path,
        *("--out", str(out), "--quiet", "--at", "client", "--", shlex.join(receive)),
        *("--at", "server", "--", *send, "1000000", "1"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    metrics = found.get("metrics", found)
    for direction in ("home.server.forward", "home.client.reverse"):
        own = {
            name: metrics[f"link.{direction}.{name}"]
            for name in ("frames_sent", "frames_lost", "retries")
        }
        # Lost by errors, or by collisions of A-MPDUs with the acknowledgments of TCP.
        assert 0.02 < own["frames_lost"] / own["frames_sent"] < 0.5, own
        assert own["retries"] > 0
        assert metrics[f"link.{direction}.mpdus_per_ppdu"] > 1.5
        assert metrics[f"link.{direction}.packets_delivered"] >= 1_000_000 / 2_304
        assert 0 < metrics[f"link.{direction}.delay_mean_s"] < 1
    assert metrics["wlan.home.attempts"] > 0
    done = live(path, "--at", "client", "--", "true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "home.client" in done.stderr


def test_the_exit_code_is_that_of_the_last_program(tmp_path: Path) -> None:
    path = scenario(tmp_path)
    assert live(path, "--", "sh", "-c", "exit 7", cwd=tmp_path).returncode == 7
    assert live(path, "--", 'sh -c "exit 8"', cwd=tmp_path).returncode == 8
    killed = live(path, "--", "sh", "-c", "kill -9 $$", cwd=tmp_path)
    assert killed.returncode == 128 + signal.SIGKILL
    missing = live(path, "--", "no-such-program", cwd=tmp_path)
    assert missing.returncode == 1
    assert 'no-such-program, at host "client": No such file or directory' in missing.stderr


@pytest.mark.parametrize("option", ["--record", "--pcap"])
def test_a_full_disk_fails_the_run(tmp_path: Path, option: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    done = live(scenario(tmp_path), option, "/dev/full", "--", "true", cwd=tmp_path)
    assert done.returncode == 1
    assert f"{option}: {os.strerror(28)}" in done.stderr


def test_a_scenario_needs_no_flow(tmp_path: Path) -> None:
    path = scenario(tmp_path, text=LINK.partition("[flow")[0])
    done = live(path, "--quiet", "--", sys.executable, "-c", "print(1)", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    path.write_text(path.read_text().replace("client", "laptop"))
    assert "--at HOST" in live(path, "--", "true", cwd=tmp_path).stderr
    path.write_text(path.read_text().replace('"20 Mbps"', '"20 Mpbs"'))
    refused = live(path, "--at", "laptop", "--", "true", cwd=tmp_path)
    assert refused.returncode == 2
    assert "link.wireless.rate" in refused.stderr


def test_hosts_know_each_other_and_themselves(tmp_path: Path) -> None:
    text = LINK + '\n[link.wired]\nbetween = ["far", "server"]\nrate = "1 Gbps"\ndelay = "1 ms"\n'
    path = scenario(tmp_path, text=text)
    ask = (
        "import socket; names = ('server', 'client', 'far'); "
        "print(socket.gethostname(), *(socket.gethostbyname(name) for name in names))"
    )
    for host in ("server", "client", "far"):
        done = live(path, "--quiet", "--at", host, "--", sys.executable, "-c", ask, cwd=tmp_path)
        assert done.stdout.split() == [host, "10.71.0.1", "10.71.0.2", "10.71.0.3"], done.stderr


def test_packets_cross_a_chain_of_hops(tmp_path: Path) -> None:
    text = LINK + '\n[link.wired]\nbetween = ["far", "server"]\nrate = "1 Gbps"\ndelay = "1 ms"\n'
    path = scenario(tmp_path, text=text)
    out = tmp_path / "out.json"
    program = f"{sys.executable} -P -m lasthop.running.live.transfer"
    done = live(
        path,
        *("--out", str(out), "--quiet"),
        *("--at", "client", "--", f"{program} receive 100000 1"),
        *("--at", "far", "--", f"{program} send client 100000 1"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["whole"] is True
    metrics = json.loads(out.read_text())["metrics"]
    # Both links carried every packet: 100 kB in segments of at most 1460 B.
    for name in ("link.wired.reverse", "link.wireless.reverse"):
        assert metrics[f"{name}.packets_delivered"] >= 2
    for name in ("link.wired.forward", "link.wireless.forward"):
        assert metrics[f"{name}.packets_delivered"] >= 69


def test_a_recording_replays_without_privileges(tmp_path: Path) -> None:
    path = scenario(tmp_path)
    program = f"{sys.executable} -P -m lasthop.running.live.transfer"
    done = live(
        path,
        *("--record", "run.rec", "--pcap", "run.pcapng", "--quiet"),
        *("--at", "client", "--", f"{program} receive 200000 1"),
        *("--at", "server", "--", f"{program} send client 200000 1"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    replay = json.loads(lasthop._lasthop.live_replay(str(tmp_path / "run.rec")))
    assert replay["difference"] is None
    assert replay["complete"]
    assert replay["arrivals"] > 200
    assert replay["same"] > 500
    # Both ends of the link: packets that one end sends and the other receives.
    assert (tmp_path / "run.pcapng").read_bytes().count(b"wireless at ") == 2


@pytest.mark.parametrize("whom", ["command", "launcher", "driver"])
def test_nothing_is_left_of_a_run_that_is_killed(tmp_path: Path, whom: str) -> None:
    known = devices()
    words = ["--quiet", "--at", "server", "--", "sleep 987", "--at", "client", "--", "sleep", "987"]
    command = subprocess.Popen(
        [*COMMAND, str(scenario(tmp_path)), *words],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    # Launcher, driver and two programs.
    until_running(4)
    by_role = {_role(pid): pid for pid in processes()}
    os.kill(command.pid if whom == "command" else by_role[whom], signal.SIGKILL)
    _, output = command.communicate(timeout=PATIENCE_S)
    assert until_gone()
    assert until_restored(known)
    if whom != "command":
        assert command.returncode == 1
        assert "the driver of the links was killed" in output


def _role(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if b"lasthop.running.live.process" not in words:
        return "other"
    is_driver = {b"driver", b"privileged-driver"} & set(words)
    return "driver" if is_driver else "launcher"


def test_ctrl_c_is_for_the_program(tmp_path: Path) -> None:
    # A shell in the background starts its commands with the signal ignored.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    main = f"{heed}import lasthop.commands; lasthop.commands.main()"
    script = "trap 'exit 5' INT; while :; do sleep 0.1; done"
    command = subprocess.Popen(
        [
            *(sys.executable, "-c", main, "live", str(scenario(tmp_path)), "--quiet"),
            *("--", "sh", "-c", script),
        ],
        start_new_session=True,
        env=ENVIRONMENT,
    )
    try:
        # Launcher, driver, the shell and its first sleep, so that its trap is set.
        until_running(4)
        os.killpg(command.pid, signal.SIGINT)
        assert command.wait(timeout=PATIENCE_S) == 5
    finally:
        command.kill()
    assert until_gone()


def _state(address: str, token: str, since: str = "0") -> dict[str, Any]:
    request = urllib.request.Request(
        f"{address}api/state",
        data=f'{{"since": {since}}}'.encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        state: dict[str, Any] = json.load(answer)
        return state


def test_the_page_shows_what_the_links_do(tmp_path: Path) -> None:
    program = f"{sys.executable} -P -m lasthop.running.live.transfer"
    # The program at the server ends when this file exists.
    wait = f'sh -c "{program} send client 2000000 1; while [ ! -e seen ]; do sleep 0.1; done"'
    command = subprocess.Popen(
        [
            *(*COMMAND, str(scenario(tmp_path)), "--page"),
            *("--at", "client", "--", f"{program} receive 2000000 1", "--at", "server", "--", wait),
        ],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert command.stderr is not None
        lines = iter(command.stderr)
        address = next(
            found for line in lines if (found := re.search(r"http://[^ ]*token=\S+", line))
        )[0]
        address, _, token = address.partition("?token=")
        end = time.monotonic() + PATIENCE_S
        ticks: list[Any] = []
        # Counters since the start: 2 MB are at least 1,370 segments.
        while not ticks or max(way["delivered"] for way in ticks[-1]["links"]) < 1370:
            assert time.monotonic() < end, ticks
            time.sleep(0.1)
            ticks = _state(address, token)["ticks"]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            _state(address, "guessed")
        for since in ("1e999", "-1e999", "NaN", '"soon"', "[]"):
            with pytest.raises(urllib.error.HTTPError, match="422"):
                _state(address, token, since)
    except BaseException:
        command.kill()
        raise
    (tmp_path / "seen").touch()
    command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 0
    assert until_gone()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs CAP_NET_ADMIN")
def test_a_host_can_be_the_machine_itself(tmp_path: Path) -> None:
    known = devices()
    ask = "import socket; print(socket.create_connection(('server', PORT), 20).recv(9).decode())"
    with socket.create_server(("0.0.0.0", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        ask = ask.replace("PORT", str(listening.getsockname()[1]))
        command = subprocess.Popen(
            [
                *(*COMMAND, str(scenario(tmp_path)), "--quiet", "--outside", "server"),
                *("--", sys.executable, "-c", ask),
            ],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            text=True,
        )
        connection, peer = listening.accept()
        with connection:
            # The link's device exists on the machine. The driver has no privileges left except to
            # end programs (CAP_KILL has bit 5).
            assert [name for name in devices() if name not in known] == ["wireless"]
            (driver,) = (pid for pid in processes() if _role(pid) == "driver")
            status = Path(f"/proc/{driver}/status").read_text()
            assert re.findall(r"^Cap(?:Prm|Eff):\s(\w+)", status, re.M) == [f"{1 << 5:016x}"] * 2
            connection.sendall(b"from here")
        out, _ = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, out, peer[0]) == (0, "from here\n", "10.71.0.2")
    assert until_gone()
    assert until_restored(known)


# Attempts to affect the machine and prints the successful ones. Each write would store the present
# value.
ATTACKS = """
import ctypes, glob, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
PATTERN = "sys/kernel/core_pattern"

def rewrite(proc):
    with open(os.path.join(proc, PATTERN), "r+") as file:
        value = file.read()
        file.seek(0)
        file.write(value)

def must(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")

def enter(kind):
    must(libc.setns(os.open(f"/proc/1/ns/{kind}", os.O_RDONLY), 0))

def remount():
    MS_REMOUNT_BIND = 32 | 4096
    must(libc.mount(None, b"/proc/sys", None, MS_REMOUNT_BIND, None))
    rewrite("/proc")

def unmount():
    must(libc.umount2(b"/proc/sys", 2))
    rewrite("/proc")

def mount_again():
    os.makedirs("again", exist_ok=True)
    must(libc.mount(b"proc", b"again", b"proc", 0, None))
    rewrite("again")

def run(*command):
    subprocess.run(command, check=True, capture_output=True)

def unprotected():
    for pattern in ("/proc/sys/kernel/core_*", "/proc/sys/vm/*", "/proc/sysrq-trigger",
            "/proc/irq/*/*", "/sys/kernel/*", "/sys/power/*", "/sys/fs/cgroup/cgroup.procs",
            "/sys/fs/cgroup/*/cgroup.procs"):
        if any(os.path.isfile(path) and os.access(path, os.W_OK) for path in glob.glob(pattern)):
            return
    raise OSError("not writable")

attacks = {
    "write": lambda: rewrite("/proc"),
    "sysctl": lambda: run(
        "sh", "-c", "sysctl -w kernel.core_pattern=$(sysctl -n kernel.core_pattern)"
    ),
    "nsenter": lambda: run("nsenter", "--target", "1", "--net", "true"),
    "network": lambda: enter("net"),
    "names": lambda: enter("uts"),
    "nested": lambda: run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
        "umount /proc/sys; p=$(cat /proc/sys/kernel/core_pattern); "
        "echo $p > /proc/sys/kernel/core_pattern"),
    "remount": remount,
    "unmount": unmount,
    "mount again": mount_again,
    "unprotected": unprotected,
}
for name, attack in attacks.items():
    try:
        attack()
    except (OSError, subprocess.CalledProcessError):
        continue
    print(name)
# Programs may read files as their user, and change their own network.
print(open(sys.argv[1]).read())
if "own" in sys.argv:
    with open("/proc/sys/net/ipv4/tcp_sack", "r+") as file:
        print(file.write("0"))
"""


@pytest.mark.parametrize("outside", [False, True])
def test_programs_cannot_affect_the_machine(tmp_path: Path, outside: bool) -> None:
    if outside and os.geteuid() != 0:
        pytest.skip("needs CAP_NET_ADMIN")
    (tmp_path / "attacks.py").write_text(ATTACKS)
    private = tmp_path / "private"
    private.write_text("private")
    if os.geteuid() == 0:
        # As with `sudo lasthop live` in a folder of another user.
        os.chown(private, 65534, 65534)
    private.chmod(0o600)
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    done = live(
        scenario(tmp_path),
        *("--quiet", *(["--outside", "server"] if outside else [])),
        *("--", sys.executable, "attacks.py", str(private), "outside" if outside else "own"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "private\n" if outside else "private\n1\n"), (
        done.stderr
    )
    assert Path("/proc/sys/kernel/core_pattern").read_text() == pattern


@pytest.mark.parametrize("given", [["chrt", "-f", "10"], ["nice", "-n", "-5"]])
def test_programs_have_the_default_priority(tmp_path: Path, given: list[str]) -> None:
    ask = "import os; print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))"
    program = [sys.executable, "-c", ask]
    own = subprocess.run([*given, *program], capture_output=True, text=True, check=False)
    default = f"{os.SCHED_OTHER} 0\n"
    if own.returncode != 0 or own.stdout == default:
        pytest.skip("this user may not raise priorities")
    done = subprocess.run(
        [
            *(*given, *COMMAND, str(scenario(tmp_path)), "--quiet"),
            *("--at", "server", "--", shlex.join(program), "--at", "client", "--", *program),
        ],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    printed = f"[server] {default}{default}"
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("ideal-sr", 'link.wireless.protocol: found "ideal-sr", whose frames have no byte form'),
        ("no-such", "link.wireless.protocol.kind: found"),
    ],
)
def test_what_cannot_run_live_is_refused_before_anything_starts(
    tmp_path: Path, protocol: str, words: str
) -> None:
    done = live(scenario(tmp_path, protocol), "--", "touch", "started", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "started").exists()


def test_shared_media_are_refused_before_their_hosts_are_sought(tmp_path: Path) -> None:
    """A station of a framed radio is a host, but not one of a live link."""
    text = """
name = "radio"
[radio.cell]
base = "base"
stations = ["phone"]
[flow.f]
from = "base"
to = "phone"
transport = { kind = "udp" }
app = { kind = "media", rate = "8 kbps", packet = "40 B" }
[run]
duration = "1 s"
"""
    path = scenario(tmp_path, text=text)
    done = live(path, "--at", "phone", "--", "touch", "started", cwd=tmp_path)
    assert done.returncode == 2
    assert "radio.cell: found a framed radio; expected point-to-point links" in done.stderr
    assert not (tmp_path / "started").exists()
