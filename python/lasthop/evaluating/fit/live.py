"""Losses from recordings of `lasthop live --record`: the frames of one direction of one link.

The format is on the page "Real programs and kernels" of the documentation (`docs/live.md`).
"""

from __future__ import annotations

import json
import struct

import numpy as np

from lasthop.evaluating.fit.records import FitError, Record

__all__ = ["MAGIC", "read_recording"]

MAGIC = b"lasthop recording 1\n"
ARRIVAL, DELIVERY, FRAME, CHANGE, END = b"ADFCE"
PLACE, LENGTH = struct.Struct("<HB"), struct.Struct("<I")
AIR = struct.Struct("<QQQB")
# Bytes after the kind: link, side and time, and of a delivery length and hash.
HEAD, DELIVERED, ENDED = PLACE.size + 8, PLACE.size + 8 + 4 + 8, 8
SIDES = ("forward", "reverse")


def read_recording(data: bytes, name: str, entity: str | None) -> Record:
    """Reads the frames of a direction, `link.NAME.forward` or `link.NAME.reverse`.

    Args:
        data: The recording.
        name: Name of the recording in messages.
        entity: The direction; None: the only one with frames.

    Raises:
        FitError: If the recording is damaged, or if there is no such direction.
    """
    header_end = data.find(b"\n", len(MAGIC)) + 1
    try:
        links = [str(link) for link in json.loads(data[len(MAGIC) : header_end])["links"]]
    except (ValueError, KeyError, TypeError) as error:
        raise FitError(f"{name}:2: invalid header ({error}): expected a recording") from None
    rows: dict[str, list[tuple[int, int, int, int]]] = {}
    at, is_ended = header_end, False
    try:
        while at < len(data) and not is_ended:
            kind, body = data[at], at + 1
            if kind == FRAME:
                link, side = PLACE.unpack_from(data, body)
                row = AIR.unpack_from(data, body + PLACE.size)
                rows.setdefault(f"link.{links[link]}.{SIDES[side]}", []).append(row)
                at = body + PLACE.size + AIR.size
            elif kind == ARRIVAL:
                (length,) = LENGTH.unpack_from(data, body + HEAD)
                at = body + HEAD + LENGTH.size + length
            elif kind == DELIVERY:
                at = body + DELIVERED
            elif kind == CHANGE:
                (length,) = LENGTH.unpack_from(data, body + 8)
                at = body + 8 + LENGTH.size + length
            elif kind == END:
                is_ended = True
            else:
                raise FitError(
                    f"{name}: invalid record {chr(kind)!r} at byte {at}: expected A, D, F, C or E"
                )
    except struct.error:
        pass  # truncated, because the run was killed: the last record is incomplete
    except IndexError:
        raise FitError(
            f"{name}: frame of an unknown link at byte {at}: expected {', '.join(links)}"
        ) from None
    known = ", ".join(sorted(rows))
    if not rows:
        raise FitError(f"{name}: the recording has no frame")
    if entity is None and len(rows) > 1:
        raise FitError(f"{name}: {len(rows)} directions: use `entity` to select one of {known}")
    chosen = entity or next(iter(rows))
    if chosen not in rows:
        raise FitError(f"invalid value `{chosen}` for `entity`: expected {known}")
    start, end, bits, lost = np.array(rows[chosen], dtype=np.uint64).T
    return Record(
        lost.astype(bool),
        bits.astype(np.float64),
        (end - start).astype(np.float64) / 1e9,
        start.astype(np.float64) / 1e9,
        notes=() if is_ended else ("the recording is truncated",),
        source=f"{name}, {chosen}",
    )
