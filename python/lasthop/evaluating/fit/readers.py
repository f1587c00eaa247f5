"""Records of losses from files: text, CSV, JSON lines; captures are read by `lasthop.fit.wifi`.

| format | frame |
|---|---|
| text | a line: `0` or `ok` (arrived), `1`, `lost` or `timeout`; lines that start with `#` are comments |
| CSV, separated by commas, semicolons or tabs | a line; a column `lost` with these words, or `true` and `false`; optional `bytes`, `time_s`, `duration_s`, `rate_bps` |
| text or CSV with a column `seq` | sequence numbers of received packets |
| `ping`, irtt, Flent, captures with RTP | see `lasthop.fit.programs` |
| JSON lines | an object with the same keys |
| `frames.csv` | a line, written by `lasthop trace`: lost if it has no `arrival_s` |
| recording of `lasthop live` | a frame of one direction of a link |
| pcap, pcapng | an IEEE 802.11 frame with radiotap header |
"""  # noqa: E501 - a table

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lasthop.evaluating.fit.live import MAGIC, read_recording
from lasthop.evaluating.fit.programs import (
    GZIP,
    from_sequence,
    read_flent,
    read_json,
    read_ping,
)
from lasthop.evaluating.fit.records import FitError, Record
from lasthop.scenarios.files import named, quoted, read_bytes

__all__ = ["read"]

WORDS = {
    **dict.fromkeys(("0", "ok", "false", "no", "received", "arrived", "delivered"), False),
    **dict.fromkeys(("success", "ack", "reply"), False),
    **dict.fromkeys(("1", "lost", "true", "yes", "timeout", "timed out", "dropped"), True),
    **dict.fromkeys(("missing", "failed", "nack"), True),
}
# Columns with sequence numbers of received packets.
SEQUENCES = ("seq", "sequence", "sequence_number")
SEPARATORS = (",", ";", "\t")
ALLOWED = "0, ok or false (arrived), 1, lost, timeout or true"
NUMBERS = ("bytes", "time_s", "duration_s", "rate_bps")
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
        column: CSV and JSON lines: column or key of the losses; None: `lost`.
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
    first = next((line for line in text.splitlines() if line.strip()), "")
    if first.lstrip().startswith("{"):
        if column is None and (found := read_json(text, name)):
            return found
        return _table(_json_lines(text, name), name, column)
    separator = max(SEPARATORS, key=first.count)
    header = [cell.strip() for cell in first.split(separator)]
    if {"entity", "arrival_s", "start_s"} <= set(header) and column is None:
        return _frames(text, name, entity)
    if entity is not None:
        raise FitError(
            f"`entity` requires frames.csv of a trace, or a recording of `lasthop live`: {name} "
            "is neither"
        )
    if column is None and "lost" not in header:
        if sequence := next((cell for cell in header if cell.lower() in SEQUENCES), None):
            cells = [(where, row[sequence]) for where, row in _csv(text, name, separator)]
            return from_sequence([_integer(cell, where) for where, cell in cells], name)
        if first.lstrip().startswith("PING ") and (found := read_ping(text, name)):
            return found
    if column is not None or "lost" in header or separator in first:
        return _table(_csv(text, name, separator), name, column)
    if (numbers := _sequence(text)) is not None:
        return from_sequence(numbers, name)
    return Record(np.fromiter(_words(text, name), dtype=bool), source=name)


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
            yield _is_lost(line, f"{name}:{number}")


def _is_lost(cell: object, where: str) -> bool:
    if isinstance(cell, bool):
        return cell
    found = WORDS.get(str(cell).strip().lower())
    if found is None:
        raise FitError(f"{where}: {quoted(str(cell))}: expected {ALLOWED}")
    return found


def _sequence(text: str) -> list[int] | None:
    """Returns lines of integers, most of them above 1, as sequence numbers; else None."""
    lines = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    if not all(line.isascii() and line.isdecimal() and len(line) < 19 for line in lines if line):
        return None
    numbers = [int(line) for line in lines if line]
    return numbers if 2 * sum(number > 1 for number in numbers) > len(numbers) else None


def _integer(cell: object, where: str) -> int:
    text = str(cell).strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise FitError(f"{where}: {quoted(text)}: expected a sequence number")
    return int(text)


def _rows(text: str, name: str, separator: str = ",") -> csv.DictReader[str]:
    """Yields lines of CSV as tables; refuses duplicate columns."""
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True, delimiter=separator)
    names = list(reader.fieldnames or ())
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise FitError(
            f"{name}:1: {names.count(twice)} columns are named `{twice}`: expected unique names"
        )
    return reader


def _csv(text: str, name: str, separator: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    reader = _rows(text, name, separator)
    for row in reader:
        yield f"{name}:{reader.line_num}", row


class _Twice(ValueError):
    """A duplicate key in a table."""


def _table_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(repr(next(name for name in names if names.count(name) > 1)[:40]))
    return table


def _json_lines(text: str, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        try:
            row = json.loads(line, object_pairs_hook=_table_of)
        except _Twice as error:
            raise FitError(f"{where}: duplicate key {error}") from None
        except ValueError as error:
            raise FitError(f"{where}: invalid JSON: {error}: expected an object") from None
        if not isinstance(row, dict):
            raise FitError(f"{where}: {quoted(line)}: expected an object")
        yield where, row


def _table(rows: Iterator[tuple[str, Mapping[str, Any]]], name: str, column: str | None) -> Record:
    wanted = column or "lost"
    lost: list[bool] = []
    numbers: dict[str, list[float]] = {}
    for where, row in rows:
        if row.get(wanted) is None:
            known = named(key for key in row if key is not None)
            remedy = "" if column else "; name the column of the losses with `--column`"
            raise FitError(f"{where}: missing `{wanted}`: expected {known}{remedy}")
        lost.append(_is_lost(row[wanted], where))
        for key in NUMBERS if len(lost) == 1 else numbers:
            if len(lost) == 1 and row.get(key) in (None, ""):
                continue
            numbers.setdefault(key, []).append(_number(row.get(key), f"{where}: {key}"))
    columns = {key: np.array(cells) for key, cells in numbers.items()}
    bits = columns["bytes"] * 8.0 if "bytes" in columns else None
    air = columns.get("duration_s")
    if air is None and bits is not None and "rate_bps" in columns:
        air = bits / columns["rate_bps"]
    return Record(np.array(lost, dtype=bool), bits, air, columns.get("time_s"), source=name)


def _number(cell: object, where: str) -> float:
    try:
        value = float(str(cell))
    except ValueError:
        value = np.nan
    if not (np.isfinite(value) and value >= 0.0):
        raise FitError(f"{where}: {quoted(str(cell))}: expected a number, at least 0")
    return value


def _frames(text: str, name: str, entity: str | None) -> Record:
    rows = list(_rows(text, name))
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
