"""Series of rates and delays over time, and their formats.

| format | recognised by | content |
|---|---|---|
| CSV, with commas, semicolons or tabs | a separator | columns `time_s` (or `time_ms`), and `rate_bps` (`rate_kbps`, `rate_mbps`) or `delay_s` (`delay_ms`, `rtt_ms`, `rtt_s`) |
| mahimahi, heavy PDO trace of CellReplay | a number per line | rates: a delivery opportunity of 1504 B, in ms |
| packet-train trace of CellReplay | two or more numbers per line | delays: time and one-way delay in ms; the rest are the opportunities after the first packet |
| output of `ping` | `PING` | delays: half of each RTT, by `icmp_seq` |
| output of `iperf3 --json` | `{` | rates: throughput of each interval, over all streams |

Sources: R. Netravali et al., "Mahimahi: accurate record-and-replay for HTTP", USENIX ATC 2015;
W. Sentosa et al., "CellReplay: towards accurate record-and-replay for cellular networks", NSDI
2025, and the reader of its emulator (`src/frontend/cellular_queue.cc` of its repository).
"""  # noqa: E501 - a table

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.records import FitError
from lasthop.scenarios.files import quoted, read_bytes

__all__ = ["Series", "read_delays", "read_rate_series"]

TIMES: Mapping[str, float] = {"time_s": 1.0, "time_ms": 1e-3, "time": 1.0, "t": 1.0}
RATES: Mapping[str, float] = {"rate_bps": 1.0, "rate_kbps": 1e3, "rate_mbps": 1e6}
# Half of an RTT is a delay.
DELAYS: Mapping[str, float] = {"delay_s": 1.0, "delay_ms": 1e-3, "rtt_s": 0.5, "rtt_ms": 5e-4}
REPLY = re.compile(
    r"^(?:\[(?P<time>\d+\.\d+)\] )?\d+ bytes from .*\b(?:icmp_)?seq=(?P<number>\d+).* "
    r"time=(?P<rtt>[\d.]+) ms",
    re.MULTILINE,
)
EXPECTED = "expected CSV, the output of ping or a packet-train trace of CellReplay"


@dataclass(frozen=True, slots=True)
class Series:
    """Measurements over time.

    Attributes:
        times_s: Time of each value, not decreasing.
        values: Values in bit/s or seconds.
        key: `rate` or `delay`.
        source: Name of the file.
        interval_s: Interval of the values; None: the median distance of their times.
        notes: Remarks on how the file was read.
    """

    times_s: NDArray[np.float64]
    values: NDArray[np.float64]
    key: str
    source: str
    interval_s: float | None = None
    notes: tuple[str, ...] = ()

    def text(self, value: float) -> str:
        """Returns a value in the notation of scenarios: whole bits per second or microseconds."""
        if self.key == "rate":
            return f"{max(round(value), 0)} bps"
        return f"{max(round(1e6 * value), 0) / 1e3:g} ms"


def read_delays(path: str | Path) -> Series:
    """Reads one-way delays over time.

    Raises:
        FitError: If the file has another format.
        OSError: If it cannot be read.
    """
    text = _text(path)
    begin = text.lstrip()[:200]
    if begin.startswith("PING "):
        return _ping(text, str(path))
    first = next((line for line in text.splitlines() if not _is_comment(line)), "")
    if re.fullmatch(r"\d+( \d+)+", first.strip()):
        return _trains(text, path)
    return _table(text, path, DELAYS, "delay")


def read_rate_series(path: str | Path) -> Series | None:
    """Reads rates over time from CSV or iperf3; None if the file has one number per line.

    Raises:
        FitError: If the file has another format.
        OSError: If it cannot be read.
    """
    text = _text(path)
    first = next((line for line in text.splitlines() if not _is_comment(line)), "")
    if first.lstrip().startswith("{"):
        return _iperf(text, path)
    if not re.search(r"[,;\t]", first):
        return None
    return _table(text, path, RATES, "rate")


