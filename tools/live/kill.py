"""Kills processes of live runs at random times and checks that nothing is left behind.

    python tools/live/kill.py [RUNS] [SEED]

Each run transfers data in both directions. At a random time, one of its processes is killed with
SIGKILL: the command, the launcher, the driver or a program. Then no process of the run (and
thus no namespace), no network device, no socket and no file in the temporary folder may remain.
Prints a line per failure and exits with code 1 if there is one.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

LINK = """
name = "kill"
[link.air]
between = ["server", "client"]
rate = "20 Mbps"
delay = "2 ms"
errors = { kind = "uniform", loss = "2 %" }
protocol = "selective-repeat"
"""
SEND = (
    "import socket,time\n"
    "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
    "while True: s.sendto(bytes(500),('{}',9)); time.sleep(.002)\n"
)
ROLES = ("command", "launcher", "driver", "program")
# Seconds until the processes of a killed run must have ended.
PATIENCE_S = 20.0


def processes(mark: str) -> dict[int, bytes]:
    """Returns the processes with a variable in their environment, with their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
    return found


def leftovers(own: str = "") -> set[str]:
    """Returns what a run could leave behind: devices, files and `own`, the name of its socket."""
    sockets = Path("/proc/net/unix").read_text(errors="replace").split()
    return {
        *(str(path) for path in Path("/sys/class/net").iterdir()),
        *(str(path) for path in Path(tempfile.gettempdir()).glob("lasthop-hosts-*")),
        *(word for word in sockets if word == own),
    }


def role(words: bytes) -> str:
    """Returns the role of a process of a run."""
    if b"\0live\0" in words:
        return "command"
    if b"lasthop.running.live.process" not in words:
        return "program"
    return "driver" if b"driver\0" in words else "launcher"


def one(number: int, choice: random.Random, folder: Path) -> str:
    """Runs and kills once; returns the role of the killed process, and raises on leftovers."""
    before = leftovers()
    mark = f"LASTHOP_KILL={secrets.token_hex(8)}"
    name, _, value = mark.partition("=")
    command = subprocess.Popen(  # noqa: S603 - this interpreter
        [
            *(sys.executable, "-m", "lasthop", "live", str(folder / "link.toml"), "--quiet"),
            *("--record", str(folder / "run.rec"), "--json", str(folder / "run.jsonl")),
            *("--at", "server", "--", f'{sys.executable} -c "{SEND.format("client")}"'),
            *("--at", "client", "--", sys.executable, "-c", SEND.format("server")),
        ],
        env={**os.environ, name: value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        victim = choice.choice(ROLES)
        by_role: dict[str, list[int]] = {}
        end = time.monotonic() + PATIENCE_S
        while victim not in by_role:
            if time.monotonic() > end:
                raise RuntimeError(f"run {number}: no {victim} started")
            by_role.clear()
            for pid, words in processes(mark).items():
                by_role.setdefault(role(words), []).append(pid)
        time.sleep(choice.uniform(0.0, 2.0))
        for pid in by_role[victim][:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victim == "program":
            # The run continues if it is not the last one.
            time.sleep(0.2)
            command.send_signal(signal.SIGTERM)
        command.wait(timeout=PATIENCE_S)
        end = time.monotonic() + PATIENCE_S
        name = f"@lasthop-live-{command.pid}"
        found = leftovers(name) - before
        # Other runs on the machine have devices and files, too, but not for long.
        while (found or processes(mark)) and time.monotonic() < end:
            time.sleep(0.05)
            found &= leftovers(name)
        if left := processes(mark) or found:
            raise RuntimeError(f"run {number}: killed {victim}: {left} remain")
    finally:
        command.kill()
        command.wait()
    return victim


def main(runs: int, seed: int) -> int:
    """Runs all; prints the number of kills by role."""
    choice = random.Random(seed)  # noqa: S311 - kills need no cryptography
    killed: Counter[str] = Counter()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "link.toml").write_text(LINK)
        for number in range(runs):
            try:
                killed[one(number, choice, Path(folder))] += 1
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failures += 1
                sys.stderr.write(f"{error}\n")
    sys.stdout.write(f"{runs} runs, seed {seed}, killed {dict(killed)}, {failures} failures\n")
    return 1 if failures else 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*given, *(200, 1)[len(given) :]))
