"""Records random conversations of the running Linux kernel with a lossy peer, as scripts.

    sudo python tools/kernel_script/converse.py FIRST LAST FOLDER

Afterwards, `lasthop tcp-script FOLDER` reports the differences from our TCP. A seed determines a
conversation. The kernel writes data; the peer (this program) loses, delays and reorders segments
and ACKs at random. SACK, timestamps, ECN marks and delayed ACKs are optional. The script contains
every segment of both ends with its wall-clock time. After each ACK, it contains the state of
recovery, the window, the threshold, and the numbers of SACKed, lost and retransmitted segments.
Needs root and Linux.
"""

from __future__ import annotations

import argparse
import heapq
import random
import select
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scribe import Scribe
from script import FLAGS, Segment

SEGMENT, WINDOW, TIMESTAMPS = 1000, 5000, 12
#: Maximum duration of a conversation, in seconds.
LONGEST_S = 3.0
DELAYED_ACK_S = 0.04
#: Time after an ACK in which the kernel sends the segments that it allows, in seconds.
ANSWER_S = 0.0012
#: Maximum delay of the kernel's timers in these conversations.
TOLERANCE_USECS = 36_000
#: Fields of `tcp_info`, without the prefix `tcpi_`.
STATE = ("ca_state", "snd_cwnd", "snd_ssthresh", "sacked", "lost", "retrans")

Range = tuple[int, int]


@dataclass
class Receiver:
    """Data that has arrived at the peer, and the blocks that its ACKs report."""

    expected: int = 1
    above: list[Range] = field(default_factory=list)
    blocks: list[Range] = field(default_factory=list)

    def take(self, start: int, end: int) -> Range | None:
        """Processes a segment. Returns its range if it had arrived before."""
        known = end <= self.expected or any(
            start >= first and end <= last for first, last in self.above
        )
        if not known:
            merged: list[Range] = []
            for first, last in sorted([*self.above, (start, end)]):
                if merged and first <= merged[-1][1]:
                    merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
                else:
                    merged.append((first, last))
            while merged and merged[0][0] <= self.expected:
                self.expected = max(self.expected, merged.pop(0)[1])
            self.above = merged
        # The latest block first (RFC 2018): that of this segment, then those reported before.
        blocks = [(start, end), *self.blocks]
        ranges = [self._range(block) for block in blocks]
        self.blocks = list(dict.fromkeys(one for one in ranges if one is not None))
        return (start, end) if known else None

    def _range(self, block: Range) -> Range | None:
        holds = (one for one in self.above if one[0] <= block[0] and block[1] <= one[1])
        return next(holds, None)


