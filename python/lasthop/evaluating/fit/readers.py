"""Records of losses from files: text, CSV, JSON lines; captures are read by `lasthop.fit.wifi`.

| format | frame |
|---|---|
| text | a line: `0` or `ok` (arrived), `1`, `lost` or `timeout`; lines that start with `#` are comments |
| CSV, separated by commas, semicolons, tabs or blanks | a line; see `lasthop.fit.outcomes` for the column |
| JSON lines | an object with the same keys |
| text | a sequence number of a received packet |
| `ping`, irtt, Flent, captures with RTP | see `lasthop.fit.programs` |
| `frames.csv` | a line, written by `lasthop trace`: lost if it has no `arrival_s` |
| recording of `lasthop live` | a frame of one direction of a link |
| pcap, pcapng | an IEEE 802.11 frame with radiotap header |
"""  # noqa: E501 - a table

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lasthop.evaluating.fit.live import MAGIC, read_recording
from lasthop.evaluating.fit.outcomes import is_lost, is_status, record_of
from lasthop.evaluating.fit.programs import (
    GZIP,
    from_sequence,
    read_flent,
    read_json,
    read_ping,
)
from lasthop.evaluating.fit.records import FitError, Record
from lasthop.evaluating.fit.tables import csv_rows, csv_table, json_table, separator_of
from lasthop.scenarios.files import quoted, read_bytes

__all__ = ["read"]

CAPTURE = (b"\n\r\r\n", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1")


def read(
    path: str | Path,
    *,
    column: str | None = None,
    entity: str | None = None,
    transmitter: str | None = None,
) -> Record:
    """Reads a record of losses; the format is detected from the first bytes.

    Args:
        path: The file.
        column: CSV and JSON lines: column or key of the losses; None: `lost`, else selected by its
            contents.
        entity: `frames.csv` and recordings: direction of a link; None: the only one.
        transmitter: Captures: MAC address of the transmitter; None: the busiest station.

    Raises:
        FitError: If the file is not a record.
        OSError: If it cannot be read.
    """
    path = Path(path)
    try:
        return _read(read_bytes(path), str(path), column, entity, transmitter)
    except csv.Error as error:
        raise FitError(f"{path}: invalid CSV: {error}") from None
    except RecursionError:
        raise FitError(f"{path}: JSON is nested too deeply: expected flat objects") from None


def _read(
    data: bytes, name: str, column: str | None, entity: str | None, transmitter: str | None
) -> Record:
    """Returns the record in the contents of a file."""
    if data[:4] in CAPTURE:
        from lasthop.evaluating.fit.wifi import read_capture

        return read_capture(data, name, transmitter)
    if data.startswith(MAGIC) and column is None and transmitter is None:
        return read_recording(data, name, entity)
    if data.startswith(GZIP):
        return read_flent(data, name)
    if transmitter is not None:
        raise FitError(f"`transmitter` requires a capture (pcap, pcapng): {name} is not one")
    plain = _plain_text(data)
    if plain is not None and column is None and entity is None:
        return Record(plain, source=name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FitError(
            f"{name}: invalid text ({error.reason} at byte {error.start}): expected text, CSV, "
            "JSON lines, pcap or pcapng"
        ) from None
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].lstrip().startswith("{"):
        if column is None and (found := read_json(text, name)):
            return found
        return record_of(json_table(text, name), column)
    first = next((line for line in lines if not line.lstrip().startswith("#")), "")
    separator = separator_of(first)
    header = [cell.strip() for cell in first.split(separator or None)]
    if {"entity", "arrival_s", "start_s"} <= set(header) and column is None:
        return _frames(text, name, entity)
    if entity is not None:
        raise FitError(
            f"`entity` requires frames.csv of a trace, or a recording of `lasthop live`: {name} "
            "is neither"
        )
    if column is None and first.startswith(("PING ", "Pinging ")):
        return read_ping(text, name)
    if not separator and len(header) > 1 and not is_status(first):
        separator = " "
    if column is not None or separator or _has_header(lines):
        return record_of(csv_table(text, name, separator), column)
    if (numbers := _sequence(text)) is not None:
        notes = ["numbers are read as sequence numbers of received packets"]
        return from_sequence(numbers, name, notes=notes)
    return Record(np.fromiter(_words(text, name), dtype=bool), source=name)


def _has_header(lines: list[str]) -> bool:
    """Returns `true` if the first line of a single column is a name.

    `lost` is a name above numbers and Boolean values, and an outcome above other outcomes.
    """
    cells = [line.strip(' "') for line in lines if not line.lstrip().startswith("#")]
    first = cells[0] if cells else ""
    if first.lower() == "lost":
        return not any(is_status(cell) for cell in cells[1:])
    return not is_status(first) and not first[:1].isdigit() and first.isidentifier()


def _plain_text(data: bytes) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Reads lines of only `0` and `1` efficiently, for 10^7 frames."""
    cells = np.frombuffer(data, dtype=np.uint8)
    if cells.size and cells[-1] != ord("\n"):
        cells = np.append(cells, np.uint8(ord("\n")))
    if cells.size < 2 or cells.size % 2:
        return None
    digits, ends = cells[::2], cells[1::2]
    if (ends != ord("\n")).any() or ((digits != ord("0")) & (digits != ord("1"))).any():
        return None
    return np.asarray(digits == ord("1"))


def _words(text: str, name: str) -> Iterator[bool]:
    for number, line in enumerate(text.rstrip().splitlines(), 1):
        if not line.lstrip().startswith("#"):
            yield is_lost(line, f"{name}:{number}")


def _sequence(text: str) -> list[int] | None:
    """Returns lines of integers, most of them above 1, as sequence numbers; else None."""
    lines = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    if not all(line.isascii() and line.isdecimal() and len(line) < 19 for line in lines if line):
        return None
    numbers = [int(line) for line in lines if line]
    return numbers if 2 * sum(number > 1 for number in numbers) > len(numbers) else None


def _number(cell: object, where: str) -> float:
    try:
        value = float(str(cell))
    except ValueError:
        value = np.nan
    if not (np.isfinite(value) and value >= 0.0):
        raise FitError(f"{where}: {quoted(str(cell))}: expected a number, at least 0")
    return value


def _frames(text: str, name: str, entity: str | None) -> Record:
    rows = list(csv_rows(text, name))
    known = list(dict.fromkeys(row["entity"] or "" for row in rows))
    if not known:
        raise FitError(
            f"{name}: no frame: expected at least one; background traffic that is replayed on a "
            'raw link has frames only with replay = "per-packet"'
        )
    if entity is None and len(known) > 1:
        raise FitError(
            f"{name}: {len(known)} directions: use `entity` to select one of {', '.join(known)}"
        )
    chosen = entity or (known[0] if known else "")
    own = [row for row in rows if row["entity"] == chosen]
    if not own:
        raise FitError(
            f"invalid value `{chosen}` for `entity`: expected {', '.join(known) or 'none'}"
        )
    start, end, size = (
        np.array([_number(row[key], f"{name}: {key}") for row in own])
        for key in ("start_s", "end_s", "bytes")
    )
    lost = np.array([not (row["arrival_s"] or "").strip() for row in own])
    return Record(lost, 8.0 * size, end - start, start, source=f"{name}, {chosen}")
