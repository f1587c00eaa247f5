"""Plays conformance scripts against the TCP of the running Linux kernel.

    sudo python tools/kernel_script/play.py [--tolerance-usecs N] FILE...

This shows where our TCP differs. Each script gets its own network namespace (`host.py`). This
program injects the segments of `<` lines and compares the kernel's segments with `>` lines, at the
wall-clock times of the script. Scripts are played in parallel, because most of them wait most of
the time. Needs root and Linux.

Prints one line per script: `holds`; the line that differs, with the kernel's reaction; or a feature
that this program does not support.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import os
import re
import select
import socket
import struct
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from host import LOCAL, PHASES, PORT, REMOTE, TIMER_HZ, Host, latest_tick
from script import NAMES, Closed, Differs, Event, Message, Segment, Unknown, number, parse

#: Fields of `struct tcp_info`, each with its kind in the language of `struct`.
INFO = (
    "B:state B:ca_state B:retransmits B:probes B:backoff B:options B:wscale B:limited "
    "I:rto I:ato I:snd_mss I:rcv_mss I:unacked I:sacked I:lost I:retrans I:fackets "
    "I:last_data_sent I:last_ack_sent I:last_data_recv I:last_ack_recv I:pmtu "
    "I:rcv_ssthresh I:rtt I:rttvar I:snd_ssthresh I:snd_cwnd I:advmss I:reordering "
    "I:rcv_rtt I:rcv_space I:total_retrans Q:pacing_rate Q:max_pacing_rate Q:bytes_acked "
    "Q:bytes_received I:segs_out I:segs_in I:notsent_bytes I:min_rtt I:data_segs_in "
    "I:data_segs_out Q:delivery_rate Q:busy_time Q:rwnd_limited Q:sndbuf_limited "
    "I:delivered I:delivered_ce Q:bytes_sent Q:bytes_retrans I:dsack_dups I:reord_seen "
    "I:rcv_ooopack I:snd_wnd I:rcv_wnd I:rehash"
)


class Player(Host):
    """One script played against the kernel."""

    def __init__(self, options: dict[str, str], tolerance: float, verbose: bool) -> None:
        super().__init__(options, verbose)
        self.phase = options.get("timer_phase")
        micros = float(options.get("tolerance_usecs", tolerance * 1e6))
        self.tolerance = max(micros / 1e6, tolerance)
        #: Timers are not early, but timers in a recording may have been late.
        self.early = micros / 1e6 if "tolerance_usecs" in options else min(self.tolerance, 0.008)
        #: Lateness of the last segment: a timer that it restarts is late by as much.
        self.late = 0.0
        self.files: dict[int, socket.socket] = {}
        self.pipes: dict[int, int] = {}
        self.watchers: dict[int, select.epoll] = {}
        self.listener: socket.socket | None = None
        self.connection: socket.socket | None = None
        self.blocked: list[tuple[threading.Thread, dict[str, Any], Event, float]] = []
        self.variables: dict[str, Any] = {}

    def run(self, events: list[Event]) -> None:
        """Plays the events; raises an error at the first difference."""
        self.start = time.monotonic()
        has_shell = any(event.kind == "shell" for event in events)
        if not has_shell:
            self.defaults()
        started = False
        last = 0.0
        for event in events:
            if event.kind == "shell":
                before = time.monotonic()
                self.shell(event.body)
                # The time of shell commands does not count.
                self.start += time.monotonic() - before
                continue
            if not started:
                started = True
                self.start = self.start_of_phase()
                last = 0.0
            at = None if event.at is None else event.at + (last if event.relative else 0.0)
            try:
                if event.kind == ">":
                    last = self.expect(event, at)
                    continue
                if at is not None:
                    self.sleep_until(at)
                last = at if at is not None else self.now()
                if event.kind == "<":
                    self.arrive(event.body)
                elif event.kind == "code":
                    time.sleep(0.0005)
                    with contextlib.suppress(Closed):
                        self.code(event.body)
                else:
                    self.call(event, *event.body)
            except (Differs, Unknown) as problem:
                raise type(problem)(f"line {event.line}: {problem}") from None
            self.check_blocked()
        for thread, _, event, end in list(self.blocked):
            self.sleep_until(end + self.tolerance)
            thread.join(0.5)
            if thread.is_alive():
                raise Differs(f"line {event.line}: still blocks")
        self.check_blocked()

    def start_of_phase(self) -> float:
        """Waits for a tick with the number that the script states; returns the time."""
        if self.phase is None:
            return time.monotonic()
        latest, tick = latest_tick()
        start = latest + (int(self.phase) - tick) % PHASES / TIMER_HZ
        while time.monotonic() < start:
            time.sleep(max(0.0, start - time.monotonic()))
        return start

    def arrive(self, one: Segment | Message) -> None:
        """Sends a segment or an ICMP message to the kernel."""
        if isinstance(one, Message):
            self.inject_message(one)
        else:
            self.inject(one)

    def expect(self, event: Event, at: float | None) -> float:
        """Checks that the kernel sends a segment, as one or several. Returns its time."""
        wanted: Segment = event.body
        tolerance = self.late + self.tolerance
        latest = self.now() + 200 if at is None else at + event.span + tolerance
        seq, left = wanted.seq, wanted.payload
        found: list[str] = []
        while True:
            while (entry := self.pick(wanted)) is None and self.now() < latest:
                ready = select.select([self.tun], [], [], max(0.0, latest - self.now()))[0]
                if ready:
                    self.drain(None)
            if entry is None:
                raise Differs(
                    f"expected {wanted}, found {', '.join(found) or 'nothing'} until {latest:.4f}"
                )
            sent, one = entry
            live_window = one.window or 0
            found.append(f"{one} at {sent:.4f}")
            is_last = one.payload >= left
            flags = wanted.flags if is_last else wanted.flags & ~1
            ok = one.seq == seq and one.payload <= left and one.flags == flags & ~8
            ok &= at is None or at - self.early <= sent <= latest
            ok &= wanted.ack is None or one.ack == wanted.ack
            ok &= wanted.window is None or live_window == wanted.window
            ok &= wanted.ecn is None or one.ecn == wanted.ecn
            if not wanted.any_options:
                mine, theirs = dict(one.options), dict(wanted.options)
                stamps = mine.pop("TS", None), theirs.pop("TS", None)
                ok &= mine == theirs and (stamps[0] is None) == (stamps[1] is None)
                if stamps[0] and stamps[1]:
                    self.stamps.append((stamps[1][0], stamps[0][0]))
                    ok &= stamps[0][1] == stamps[1][1]
            if not ok:
                when = "" if at is None else f" at {at:.4f}"
                raise Differs(f"expected {wanted}{when}, found {', '.join(found)}")
            if is_last:
                self.late = 0.0 if at is None else max(0.0, sent - at - event.span)
                return at if at is not None else sent
            seq = (seq + one.payload) % 2**32
            left -= one.payload

    def pick(self, wanted: Segment) -> tuple[float, Segment] | None:
        """Removes and returns the first segment sent on the connection of `wanted`."""
        ports = wanted.ports or self.port
        for place, (_, one) in enumerate(self.arrived):
            if one.ports == ports:
                return self.arrived.pop(place)
        return None

    def info(self) -> dict[str, Any]:
        """`tcp_info` of the connection, with the names that scripts use."""
        values: dict[str, Any] = dict(NAMES)
        one = self.connection
        if one is None and self.listener is not None:
            try:
                self.listener.setblocking(False)
                one, _ = self.listener.accept()
                raise Unknown("state of a connection that is not accepted")
            except BlockingIOError:
                pass
        if one is None:
            return values | self.variables
        if one.fileno() < 0:
            raise Closed
        raw = one.getsockopt(6, socket.TCP_INFO, 512)
        fields = [entry.split(":") for entry in INFO.split()]
        layout = "=" + "".join(kind for kind, _ in fields)
        raw = raw.ljust(struct.calcsize(layout), b"\0")
        unpacked = struct.unpack(layout, raw[: struct.calcsize(layout)])
        for (_, name), value in zip(fields, unpacked, strict=True):
            values[f"tcpi_{name}"] = value
        values["tcpi_snd_wscale"] = values["tcpi_wscale"] & 15
        values["tcpi_rcv_wscale"] = values["tcpi_wscale"] >> 4
        values["tcpi_delivery_rate_app_limited"] = values["tcpi_limited"] & 1
        return values | self.variables

    def code(self, text: str) -> None:
        """Executes statements."""
        values = self.info()
        lines = list(text.split("\n"))
        indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
        cut = min(indents, default=0)
        text = "\n".join([lines[0].strip(), *[line[cut:] for line in lines[1:]]])
        before = set(values)
        try:
            exec(text, values)  # noqa: S102
        except AssertionError:
            names = sorted(set(re.findall(r"tcpi_\w+", text)))
            raise Differs(
                f"{text.strip()!r}: { ({name: values.get(name) for name in names}) }"
            ) from None
        except NameError as problem:
            raise Unknown(str(problem)) from None
        for name in set(values) - before - {"__builtins__"}:
            self.variables[name] = values[name]

    def check_blocked(self) -> None:
        """Checks blocking calls that may have returned."""
        for entry in list(self.blocked):
            thread, outcome, event, end = entry
            if self.now() >= end - 0.002:
                # The next event may need its result.
                thread.join(0.005)
            if thread.is_alive():
                if self.now() > end + self.tolerance + 0.05:
                    raise Differs(f"line {event.line}: still blocks at {self.now():.4f}")
                continue
            self.blocked.remove(entry)
            self.compare(event, outcome["value"])
            if abs(outcome["at"] - end) > self.tolerance + 0.01:
                raise Differs(f"line {event.line}: returned at {outcome['at']:.4f}, not {end:.4f}")

    def compare(self, event: Event, value: int | str) -> None:
        """Compares the result of a call."""
        words = event.body[2].split()
        if words[0] == "?":
            return
        wanted: int | str = words[1] if words[0] == "-1" and len(words) > 1 else number(words[0])
        if wanted == "EWOULDBLOCK":
            wanted = "EAGAIN"
        if wanted != value:
            raise Differs(f"{event.body[0]} returned {value}, expected {event.body[2]}")

    def call(self, event: Event, name: str, arguments: list[str], result: str) -> None:
        """Makes a call, in a thread if it may block."""

        def attempt() -> int | str:
            try:
                return self.perform(name, arguments, result, event.blocks is not None)
            except OSError as problem:
                return errno.errorcode[problem.errno or 0]

        if event.blocks is None:
            self.compare(event, attempt())
            return
        outcome: dict[str, Any] = {}

        def work() -> None:
            try:
                outcome["value"] = attempt()
            except (Unknown, Differs) as problem:
                outcome["value"] = f"? {problem}"
            outcome["at"] = self.now()

        thread = threading.Thread(target=work, daemon=True)
        end = self.now() + event.blocks
        thread.start()
        time.sleep(0.001)
        self.blocked.append((thread, outcome, event, end))
        self.check_blocked()

    def perform(self, name: str, arguments: list[str], result: str, blocks: bool) -> int | str:
        """Makes a call that does not block."""
        if name == "socket":
            one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setsockopt(6, socket.TCP_CONGESTION, self.law.encode())
            self.files[number(result.split()[0])] = one
            return number(result.split()[0])
        if name == "poll":
            return self.poll(arguments)
        if name in ("epoll_create", "epoll_create1"):
            file = number(result.split()[0])
            self.watchers[file] = select.epoll()
            return file
        if name == "epoll_ctl":
            return self.watch(arguments)
        if name in ("epoll_wait", "epoll_pwait"):
            return self.wait_for_events(arguments)
        if name in ("usleep", "nanosleep", "sleep"):
            return 0
        if name == "pipe":
            names = [int(found) for found in re.findall(r"\d+", arguments[0])]
            self.pipes.update(zip(names, os.pipe(), strict=True))
            return 0
        if name == "splice":
            source, target = (self.descriptor(number(arguments[place])) for place in (0, 2))
            return os.splice(source, target, number(arguments[4]))
        file = number(arguments[0])
        if name == "write" and file in self.pipes:
            return os.write(self.pipes[file], bytes(number(arguments[2])))
        if file not in self.files:
            return "EBADF"
        one = self.files[file]
        if name != "close":
            one.setblocking(blocks)
        flags = 0
        if name == "bind":
            one.bind((LOCAL, PORT))
            return 0
        if name == "listen":
            one.listen(number(arguments[1]))
            self.listener = one
            return 0
        if name in ("accept", "accept4"):
            fresh, _ = one.accept()
            file = number(result.split()[0]) if not result.startswith("-") else 99
            self.files[file] = fresh
            self.connection = fresh
            return file
        if name == "connect":
            self.connection = one
            one.connect((REMOTE, PORT))
            return 0
        if name in ("write", "send", "sendto"):
            if name != "write" and len(arguments) > 3:
                flags = number(arguments[3])
            return one.send(bytes(number(arguments[2])), flags | socket.MSG_NOSIGNAL)
        if name in ("sendmsg", "writev"):
            sizes = [
                int(size)
                for size in re.findall(r"\.\.\.\s*,\s*(\d+)", arguments[1].split("msg_iov")[-1])
            ]
            if name == "sendmsg":
                flags = number(arguments[2])
            return one.sendmsg([bytes(size) for size in sizes], [], flags | socket.MSG_NOSIGNAL)
        if name in ("read", "recv", "recvfrom"):
            if name != "read" and len(arguments) > 3:
                flags = number(arguments[3])
            return len(one.recv(number(arguments[2]), flags))
        if name in ("readv", "recvmsg"):
            total = sum(
                int(size)
                for size in re.findall(r"\.\.\.\s*,\s*(\d+)", arguments[1].split("msg_iov")[-1])
            )
            flags = number(arguments[2]) if name == "recvmsg" else 0
            if flags & socket.MSG_ERRQUEUE:
                # The contents of the error queue are not compared.
                return len(one.recvmsg(1, 512, flags | socket.MSG_DONTWAIT)[0])
            return len(one.recv(total))
        if name == "close":
            one.close()
            del self.files[file]
            return 0
        if name == "shutdown":
            one.shutdown(number(arguments[1]))
            return 0
        if name == "fcntl":
            if arguments[1] == "F_GETFL":
                return number(result.split()[0])
            return 0
        if name == "setsockopt":
            return self.set_option(one, arguments)
        if name == "getsockopt":
            return self.get_option(one, arguments)
        if name == "ioctl":
            buffer = fcntl.ioctl(one.fileno(), number(arguments[1]), struct.pack("i", 0))
            found = struct.unpack("i", buffer)[0]
            if found != number(arguments[2]):
                raise Differs(f"{arguments[1]} is {found}")
            return 0
        raise Unknown(f"the call {name}")

    def descriptor(self, file: int) -> int:
        """The descriptor of a pipe or a socket."""
        return self.pipes[file] if file in self.pipes else self.files[file].fileno()

    def set_option(self, one: socket.socket, arguments: list[str]) -> int:
        """Sets a socket option."""
        level, option, value = arguments[1:4]
        if option == "SO_LINGER":
            pair = [int(found) for found in re.findall(r"=\s*(\d+)", value)]
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", *pair))
        elif option == "TCP_CONGESTION":
            one.setsockopt(6, socket.TCP_CONGESTION, value.strip('[]"').encode())
        else:
            one.setsockopt(number(level), number(option), number(value))
        return 0

    def get_option(self, one: socket.socket, arguments: list[str]) -> int:
        """Compares a socket option."""
        level, option, value = arguments[1:4]
        if option == "TCP_CONGESTION":
            found = one.getsockopt(6, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            if found != value.strip('[]"'):
                raise Differs(f"{option} is {found}")
            return 0
        there = one.getsockopt(number(level), number(option))
        name = value.strip("[]")
        wanted = getattr(errno, name) if hasattr(errno, name) else number(value)
        if there != wanted:
            raise Differs(f"{option} is {there}")
        return 0

    def watch(self, arguments: list[str]) -> int:
        """Changes the events that `epoll` watches."""
        watcher, one = self.watchers[number(arguments[0])], self.files[number(arguments[2])]
        if arguments[1] == "EPOLL_CTL_DEL":
            watcher.unregister(one)
            return 0
        events = number(re.findall(r"events\s*=\s*([\w|]+)", arguments[3])[0])
        (watcher.register if arguments[1] == "EPOLL_CTL_ADD" else watcher.modify)(one, events)
        return 0

    def wait_for_events(self, arguments: list[str]) -> int:
        """Compares the events that `epoll` returns."""
        found = self.watchers[number(arguments[0])].poll(number(arguments[3]) / 1000)
        wanted = [number(text) for text in re.findall(r"events\s*=\s*([\w|]+)", arguments[1])]
        for (_, bits), events in zip(found, wanted, strict=False):
            if bits != events:
                raise Differs(f"epoll found {bits:#x}, expected {events:#x}")
        return len(found)

    def poll(self, arguments: list[str]) -> int:
        """Compares the events that `poll` returns."""
        poller = select.poll()
        wanted = {}
        for body in re.findall(r"\{([^}]*)\}", arguments[0]):
            parts = dict(piece.split("=") for piece in re.sub(r"\s", "", body).split(","))
            one = self.files[int(parts["fd"])]
            poller.register(one, number(parts["events"]))
            wanted[one.fileno()] = number(parts.get("revents", "0"))
        found = dict(poller.poll(max(0, number(arguments[2]))))
        for file, bits in wanted.items():
            if found.get(file, 0) != bits:
                raise Differs(f"poll found {found.get(file, 0):#x}, expected {bits:#x}")
        return len(found)


def play_apart(path: str, tolerance: float, verbose: bool) -> tuple[str, str, str]:
    """The verdict on one script, played in a separate process with its own namespace."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            options, events = parse(Path(path).read_text())
            Player(options, tolerance, verbose).run(events)
            text = "holds\0"
        except Differs as problem:
            text = f"differs\0{problem}"
        except Unknown as problem:
            text = f"unknown\0{problem}"
        except Exception as problem:
            import traceback

            text = f"broken\0{problem!r} {traceback.format_exc() if verbose else ''}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    data = b""
    while piece := os.read(read, 65536):
        data += piece
    os.close(read)
    os.waitpid(child, 0)
    verdict, _, said = (data or b"broken\0its process was killed").decode().partition("\0")
    return path, verdict, said


def main() -> int:
    """Plays the files, and prints the verdicts."""
    parser = argparse.ArgumentParser(
        description="Plays scripts against the TCP of the running kernel."
    )
    parser.add_argument("--tolerance-usecs", type=int, default=36_000)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    files = [
        str(file)
        for one in asked.files
        for file in (sorted(one.glob("*.pkt")) if one.is_dir() else [one])
    ]
    tolerance = asked.tolerance_usecs / 1e6
    failed = 0
    with ProcessPoolExecutor(1 if asked.verbose else asked.jobs) as pool:
        work = [pool.submit(play_apart, file, tolerance, asked.verbose) for file in files]
        for one in work:
            path, verdict, said = one.result()
            failed += verdict != "holds"
            print(f"{Path(path).name}: {verdict}{': ' if said else ''}{said}", flush=True)
    print(f"{len(files)} scripts, {len(files) - failed} hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
