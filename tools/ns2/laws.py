"""Record the congestion windows of ns-2's Linux TCP: `reference/laws/<module>.csv`.

Usage: `python3 tools/ns2/laws.py`

Agent/TCP/Linux runs congestion control modules of Linux 2.6 (Wei and Cao, "NS-2 TCP-Linux", 2006).
There is one row per acknowledgment that arrives at the sender. Columns: time since the last one in
µs; number of packets that it acknowledges; time since the first transmission of the last of them in
µs (0 if it was retransmitted); highest packet sent so far; window and threshold afterwards, in
packets.
"""

# ruff: noqa: S603

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = ("bic", "htcp", "hybla", "vegas", "veno", "westwood")
DROP = "300,1500"
SECONDS = 8


def rows(lines: Iterator[list[str]]) -> Iterator[tuple[int, int, int, int, int, int]]:
    """The acknowledgments in a trace, and the sender's reaction to each."""
    sent: dict[int, float] = {}
    again: set[int] = set()
    window = threshold = 0
    highest = acked = -1
    last = 0.0
    pending: tuple[int, int, int, int] | None = None
    for words in lines:
        if words[0] == "r" and words[2:5] == ["1", "0", "ack"]:
            if pending is not None:
                yield (*pending, window, threshold)
            now, number = float(words[1]), int(words[10])
            rtt = 0.0 if number in again or number <= acked else now - sent[number]
            count = max(number - acked, 0)
            acked = max(number, acked)
            pending = (round(1e6 * (now - last)), count, round(1e6 * rtt), highest)
            last = now
        elif words[0] == "+" and words[2:5] == ["0", "1", "tcp"]:
            number = int(words[10])
            again |= {number} & sent.keys()
            sent.setdefault(number, float(words[1]))
            highest = max(highest, number)
        elif len(words) == 7 and words[5] == "cwnd_":
            window = int(float(words[6]))
        elif len(words) == 7 and words[5] == "ssthresh_":
            threshold = int(float(words[6]))


def main() -> int:
    """Entry point."""
    folder = HERE / "reference" / "laws"
    folder.mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "trace"
            command = ["ns", str(HERE / "laws.tcl"), module, DROP, str(path), str(SECONDS)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            lines = [line.split() for line in path.read_text().splitlines()]
        with (folder / f"{module}.csv").open("w", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(("gap_us", "acked", "rtt_us", "highest", "cwnd", "ssthresh"))
            out.writerows(rows(iter(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
