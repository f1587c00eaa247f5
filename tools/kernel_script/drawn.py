"""A random conversation with the running kernel, as described in `draw.py`."""

from __future__ import annotations

import errno
import fcntl
import random
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host import PHASES, TIMER_HZ, latest_tick
from scribe import Scribe
from script import Segment, Unknown, number

#: Reactions of the kernel within this time belong to the step, in seconds.
ANSWER_S = 0.012
#: Minimum time between a step and the expiry of a timer, in seconds.
CLOSE_S = 0.03
USER_HZ = 100
#: Fields of `tcp_info`, without the prefix `tcpi_`.
STATE = """
state ca_state snd_cwnd snd_ssthresh unacked sacked lost retrans total_retrans backoff probes
snd_mss reordering notsent_bytes bytes_acked bytes_received bytes_sent bytes_retrans delivered
delivered_ce dsack_dups reord_seen rcv_ooopack data_segs_in data_segs_out segs_in segs_out snd_wnd
options snd_wscale rcv_wscale pmtu advmss
"""

#: Options that an application may set on a connection, with possible values.
OPTIONS: dict[str, list[int]] = {
    "TCP_NODELAY": [0, 1],
    "TCP_CORK": [0, 1],
    "TCP_QUICKACK": [0, 1],
    "TCP_USER_TIMEOUT": [0, 300, 1000],
    "TCP_NOTSENT_LOWAT": [1, 2000, 10_000],
    "TCP_MAXSEG": [536, 700],
    "TCP_KEEPIDLE": [1, 10],
    "TCP_KEEPINTVL": [1, 5],
    "TCP_KEEPCNT": [1, 3],
    "TCP_SYNCNT": [1, 3],
    "TCP_LINGER2": [-1, 0, 5],
    "TCP_DEFER_ACCEPT": [0, 1, 5],
    "TCP_WINDOW_CLAMP": [0, 2000, 20_000],
    "SO_KEEPALIVE": [0, 1],
    "SO_RCVLOWAT": [1, 1500],
    "SO_SNDBUF": [4000, 10_000, 50_000],
    "SO_OOBINLINE": [0, 1],
}

#: Congestion control algorithms of which each conversation uses one.
ALGORITHMS = ["cubic", "reno"]
#: The peer's window scale, as a shift.
SCALE = 7
#: Full segments of the peer have at most this much data, in bytes.
FULL = 1460

Step = Callable[[], None]


@dataclass(frozen=True)
class Kind:
    """The kind of the conversations: what they contain, and what their scripts compare."""

    #: Tolerance of times in the scripts, in microseconds.
    tolerance: int
    #: Whether scripts contain the kernel's windows.
    windows: bool
    #: Share of the peer's segments that follow the previous one immediately.
    back_to_back: float
    #: The kernel's initial window in segments; None for its default.
    flight: int | None
    #: The algorithms, of which each conversation draws one.
    algorithms: list[str]


