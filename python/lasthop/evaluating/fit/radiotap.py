"""Flags and data rate of a frame from its radiotap header, as recorded in monitor mode.

Rates of 802.11n, ac and ax follow from MCS, streams, width and guard interval: subcarriers times
coded bits times code rate times streams, per symbol.

Sources: radiotap.org (fields and their alignment); IEEE Std 802.11-2020, 19.5 and 21.5; IEEE Std
802.11ax-2021, 27.5.
"""

from __future__ import annotations

import struct

__all__ = ["flags_and_rate"]

# Size and alignment of each field in bytes, by the number of its bit.
SIZES = (8, 1, 1, 4, 2, 1, 1, 2, 2, 2, 1, 1, 1, 1, 2, 2, 1, 1, 8, 3, 8, 12, 12, 12)
ALIGNMENTS = (8, 1, 1, 2, 2, 1, 1, 2, 2, 2, 1, 1, 1, 1, 2, 2, 1, 1, 4, 1, 4, 2, 8, 2)
# Coded bits per subcarrier times the code rate, by MCS.
BITS = (0.5, 1, 1.5, 2, 3, 4, 4.5, 5, 6, 20 / 3, 7.5, 25 / 3)
# Data subcarriers by MHz.
SUBCARRIERS = {20: 52, 40: 108, 80: 234, 160: 468}
SUBCARRIERS_HE = {20: 234, 40: 468, 80: 980, 160: 1960}
# MHz by the width in VHT fields; 2 and 3, 5 to 10 are parts of wider channels.
WIDTHS_VHT = {0: 20, 1: 40, 4: 80, 11: 160}
WIDTHS_HE = (20, 40, 80, 160)
INTERVALS_HE = (0.8e-6, 1.6e-6, 3.2e-6)


def flags_and_rate(packet: bytes) -> tuple[int, float | None]:
    """Returns the flags of a frame, 0 without them, and its data rate in bit/s, if it is known."""
    length, present = struct.unpack_from("<2xHI", packet)
    at, word = 8, present
    while word & 0x8000_0000 and at + 4 <= length:
        (word,) = struct.unpack_from("<I", packet, at)
        at += 4
    flags, rate = 0, None
    for number in range(31):
        if not present >> number & 1:
            continue
        if number >= len(SIZES):
            break
        size, alignment = SIZES[number], ALIGNMENTS[number]
        at = -(-at // alignment) * alignment
        field = packet[at : at + size]
        at += size
        if len(field) < size or at > length:
            break
        match number:
            case 1:
                flags = field[0]
            case 2:
                rate = field[0] * 500e3 or None
            case 19:
                rate = _ht(field)
            case 21:
                rate = _vht(field)
            case 23:
                rate = _he(field)
    return flags, rate


def _ht(field: bytes) -> float | None:
    known, about, mcs = field
    if known & 2 == 0 or mcs > 31:
        return None
    width = 40 if about & 3 == 1 else 20
    symbol = 3.6e-6 if about & 4 else 4e-6
    return SUBCARRIERS[width] * BITS[mcs % 8] * (mcs // 8 + 1) / symbol


def _vht(field: bytes) -> float | None:
    width = WIDTHS_VHT.get(field[3] & 0x1F)
    mcs, streams = field[4] >> 4, field[4] & 15
    if width is None or mcs > 9 or streams == 0:
        return None
    symbol = 3.6e-6 if field[2] & 4 else 4e-6
    return SUBCARRIERS[width] * BITS[mcs] * streams / symbol


def _he(field: bytes) -> float | None:
    words: tuple[int, ...] = struct.unpack("<6H", field)
    known, _, third, _, fifth, sixth = words
    mcs, streams = third >> 8 & 15, sixth & 15
    width, interval = fifth & 15, fifth >> 4 & 3
    if known & 0x20 == 0 or mcs > 11 or streams == 0 or width > 3 or interval > 2:
        return None
    symbol = 12.8e-6 + INTERVALS_HE[interval]
    return SUBCARRIERS_HE[WIDTHS_HE[width]] * BITS[mcs] * streams / symbol