class Conversation(Scribe):
    """One conversation: its random choices, and the lines of its script."""

    def __init__(self, seed: int) -> None:
        super().__init__(TOLERANCE_USECS)
        draw = self.random = random.Random(seed)  # noqa: S311 - a conversation to repeat
        self.sack = draw.random() < 0.8
        self.timestamps = draw.random() < 0.4
        self.dsack = self.sack and draw.random() < 0.8
        self.delays_acks = draw.random() < 0.3
        self.loss = draw.choice([0, 0.03, 0.08, 0.15, 0.25])
        self.ack_loss = draw.choice([0, 0, 0, 0.1])
        self.reordering = draw.choice([0, 0, 0, 0.1])
        self.marks = draw.choice([0.05, 0.2]) if draw.random() < 0.15 else 0.0
        self.one_way_s = draw.choice([0.02, 0.05, 0.05, 0.1])
        writes = [[3000], [30_000], [60_000], [100_000], [15_000] * 2, [8000, 4000, 20_000]]
        self.writes: list[tuple[float, int]] = []
        at = 2 * self.one_way_s + 0.01
        for length in draw.choice(writes):
            self.writes.append((at, length))
            at += draw.choice([0, 0.15, 0.6, 1.2])
        self.defaults()
        self.law = draw.choice(["cubic", "cubic", "reno"])
        settings = [f"net.ipv4.tcp_congestion_control={self.law}"]
        if self.marks:
            settings.append("net.ipv4.tcp_ecn=2")
            self.set("net.ipv4.tcp_ecn", "2")
        shell = "\n".join(f"sysctl -q {setting}" for setting in settings)
        self.lines = [
            f"--tolerance_usecs={TOLERANCE_USECS}",
            f"// Seed {seed}: data lost {self.loss}, ACKs lost {self.ack_loss}, reordered "
            f"{self.reordering}, marked {self.marks}, {self.one_way_s} s each way.",
            f"`../common/defaults.sh\n{shell}`",
        ]
        self.receiver = Receiver()
        # Arrivals at the peer: time, tie-breaking number, segment, whether the network marks it.
        self.way: list[tuple[float, int, Segment, bool]] = []
        self.echoes = False

    def note(self) -> None:
        """Records the segments sent by the kernel, and schedules their arrival at the peer."""
        while self.arrived:
            at, one = self.arrived.pop(0)
            self.lines.append(f"{at:.6f} > {self.written(one)}")
            if not one.payload or self.random.random() < self.loss:
                continue
            late = 0.0
            if self.random.random() < self.reordering:
                late = self.random.choice([0.003, 0.01, 0.03])
            arrives = at + 2 * self.one_way_s + late
            is_marked = self.random.random() < self.marks
            heapq.heappush(self.way, (arrives, len(self.lines), one, is_marked))

    def open(self) -> None:
        """Opens the connection from the peer."""
        self.start = time.monotonic()
        self.own("socket", ["...", "SOCK_STREAM", "IPPROTO_TCP"], "3")
        self.own("bind", ["3", "...", "..."], "0")
        self.own("listen", ["3", "1"], "0")
        flags = "SEW" if self.marks else "S"
        wanted = ["mss 1000", *(["sackOK"] if self.sack else [])]
        stamp = [f"TS val {100 + int(self.now() * 1000)} ecr 0"] if self.timestamps else []
        self.send(f"{flags} 0:0(0) win 65535 <{','.join([*wanted, *stamp, 'wscale 7'])}>")
        self.drain(self.now() + 2 * self.one_way_s)
        self.note()
        self.send(f". 1:1(0) ack 1 win {WINDOW}{self.options([])}")
        time.sleep(0.002)
        self.own("accept", ["3", "...", "..."], "4")

    def acknowledge(self, blocks: list[Range]) -> None:
        """Sends an ACK of the peer, unless it is lost, and records the kernel's reaction."""
        if self.random.random() < self.ack_loss:
            return
        room = 3 if self.timestamps else 4
        ranges = " ".join(f"{start}:{end}" for start, end in blocks[:room])
        more = [f"sack {ranges}"] if self.sack and blocks else []
        flags = "E." if self.echoes else "."
        ack = self.receiver.expected
        self.send(f"{flags} 1:1(0) ack {ack} win {WINDOW}{self.options(more)}")
        time.sleep(ANSWER_S)
        self.drain(None)
        self.note()
        state: dict[str, Any] = self.info()
        checks = " and ".join(f"tcpi_{name} == {state[f'tcpi_{name}']}" for name in STATE)
        self.lines.append(f"+0 %{{ assert {checks} }}%")

    def converse(self) -> str:
        """Runs the conversation and returns its script."""
        self.open()
        waiting, delayed = 0, None
        total = sum(length for _, length in self.writes)
        while self.now() < LONGEST_S and self.receiver.expected <= total:
            due = [at for at, *_ in self.way[:1]] + [at for at, _ in self.writes[:1]]
            due += [LONGEST_S] if delayed is None else [LONGEST_S, delayed]
            if select.select([self.tun], [], [], max(0.0, min(due) - self.now()))[0]:
                self.drain(None)
            self.note()
            if self.writes and self.now() >= self.writes[0][0]:
                length = str(self.writes.pop(0)[1])
                self.own("write", ["4", "...", length], length)
            if self.way and self.way[0][0] <= self.now():
                _, _, one, is_marked = heapq.heappop(self.way)
                if one.flags & FLAGS["W"]:
                    self.echoes = False
                self.echoes |= is_marked and one.ecn == 2
                in_order = one.seq == self.receiver.expected and not self.receiver.above
                again = self.receiver.take(one.seq, one.seq + one.payload)
                waiting += 1
                if self.delays_acks and in_order and waiting < 2:
                    delayed = delayed or self.now() + DELAYED_ACK_S
                    continue
                duplicate = [again] if again and self.dsack else []
                self.acknowledge([*duplicate, *self.receiver.blocks])
            elif delayed is not None and self.now() >= delayed:
                self.acknowledge(self.receiver.blocks)
            else:
                continue
            waiting, delayed = 0, None
        return "\n".join(self.lines) + "\n"


def record(seed: int, folder: Path) -> None:
    """Records one conversation in a new process, because the process stays in the namespace."""
    (folder / f"{seed:04}.pkt").write_text(Conversation(seed).converse())


def main() -> int:
    """Records the conversations of all seeds from the first to the last."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=8)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(asked.jobs, max_tasks_per_child=1) as pool:
        seeds = range(asked.first, asked.last + 1)
        for one in [pool.submit(record, seed, asked.folder) for seed in seeds]:
            one.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