class Drawn(Scribe):
    """One conversation."""

    def __init__(self, seed: int, kind: Kind) -> None:
        super().__init__(kind.tolerance)
        self.kind = kind
        self.random = random.Random(seed)  # noqa: S311 - a conversation to repeat
        self.defaults()
        draw = self.random.random
        self.sack, self.timestamps, self.scales = draw() < 0.7, draw() < 0.4, draw() < 0.7
        # Windows of 64 kB and less would limit a long flight.
        self.scales |= kind.flight is not None
        self.mss = self.random.choice([1000, 1000, 1000, 1460, 536, None])
        self.ecn = draw() < 0.2
        settings = {"tcp_congestion_control": self.random.choice(kind.algorithms)}
        self.law = settings["tcp_congestion_control"]
        if self.ecn:
            settings["tcp_ecn"] = self.random.choice(["1", "2"])
        drawn = {
            "tcp_slow_start_after_idle": "1", "tcp_sack": "0", "tcp_timestamps": "0",
            "tcp_window_scaling": "0", "tcp_dsack": "0", "tcp_frto": "0",
            "tcp_early_retrans": "0", "tcp_reordering": "6", "tcp_retries2": "3",
            "tcp_recovery": "0", "tcp_min_tso_segs": "4", "tcp_notsent_lowat": "5000",
        }  # fmt: skip
        settings |= {name: value for name, value in drawn.items() if draw() < 0.04}
        for name, value in settings.items():
            self.set(f"net.ipv4.{name}", value)
        shell = "\n".join(f"sysctl -q net.ipv4.{name}={value}" for name, value in settings.items())
        if kind.flight is not None:
            route = f"ip route change default dev tun0 initcwnd {kind.flight}"
            self.shell(route)
            shell += f"\n{route}"
        self.lines = [
            f"--tolerance_usecs={kind.tolerance}",
            f"--timer_hz={TIMER_HZ}",
            "",
            f"// Seed {seed}.",
            f"`../common/defaults.sh\n{shell}`",
        ]
        self.file = 4
        self.is_open = False
        #: Sequence space of the peer: the next number, and whether its FIN was sent.
        self.next = 1
        self.has_fin = False
        #: Data sent by the kernel: all ranges, and the highest acknowledgment number.
        self.sent: list[tuple[int, int]] = []
        self.una = 1
        self.top = 1
        self.acked_by_kernel = 1
        #: Segments of the kernel that are recorded, and which the peer has not processed.
        self.unseen: list[Segment] = []
        self.window = 0
        self.sacked: list[tuple[int, int]] = []

    # Reactions of the kernel

    def note(self, *, sees: bool = True) -> None:
        """Records the segments that the kernel has sent; the peer may see them later."""
        while self.arrived:
            at, one = self.arrived.pop(0)
            text = self.written(one)
            if self.kind.windows and not one.flags & 4 and one.window is not None:
                head, mark, tail = text.partition(" <")
                text = f"{head} win {one.window}{mark}{tail}"
            self.lines.append(f"{at:.6f} > {text}")
            self.unseen.append(one)
        if sees:
            for one in self.unseen:
                self.see(one)
            self.unseen.clear()

    def see(self, one: Segment) -> None:
        """Updates the state for a segment of the kernel."""
        if one.flags & 4:
            return
        end = one.seq + one.payload + (one.flags & 1)
        if one.ack is not None and one.ack < 2**31:
            self.acked_by_kernel = max(self.acked_by_kernel, one.ack)
        if one.payload or one.flags & 1:
            self.sent.append((one.seq, end))
            self.top = max(self.top, end)

    def wait(self, seconds: float) -> None:
        """Waits, and records the segments sent in the meantime."""
        self.sleep_until(self.now() + seconds)
        self.note()

    def settle(self) -> None:
        """Waits for a timer that is about to expire, before the next step."""
        for _ in range(60):
            remaining = self.timer()
            if remaining is None or remaining > CLOSE_S:
                return
            self.wait(0.01)

    def timer(self) -> float | None:
        """Seconds until the retransmission or probe timer expires; None if it is stopped."""
        for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            kind, _, ticks = words[5].partition(":")
            if words[3] != "0A" and kind in ("01", "04"):
                return int(ticks, 16) / USER_HZ
        return None

    def state(self) -> None:
        """Records `tcp_info`."""
        if self.connection is None or self.connection.fileno() < 0:
            return
        values: dict[str, Any] = self.info()
        checks = "; ".join(
            f"assert tcpi_{name} == {values[f'tcpi_{name}']}" for name in STATE.split()
        )
        self.lines.append(f"+0 %{{ {checks} }}%")

    # Calls

    def make(self, name: str, *arguments: str, flavour: str = "?") -> int | str:
        """Makes a system call and records its result."""
        at = self.now()
        try:
            value = self.perform(name, list(arguments), flavour, blocks=False)
        except OSError as problem:
            value = errno.errorcode.get(problem.errno or 0, "?")
        shown = f"-1 {value} (...)" if isinstance(value, str) else str(value)
        self.lines.append(f"{at:.6f} {name}({', '.join(arguments)}) = {shown}")
        return value

    def write(self) -> None:
        """Writes data of the application."""
        lengths = [1, 100, 500, 1000, 1500, 3000, 5000, 10_000, 40_000]
        if self.kind.flight is not None:
            lengths += [1000 * self.kind.flight] * 3
        length = self.random.choice(lengths)
        flags = self.random.choice(["0", "0", "MSG_MORE", "MSG_EOR", "MSG_DONTWAIT"])
        if flags == "0":
            self.make("write", str(self.file), "...", str(length))
        else:
            self.make("send", str(self.file), "...", str(length), flags)

    def read(self) -> None:
        """Reads data into the application."""
        length = self.random.choice([0, 1, 500, 1000, 3000, 100_000])
        flags = self.random.choice(["0", "0", "0", "MSG_PEEK", "MSG_TRUNC"])
        if flags == "0":
            self.make("read", str(self.file), "...", str(length))
        else:
            self.make("recv", str(self.file), "...", str(length), flags)

    def shut(self) -> None:
        """Shuts down one direction, or both."""
        how = self.random.choice(["SHUT_RD", "SHUT_WR", "SHUT_WR", "SHUT_RDWR"])
        self.make("shutdown", str(self.file), how)

    def close(self) -> None:
        """Closes the socket, sometimes with a reset."""
        if self.random.random() < 0.2:
            self.make(
                "setsockopt", str(self.file), "SOL_SOCKET", "SO_LINGER", "{onoff=1, linger=0}", "8"
            )
        self.make("close", str(self.file))
        self.is_open = False

    def option(self) -> None:
        """Sets a socket option."""
        name = self.random.choice(list(OPTIONS))
        level = "SOL_SOCKET" if name.startswith("SO_") else "SOL_TCP"
        value = self.random.choice(OPTIONS[name])
        self.make("setsockopt", str(self.file), level, name, f"[{value}]", "4")

    def ask(self) -> None:
        """Queries the socket with a random call."""
        one = self.files.get(self.file)
        if one is None:
            return
        kind = self.random.randrange(4)
        if kind == 0:
            request = self.random.choice(["SIOCINQ", "SIOCOUTQ", "SIOCOUTQNSD"])
            try:
                raw = fcntl.ioctl(one.fileno(), number(request), struct.pack("i", 0))
            except OSError:
                return
            found = struct.unpack("i", raw)[0]
            self.lines.append(f"{self.now():.6f} ioctl({self.file}, {request}, [{found}]) = 0")
        elif kind == 1:
            name = self.random.choice([*OPTIONS, "SO_ERROR", "SO_ERROR"])
            level = socket.SOL_SOCKET if name.startswith("SO_") else 6
            found = one.getsockopt(level, number(name))
            word = "SOL_SOCKET" if level != 6 else "SOL_TCP"
            self.lines.append(
                f"{self.now():.6f} getsockopt({self.file}, {word}, {name}, [{found}], [4]) = 0"
            )
        else:
            poller = select.poll()
            poller.register(one, select.POLLIN | select.POLLOUT | select.POLLRDHUP)
            found_bits = dict(poller.poll(0)).get(one.fileno(), 0)
            names = [
                name
                for name in ("POLLIN", "POLLPRI", "POLLOUT", "POLLERR", "POLLHUP", "POLLRDHUP")
                if found_bits & getattr(select, name)
            ]
            shown = "|".join(names) or "0"
            self.lines.append(
                f"{self.now():.6f} poll([{{fd={self.file}, events=POLLIN|POLLOUT|POLLRDHUP, "
                f"revents={shown}}}], 1, 0) = {int(bool(found_bits))}"
            )

    # Segments of the peer

    def draw_window(self) -> int:
        """Chooses the window of the peer, which usually does not change."""
        if self.random.random() < 0.8:
            return self.window
        windows = (
            [0, 0, 1, 5, 20, 100, 257, 1000] if self.scales else [0, 0, 500, 1000, 4000, 32_792]
        )
        if self.kind.flight is not None:
            windows += [self.full_window()] * 4
        self.window = self.random.choice(windows)
        return self.window

    def full_window(self) -> int:
        """The window that the peer advertises when the connection is open."""
        if not self.scales:
            return 32_792
        return max(257, 2 * (self.kind.flight or 0) * FULL >> SCALE)

    def segment(
        self, flags: str, seq: int, length: int, ack: int, more: list[str] | None = None
    ) -> None:
        """Sends a segment of the peer."""
        codepoint = ""
        if self.ecn and self.random.random() < 0.3:
            codepoint = self.random.choice(["[ce] ", "[ect0] ", "[noecn] "])
            if length == 0:
                codepoint = ""
            flags = self.random.choice(["E", "W", ""]) + flags
        text = f"{codepoint}{flags} {seq}:{seq + length}({length})"
        if "." in flags:
            text += f" ack {ack}"
        self.send(f"{text} win {self.draw_window()}{self.options(more or [])}")

    def options(self, more: list[str]) -> str:
        """Options of a segment of the peer, sometimes with a wrong timestamp."""
        if self.timestamps and self.random.random() < 0.04:
            offset = self.random.choice([-5000, -50, 5000])
            stamp = max(1, 100 + int(self.now() * 1000) + offset)
            return f" <{','.join([f'TS val {stamp} ecr {self.latest_stamp}', *more])}>"
        return super().options(more)

    def borders(self) -> list[int]:
        """Ends of segments above the highest acknowledgment number."""
        return sorted({end for _, end in self.sent if end > self.una})

    def blocks(self) -> list[tuple[int, int]]:
        """Random SACK blocks, which may be correct."""
        ends = [border for border in self.borders() if border > self.una]
        if not ends:
            return []
        starts = sorted({start for start, _ in self.sent if start > self.una})
        for _ in range(self.random.choice([0, 1, 1, 1, 2])):
            if not starts:
                break
            start = self.random.choice(starts)
            later = [end for end in ends if end > start]
            if not later:
                continue
            end = self.random.choice(later[:3])
            self.sacked.append((start, end))
        merged: list[tuple[int, int]] = []
        for start, end in sorted(self.sacked):
            if end <= self.una:
                continue
            start = max(start, self.una + 1)
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((start, end))
        self.random.shuffle(merged)
        return merged[: 3 if self.timestamps else 4]

    def sack_option(self, blocks: list[tuple[int, int]]) -> list[str]:
        """The SACK option with these blocks."""
        if not self.sack or not blocks:
            return []
        return ["sack " + " ".join(f"{start}:{end}" for start, end in blocks)]

    def ack(self) -> None:
        """Sends a random kind of ACK."""
        kind = self.random.random()
        borders = self.borders()
        if kind < 0.35 and borders:
            self.una = borders[-1]
        elif kind < 0.65 and borders:
            self.una = self.random.choice(borders[:4])
        elif kind < 0.66 and self.top > self.una + 1:
            self.una = self.random.randrange(self.una + 1, self.top)
        elif kind < 0.73:
            self.segment(".", self.next, 0, self.top + self.random.choice([1, 1000, 100_000]))
            return
        elif kind < 0.77 and self.una > 1000:
            self.segment(".", self.next, 0, self.una - self.random.choice([1, 500]))
            return
        elif kind < 0.82 and self.sent:
            start, end = self.random.choice(self.sent)
            if end <= self.una:
                blocks = [(start, end), *self.blocks()][: 3 if self.timestamps else 4]
                self.segment(".", self.next, 0, self.una, self.sack_option(blocks))
                return
        # The ACK covers all data in the blocks that are adjacent to it.
        while any(start <= self.una < end for start, end in self.sacked):
            self.una = max(end for start, end in self.sacked if start <= self.una < end)
        blocks = self.blocks() if self.random.random() < 0.7 else []
        self.segment(".", self.next, 0, self.una, self.sack_option(blocks))

    def data(self) -> None:
        """Sends data of the peer."""
        length = self.random.choice([1, 100, 500, 1000, 1000, 1000])
        kind = self.random.random()
        ack = self.una
        if kind < 0.55 and not self.has_fin:
            seq = self.next
            self.next += length
        elif kind < 0.75 and not self.has_fin:
            seq = self.next + self.random.choice([500, 1000, 2000, 3000])
        elif kind < 0.85:
            seq = max(1, self.acked_by_kernel - self.random.choice([100, 500, 1000]))
        elif kind < 0.93:
            # The first missing byte.
            seq = self.acked_by_kernel
            self.next = max(self.next, seq + length)
        else:
            seq = self.next + self.random.choice([60_000, 300_000, 2_000_000])
        self.segment(self.random.choice([".", "P.", "P."]), seq, length, ack)

    def fin(self) -> None:
        """Sends the peer's FIN, possibly out of order."""
        length = self.random.choice([0, 0, 0, 500])
        seq = self.next + self.random.choice([0, 0, 0, 1000])
        if self.has_fin:
            seq, length = self.next - 1, 0
        self.segment("F.", seq, length, self.una)
        if seq == self.next and not self.has_fin:
            self.next += length + 1
            self.has_fin = True

    def reset(self) -> None:
        """Sends a RST, whose sequence number may be wrong."""
        seq = self.acked_by_kernel + self.random.choice([0, 0, 1, 500, 500_000, -1])
        flags = self.random.choice(["R", "R."])
        self.segment(flags, seq, 0, self.una)

    def odd(self) -> None:
        """Sends a segment that is invalid in this state."""
        kind = self.random.randrange(3)
        if kind == 0:
            self.segment("S", self.random.choice([0, self.next, self.next + 1000]), 0, 0)
        elif kind == 1:
            self.segment("-", self.next, self.random.choice([0, 100]), 0)
        else:
            self.segment("SF.", self.next, 0, self.una)

    # The conversation

    def syn_options(self) -> str:
        """Options of the peer's SYN."""
        options = [f"mss {self.mss}"] if self.mss else []
        if self.sack:
            options.append("sackOK")
        if self.timestamps:
            echo = self.latest_stamp
            options.append(f"TS val {100 + int(self.now() * 1000)} ecr {echo}")
        if self.scales:
            options.append(f"wscale {SCALE}")
        return f" <{','.join(options)}>" if options else ""

    def before_open(self, file: int) -> None:
        """Sets options before the connection is open."""
        self.file = file
        while self.random.random() < 0.15:
            self.option()

    def open_passively(self) -> None:
        """Opens the connection from the peer."""
        self.make("socket", "...", "SOCK_STREAM", "IPPROTO_TCP", flavour="3")
        self.make("bind", "3", "...", "...")
        self.before_open(3)
        self.make("listen", "3", "1")
        flags = "SEW" if self.ecn else "S"
        self.send(f"{flags} 0:0(0) win 32792{self.syn_options()}")
        self.wait(self.random.choice([0.01, 0.03, 0.1, 0.1]))
        if self.random.random() < 0.05:
            self.wait(1.2)
        self.agree()
        self.window = self.full_window()
        if self.random.random() < 0.1:
            self.next = 501
            self.send(f"P. 1:501(500) ack 1 win {self.window}{self.options([])}")
        else:
            self.send(f". 1:1(0) ack 1 win {self.window}{self.options([])}")
        self.wait(0.003)
        self.make("accept", "3", "...", "...", flavour="4")
        self.file = 4

    def agree(self) -> str:
        """Disables the options that are not in the kernel's SYN; returns the line of the SYN."""
        syn = next((line for line in self.lines if " > " in line), "")
        self.sack &= "sackOK" in syn
        self.timestamps &= "TS" in syn
        self.scales &= "wscale" in syn
        return syn

    def open_actively(self) -> None:
        """Opens the connection from the kernel."""
        self.make("socket", "...", "SOCK_STREAM", "IPPROTO_TCP", flavour="3")
        self.before_open(3)
        self.make("connect", "3", "...", "...")
        self.wait(self.random.choice([0.01, 0.03, 0.1, 0.1]))
        if self.random.random() < 0.05:
            self.wait(1.2)
        asked = self.agree()
        flags = "SE." if self.ecn and " SEW " in asked else "S."
        self.ecn &= flags == "SE."
        self.window = 32_792
        self.send(f"{flags} 0:0(0) ack 1 win 32792{self.syn_options()}")
        self.window = self.full_window()
        self.wait(0.003)

    def converse(self) -> str:
        """Runs the conversation and returns its script."""
        self.start, tick = latest_tick()
        self.lines[2] = f"--timer_phase={tick % PHASES}"
        if self.random.random() < 0.6:
            self.open_passively()
        else:
            self.open_actively()
        self.is_open = True
        self.state()
        calls: list[tuple[Step, float]] = [
            (self.write, 6), (self.read, 3), (self.option, 1.2), (self.ask, 2), (self.shut, 0.4),
            (self.close, 0.4),
        ]  # fmt: skip
        arrivals: list[tuple[Step, float]] = [
            (self.ack, 10), (self.data, 4), (self.fin, 0.6), (self.reset, 0.2), (self.odd, 0.3),
        ]  # fmt: skip
        if self.sent == []:
            self.write()
            self.wait(ANSWER_S)
        follows = False
        for _ in range(self.random.randrange(5, 25)):
            steps = [*calls, *arrivals] if self.is_open else arrivals
            if follows:
                steps = arrivals
                follows = False
            else:
                self.settle()
            step = self.random.choices(
                [step for step, _ in steps], [weight for _, weight in steps]
            )[0]
            try:
                step()
            except Unknown as problem:
                self.lines.append(f"// {problem}")
            if self.kind.back_to_back and step in [arrival for arrival, _ in arrivals]:
                follows = self.random.random() < self.kind.back_to_back
                if follows:
                    self.drain(None)
                    self.note(sees=False)
                    continue
            self.wait(ANSWER_S)
            self.state()
            self.wait(self.random.choice([0, 0, 0, 0, 0, 0.02, 0.1, 0.1, 0.4, 0.8]))
        self.state()
        self.wait(0.1)
        return "\n".join(self.lines) + "\n"
