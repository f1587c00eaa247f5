"""Write the event traces of hand-picked loss patterns: reference/traces/<name>.csv and cases.csv.

Usage: python3 tools/ns2/traces.py

Rows: time in s, event, seqno in packets (the SYN is packet 0), size in bytes. `send` is a packet
sent by TCP, `ack` a cumulative acknowledgment received by it, `rto` an expiry of its timer (seqno:
the retransmitted packet). Simultaneous events are listed in the order in which they occurred.
"""

# ruff: noqa: S603

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACES = HERE / "reference" / "traces"
PACKETS = 300
SECONDS = 25
TCPS = {"tahoe": "Tahoe", "reno": "Reno", "newreno": "Newreno", "sack": "Sack1"}
# About six frames in a hundred, picked by hand.
SCATTERED = "9,44,45,71,96,98,133,137,139,158,190,221,222,223,257,280,291,304,318,320"
SCATTERED_ACKS = "3,18,47,62,63,95,121,144,166,168,201,230,231,266,288"


@dataclass(frozen=True)
class Pattern:
    """Frames lost on the wireless link, from 1 in each direction (data frame 1 is the SYN)."""

    name: str
    drop: str = ""
    drop_ack: str = ""


def span(first: int, last: int) -> str:
    """The comma-separated list first..=last."""
    return ",".join(str(frame) for frame in range(first, last + 1))


PATTERNS = (
    Pattern("none"),
    Pattern("single", drop="101"),
    Pattern("two", drop="101,105"),
    Pattern("two-adjacent", drop="101,102"),
    Pattern("three", drop="101,104,107"),
    Pattern("burst-6", drop=span(101, 106)),
    Pattern("blackout-23", drop=span(101, 123)),
    Pattern("lost-retransmission", drop="101,RTX"),
    Pattern("lost-acks", drop_ack="50,51,80," + span(120, 126)),
    Pattern("ack-blackout", drop_ack=span(100, 122)),
    Pattern("slow-start", drop="7"),
    Pattern("slow-start-two", drop="12,14"),
    Pattern("slow-start-second", drop="2"),
    Pattern("syn", drop="1"),
    Pattern("syn-ack", drop_ack="1"),
    Pattern("tail", drop="301"),
    Pattern("tail-3", drop="299,300,301"),
    Pattern("scattered", drop=SCATTERED, drop_ack=SCATTERED_ACKS),
)


def raw_trace(tcp: str, drop: str, drop_ack: str) -> list[list[str]]:
    """The lines of one run's ns-2 trace, split into words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        command = [
            "ns",
            str(HERE / "ft.tcl"),
            f"tcp={TCPS[tcp]}",
            "pkt=252",
            "minrto=1",
            "sched=Heap",
            "slim=1",
            f"bytes={PACKETS * 250}",
            f"drop={drop}",
            f"dropack={drop_ack}",
            f"trace={path}",
            f"tracesec={SECONDS}",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return [line.split() for line in path.read_text().splitlines()]


def retransmission_frame(tcp: str, frame: int) -> int:
    """The wireless data frame with the first retransmission of the packet lost in `frame`."""
    seen = [
        words[10]
        for words in raw_trace(tcp, str(frame), "")
        if words[0] == "-" and words[2:5] == ["1", "2", "tcp"]
    ]
    packet = seen[frame - 1]
    return seen.index(packet, frame) + 1


def events(lines: list[list[str]]) -> Iterator[tuple[str, str, int, int]]:
    """The sender's own events in an ns-2 trace."""
    acked = -1
    expired = False
    for words in lines:
        if words[0] == "+" and words[2:5] == ["0", "1", "tcp"]:
            if expired:  # the timer's line has fewer digits than the retransmission
                yield f"{float(words[1]):.6f}", "rto", acked + 1, 0
                expired = False
            yield f"{float(words[1]):.6f}", "send", int(words[10]), int(words[5])
        elif words[0] == "r" and words[2:5] == ["1", "0", "ack"]:
            acked = max(acked, int(words[10]))
            yield f"{float(words[1]):.6f}", "ack", int(words[10]), int(words[5])
        elif len(words) == 7 and words[5] == "nrexmit_" and int(words[6]) > 0:
            expired = True


def main() -> int:
    """Entry point."""
    os.nice(10)
    TRACES.mkdir(parents=True, exist_ok=True)
    with (TRACES / "cases.csv").open("w", newline="") as file:
        cases = csv.writer(file, lineterminator="\n")
        cases.writerow(("name", "tcp", "topology", "packets", "seconds", "drop", "drop_ack"))
        for pattern in PATTERNS:
            for tcp in TCPS:
                name = f"{tcp}-{pattern.name}"
                drop = pattern.drop
                if "RTX" in drop:
                    drop = drop.replace("RTX", str(retransmission_frame(tcp, 101)))
                row = (name, tcp, "LAN", PACKETS, SECONDS, drop, pattern.drop_ack)
                cases.writerow([str(v).replace(",", " ") for v in row])
                with (TRACES / f"{name}.csv").open("w", newline="") as out:
                    trace = csv.writer(out, lineterminator="\n")
                    trace.writerow(("time", "event", "seqno", "size"))
                    trace.writerows(events(raw_trace(tcp, drop, pattern.drop_ack)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