def _text(path: str | Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FitError(
            f"{path}: invalid text ({error.reason} at byte {error.start}): {EXPECTED}"
        ) from None


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _series(
    times: list[float], values: list[float], key: str, path: str | Path, *notes: str
) -> Series:
    at = np.array(times, dtype=np.float64)
    if at.size < 2:
        raise FitError(f"{path}: {at.size} values: expected at least 2")
    if (np.diff(at) < 0.0).any():
        place = int(np.argmax(np.diff(at) < 0.0)) + 2
        raise FitError(
            f"{path}: time {at[place - 1]:g} s of value {place} is before the previous one: "
            "expected times in ascending order"
        )
    return Series(at, np.array(values), key, str(path), notes=notes)


def _number(text: str, path: str | Path, number: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e15:
        raise FitError(f"{path}:{number}: {quoted(text)}: expected a number of at least 0")
    return value


def _table(text: str, path: str | Path, columns: Mapping[str, float], key: str) -> Series:
    """Reads CSV with a column of times and one of values."""
    rows = [
        (number, line) for number, line in enumerate(text.splitlines(), 1) if not _is_comment(line)
    ]
    first = rows[0][1] if rows else ""
    separator = next((one for one in ";\t," if one in first), None)
    if separator is None:
        raise FitError(f"{path}: {quoted(first)}: {EXPECTED if key == 'delay' else 'expected CSV'}")
    head = [name.strip(' "').lower() for name in first.split(separator)]
    time = next((name for name in head if name in TIMES), None)
    value = next((name for name in head if name in columns), None)
    if time is None or value is None:
        raise FitError(
            f"{path}:{rows[0][0]}: {quoted(first)}: expected columns {', '.join(list(TIMES)[:2])} "
            f"and one of {', '.join(columns)}"
        )
    times, values = [], []
    for number, line in rows[1:]:
        cells = [cell.strip(' "') for cell in line.split(separator)]
        if len(cells) < len(head):
            raise FitError(f"{path}:{number}: {len(cells)} columns: expected {len(head)}")
        times.append(TIMES[time] * _number(cells[head.index(time)], path, number))
        values.append(columns[value] * _number(cells[head.index(value)], path, number))
    notes = ("one-way delays are half of the RTTs",) if value.startswith("rtt") else ()
    return _series(times, values, key, path, *notes)


def _iperf(text: str, path: str | Path) -> Series:
    """Reads the throughput of the intervals in the JSON output of iperf3."""
    try:
        intervals = [one["sum"] for one in json.loads(text)["intervals"]]
        kept = [one for one in intervals if not one.get("omitted", False)]
        times = [float(one["start"]) for one in kept]
        values = [float(one["bits_per_second"]) for one in kept]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FitError(
            f"{path}: invalid JSON: expected the output of `iperf3 --json`, with `start` and "
            "`bits_per_second` in the `sum` of each interval"
        ) from None
    if not all(0.0 <= one < 1e15 for one in (*times, *values)):
        raise FitError(f"{path}: an invalid time or rate: expected numbers of at least 0")
    notes = ["rates are those of the measured traffic: at most those of the link"]
    if ignored := len(intervals) - len(kept):
        notes.append(f"{ignored} omitted {'interval' if ignored == 1 else 'intervals'} ignored")
    return _series(times, values, "rate", path, *notes)


def _trains(text: str, path: str | Path) -> Series:
    """Reads times and delays of a packet-train trace of CellReplay."""
    times, values = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if _is_comment(line):
            continue
        cells = line.split()
        if len(cells) < 2:
            raise FitError(f"{path}:{number}: {len(cells)} columns: expected time and delay in ms")
        times.append(1e-3 * _number(cells[0], path, number))
        values.append(1e-3 * _number(cells[1], path, number))
    return _series(
        times,
        values,
        "delay",
        path,
        "packet-train trace: the delivery opportunities behind the delays are ignored",
    )


def _ping(text: str, name: str) -> Series:
    """Reads half of each RTT in the output of ping."""
    found = list(REPLY.finditer(text))
    stamped = all(one["time"] for one in found)
    gap = re.search(r"interval ([\d.]+)", text)
    each = float(gap[1]) if gap else 1.0
    times = [float(one["time"]) if stamped else each * int(one["number"]) for one in found]
    values = [5e-4 * float(one["rtt"]) for one in found]
    notes = ["one-way delays are half of the RTTs"]
    if not stamped:
        notes.append(f"requests are {each:g} s apart (`ping -D` prints times)")
    order = np.argsort(times, kind="stable")
    return _series(
        [times[one] for one in order], [values[one] for one in order], "delay", name, *notes
    )
