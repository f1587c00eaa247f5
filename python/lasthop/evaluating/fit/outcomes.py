"""The outcome of each frame in a table: the column that has it, and the meaning of its cells.

Without a name, the first of these rules that applies selects the column:

1. the column `lost`;
2. the only column of status words (`ok`, `timeout`, …), or of 0 and 1 if its name states the
   meaning (`loss`, `dropped`, `received`, …) or if the table has no header;
3. the only column of measurements (`rtt`, `delay`, …) with empty cells: these frames were lost;
4. the column of sequence numbers (`seq`, `icmp_seq`, …): these packets were received, and numbers
   without a line were lost.

A column in which only some cells are status words is an error, so that no outcome is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.programs import from_sequence, unwrapped
from lasthop.evaluating.fit.records import FitError, Record
from lasthop.evaluating.fit.tables import Table
from lasthop.scenarios.files import named, quoted

__all__ = ["ALLOWED", "is_lost", "is_status", "record_of"]

# Numbers and Boolean values, whose meaning depends on the column.
BINARY: Mapping[str, bool] = {
    **dict.fromkeys(("0", "0.0", "false", "no"), False),
    **dict.fromkeys(("1", "1.0", "true", "yes"), True),
}
ARRIVED_WORDS = (
    *("ok", "okay", "received", "recv", "arrived", "delivered", "success", "succeeded"),
    *("ack", "acked", "reply"),
)
LOST_WORDS = (
    *("lost", "loss", "timeout", "timed out", "time out", "dropped", "drop", "missing", "failed"),
    *("failure", "fail", "nack", "no reply", "no response", "unreachable"),
)
STATUS: Mapping[str, bool] = {
    **dict.fromkeys(ARRIVED_WORDS, False),
    **dict.fromkeys(LOST_WORDS, True),
}
WORDS: Mapping[str, bool] = {**BINARY, **STATUS}
ALLOWED = "0, ok or false (arrived), 1, lost, timeout or true"
# Columns in which 1 and true mean that the frame was lost, or arrived.
LOST_NAMES = ("lost", "is_lost", "loss", "dropped", "is_dropped", "timeout", "missing")
ARRIVED_NAMES = ("received", "is_received", "arrived", "delivered", "success", "ok", "acked", "ack")
# Columns of sequence numbers; the modulus of those with 16 bits.
SEQUENCES: Mapping[str, int] = {
    **dict.fromkeys(("seq", "seqno", "seq_no", "seq_nr", "seq_num", "seqnum", "sequence"), 0),
    **dict.fromkeys(("sequence_no", "sequence_number", "packet_number", "packet_no"), 0),
    **dict.fromkeys(("icmp_seq", "rtp_seq"), 65_536),
}
MEASURED = re.compile(r"(rtt|latency|delay|owd|arrival|receive|recv|rx)(_.*|d_.*)?|time_ms")
EMPTY = ("", "-", "*", "nan", "none", "null", "n/a", "na", "inf")
NUMBERS = ("bytes", "time_s", "duration_s", "rate_bps")


def _normal(cell: object) -> str:
    """Returns a status word in lower case, with blanks between its words."""
    return _normal_text(str(cell))


@lru_cache(maxsize=4096)
def _normal_text(text: str) -> str:
    text = text.strip().lower()
    # A lone hyphen is an empty cell.
    return re.sub(r"[\s_-]+", " ", text) if len(text) > 1 else text


def _identifier(name: str) -> str:
    """Returns the name of a column in lower case, without its punctuation and unit brackets."""
    return re.sub(r"\W+", "_", name.strip().lower()).strip("_")


def is_lost(cell: object, where: str, *, means_arrived: bool = False) -> bool:
    """Returns the meaning of a status word.

    Args:
        cell: The word.
        where: Its place, for the message.
        means_arrived: Whether 1 and true mean that the frame arrived.

    Raises:
        FitError: If it is not a status word.
    """
    text = _normal(cell)
    if (found := WORDS.get(text)) is None:
        raise FitError(f"{where}: {quoted(str(cell).strip())}: expected {ALLOWED}")
    return found != (means_arrived and text in BINARY)


def is_status(cell: object) -> bool:
    """Returns `true` if a cell is a status word, not a number or a Boolean value."""
    return _normal(cell) in STATUS


def record_of(table: Table, column: str | None) -> Record:
    """Returns the record in a table.

    Args:
        table: The table.
        column: Column of the outcomes or of sequence numbers; None: selected by its contents.

    Raises:
        FitError: If the column is missing, unknown or ambiguous.
    """
    if not table.lines:
        raise FitError(f"{table.name}: no frame: expected at least one")
    if column is not None and column not in table.columns:
        raise FitError(f"{table.where(0)}: missing `{column}`: expected {named(table.columns)}")
    chosen = column or _by_name(table) or _by_words(table) or _by_empty_cells(table)
    sequence = _sequence_column(table)
    if chosen is None:
        if sequence is None:
            raise FitError(
                f"{table.where(0)}: missing `lost`: expected {named(table.columns)}; name the "
                "column of the losses with `column`"
            )
        chosen = sequence
    notes = []
    if column is None and chosen != "lost":
        notes.append(_choice(table, chosen, sequence))
    if chosen == sequence:
        if ignored := _ignored(table, (chosen,)):
            notes.append(ignored)
        numbers = _integers(table, chosen)
        return from_sequence(numbers, table.name, wrap=_modulus(chosen), notes=notes)
    return _outcomes(table, chosen, sequence, notes)


def _outcomes(table: Table, chosen: str, sequence: str | None, notes: list[str]) -> Record:
    """Returns the record of a column of outcomes; frames are in the order of sequence numbers."""
    lost = _lost(table, chosen)
    numbers = {key: _numbers(table, key) for key in NUMBERS if _has_numbers(table, key)}
    used = [chosen, *numbers]
    if sequence is not None and all(_is_integer(cell) for cell in table.columns[sequence]):
        found = unwrapped(_integers(table, sequence), _modulus(sequence))
        used.append(sequence)
        if np.unique(found).size == found.size:
            order = np.argsort(found, kind="stable")
            if (np.diff(found) < 0).any():
                notes.append(f"lines are sorted by column {_shown(table, sequence)}")
                lost, numbers = lost[order], {key: one[order] for key, one in numbers.items()}
            missing = int(found.max() - found.min()) + 1 - found.size
            if missing and not lost.any():
                notes.append(f"{missing} sequence numbers without a line were lost")
                return from_sequence(found.tolist(), table.name, notes=notes)
            if missing:
                notes.append(f"{missing} sequence numbers without a line are ignored")
        else:
            notes.append(
                f"column {_shown(table, sequence)} has duplicates: frames are in the order of the "
                "lines"
            )
    if ignored := _ignored(table, used):
        notes.append(ignored)
    bits = numbers["bytes"] * 8.0 if "bytes" in numbers else None
    air = numbers.get("duration_s")
    if air is None and bits is not None and "rate_bps" in numbers:
        air = bits / numbers["rate_bps"]
    return Record(lost, bits, air, numbers.get("time_s"), source=table.name, notes=tuple(notes))


def _by_name(table: Table) -> str | None:
    """Returns the column `lost`, whatever its cells are."""
    return next((name for name in table.columns if _identifier(name) == "lost"), None)


def _by_words(table: Table) -> str | None:
    """Returns the only column of status words.

    Raises:
        FitError: If there are several, or if a column has status words and other cells.
    """
    kinds = {name: {_normal(cell) for cell in cells} for name, cells in table.columns.items()}
    whole = [name for name, words in kinds.items() if words <= WORDS.keys()]
    found = [
        name
        for name in whole
        if kinds[name] & STATUS.keys() or _identifier(name) in (*LOST_NAMES, *ARRIVED_NAMES)
    ]
    if len(found) > 1:
        raise FitError(
            f"{table.name}: {len(found)} columns have outcomes of frames: use `column` with "
            f"{named(found)}"
        )
    if found:
        return found[0]
    for name, words in kinds.items():
        if words & STATUS.keys():
            row = table.first(name, lambda cell: _normal(cell) not in WORDS)
            raise FitError(
                f"{table.where(row or 0)}: column {_shown(table, name)}: "
                f"{quoted(str(table.columns[name][row or 0]))}: expected {ALLOWED}; to read "
                "another column, use `column`"
            )
    if not table.has_header and len(whole) == 1:
        return whole[0]
    if len(whole) == 1 and _identifier(whole[0]) in ("status", "result", "outcome", "state"):
        raise FitError(
            f"{table.name}: column {_shown(table, whole[0])} has numbers or Boolean values, whose "
            f"meaning is unknown: if 1 means lost, use `column` with {_shown(table, whole[0])}"
        )
    return None


def _by_empty_cells(table: Table) -> str | None:
    """Returns the only column of measurements that lacks some."""
    found = [
        name
        for name, cells in table.columns.items()
        if (MEASURED.fullmatch(_identifier(name)) or not table.has_header)
        and _has_empty_cells(cells)
    ]
    masks = {tuple(_is_empty(cell) for cell in table.columns[name]) for name in found}
    if len(masks) > 1:
        raise FitError(
            f"{table.name}: {len(found)} columns have empty cells in different lines: use `column` "
            f"with {named(found)}"
        )
    return found[0] if found else None


def _sequence_column(table: Table) -> str | None:
    """Returns the column of sequence numbers, by name or, without a header, by its contents."""
    if table.has_header:
        return next((name for name in table.columns if _identifier(name) in SEQUENCES), None)
    found = [
        name
        for name, cells in table.columns.items()
        if all(_is_integer(cell) for cell in cells) and any(int(cell) > 1 for cell in cells)
    ]
    return found[0] if len(found) == 1 else None


def _lost(table: Table, column: str) -> NDArray[np.bool_]:
    cells = table.columns[column]
    if _has_empty_cells(cells):
        return np.array([_is_empty(cell) for cell in cells], dtype=bool)
    if (row := table.first(column, lambda cell: cell is None)) is not None:
        raise FitError(f"{table.where(row)}: missing `{column}`: expected {named(table.columns)}")
    means_arrived = _identifier(column) in ARRIVED_NAMES
    return np.array(
        [
            is_lost(cell, f"{table.name}:{line}", means_arrived=means_arrived)
            for cell, line in zip(cells, table.lines, strict=True)
        ],
        dtype=bool,
    )


def _is_empty(cell: object) -> bool:
    return cell is None or _normal(cell) in EMPTY or _normal(cell) in LOST_WORDS


def _has_empty_cells(cells: Sequence[Any]) -> bool:
    """Returns `true` if some cells are measurements and the others are empty or loss words."""
    empty = [_is_empty(cell) for cell in cells]
    return (
        any(empty)
        and all(
            is_empty or (_is_number(cell) and _normal(cell) not in BINARY)
            for is_empty, cell in zip(empty, cells, strict=True)
        )
        and not all(empty)
    )


def _is_number(cell: object) -> bool:
    try:
        return bool(np.isfinite(float(str(cell))))
    except ValueError:
        return False


def _is_integer(cell: object) -> bool:
    text = str(cell).strip()
    return text.isascii() and text.isdecimal() and len(text) < 19


def _integers(table: Table, column: str) -> list[int]:
    row = table.first(column, lambda cell: not _is_integer(cell))
    if row is not None:
        found = quoted(str(table.columns[column][row]).strip())
        raise FitError(f"{table.where(row)}: {found}: expected a sequence number")
    return [int(str(cell)) for cell in table.columns[column]]


def _has_numbers(table: Table, key: str) -> bool:
    return key in table.columns and table.columns[key][0] not in (None, "")


def _numbers(table: Table, key: str) -> NDArray[np.float64]:
    row = table.first(key, lambda cell: not _is_number(cell) or float(str(cell)) < 0.0)
    if row is not None:
        found = quoted(str(table.columns[key][row]))
        raise FitError(f"{table.where(row)}: {key}: {found}: expected a number, at least 0")
    return np.array([float(str(cell)) for cell in table.columns[key]])


def _modulus(column: str) -> int:
    return SEQUENCES.get(_identifier(column), 0)


def _choice(table: Table, chosen: str, sequence: str | None) -> str:
    """Returns a note on the selected column."""
    place = f"column {_shown(table, chosen)}"
    if chosen == sequence:
        return f"{place} is read as sequence numbers of received packets"
    if _has_empty_cells(table.columns[chosen]):
        return f"frames without a value in {place} count as lost"
    return f"losses are read from {place}"


def _ignored(table: Table, used: Iterable[str]) -> str:
    """Returns a note on the columns that are not used; empty if all are used."""
    others = [name for name in table.columns if name not in used]
    if not others:
        return ""
    plural = "s" if len(others) > 1 else ""
    return f"ignored column{plural}: {', '.join(_shown(table, name) for name in others)}"


def _shown(table: Table, column: str) -> str:
    """Returns a column for a message: its name if it is plain, else its number."""
    if re.fullmatch(r"[\w\- ()%/.]{1,24}", column, re.ASCII):
        return f"`{column}`"
    return str(1 + list(table.columns).index(column))
