"""Records of losses from sequence numbers and from the output of measuring programs.

| format | frame |
|---|---|
| sequence numbers of received packets | every number between the first and the last; missing ones were lost |
| `ping` | an echo request, by `icmp_seq`; lost if the request or the reply was |
| `irtt client -o FILE` | a round trip; `lost` is the direction in which it was lost, if any |
| Flent (`.flent`, `.flent.gz`) | a sample of the first series with sequence numbers |
| capture of Ethernet or IP with RTP | a packet of the busiest RTP stream, by sequence number (RFC 3550) |

`iperf3 --json` counts losses per interval; their order, which a model needs, is unknown.
"""  # noqa: E501 - a table

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop.evaluating.fit.records import FitError, Record

__all__ = ["GZIP", "from_sequence", "read_flent", "read_json", "read_ping", "read_rtp", "unwrapped"]

GZIP = b"\x1f\x8b"
# Largest uncompressed size of a `.flent.gz`, and longest range of sequence numbers.
LARGEST = 256_000_000
LONGEST = 100_000_000
# BusyBox prints `seq=`.
REPLY = re.compile(r"^(?:\[\d+\.\d+\] )?\d+ bytes from .*\b(?:icmp_)?seq=(?P<number>\d+)", re.M)
# Windows prints no sequence numbers, but a line for each request.
WINDOWS = re.compile(
    r"^(?:Reply from \S+ (?P<reply>bytes=)?|Request timed out|General failure)", re.M
)
# Link types of captures: header length, and offset of the EtherType (None: raw IP).
LINKS = {1: (14, 12), 101: (0, None), 113: (16, 14), 276: (20, 0)}


def unwrapped(numbers: Sequence[int], wrap: int) -> NDArray[np.int64]:
    """Returns sequence numbers that do not wrap: steps are shorter than half of the modulus.

    Args:
        numbers: Numbers in the order of arrival.
        wrap: Modulus of the numbers; 0: they do not wrap.
    """
    found = np.asarray(numbers, dtype=np.int64)
    if not wrap:
        return found
    steps = (np.diff(found) + wrap // 2) % wrap - wrap // 2
    return np.concatenate([found[:1], found[0] + np.cumsum(steps)])


def from_sequence(
    numbers: Sequence[int], name: str, *, wrap: int = 0, notes: Sequence[str] = ()
) -> Record:
    """Returns the record of packets of which these sequence numbers arrived, in this order.

    Args:
        numbers: Numbers of received packets.
        name: The source.
        wrap: Modulus of the numbers; 0: they do not wrap.
        notes: Notes that the record begins with.

    Raises:
        FitError: If the numbers span too long a range.
    """
    arrived = unwrapped(numbers, wrap)
    first, last = int(arrived.min()), int(arrived.max())
    if last - first >= LONGEST:
        raise FitError(
            f"{name}: sequence numbers from {first} to {last}: expected a range of at most "
            f"{LONGEST}"
        )
    lost = np.ones(last - first + 1, dtype=bool)
    lost[arrived - first] = False
    found = [*notes, f"sequence numbers {first} to {last}; losses outside are unknown"]
    duplicates = arrived.size - int((~lost).sum())
    late = int((np.diff(arrived) < 0).sum())
    if duplicates:
        found.append(f"{duplicates} duplicates ignored")
    if late:
        found.append(f"{late} reordered packets count as received")
    return Record(lost, source=name, notes=tuple(found))


def read_ping(text: str, name: str) -> Record:
    """Returns the record in the output of `ping`.

    Raises:
        FitError: If it has no reply.
    """
    notes = ["a loss is that of the request or of the reply"]
    if text.lstrip().startswith("Pinging "):
        lost = np.array([not found["reply"] for found in WINDOWS.finditer(text)], dtype=bool)
        return Record(lost, source=name, notes=tuple(notes))
    numbers = [int(found["number"]) for found in REPLY.finditer(text)]
    if not numbers:
        raise FitError(f"{name}: output of ping without a reply: expected lines with `icmp_seq=`")
    record = from_sequence(numbers, name, wrap=65_536, notes=notes)
    sent = re.search(r"^(\d+) packets transmitted", text, re.M)
    missing = int(sent[1]) - record.lost.size if sent else 0
    if 0 < missing <= LONGEST and min(numbers) <= 1:
        # The summary counts requests after the last reply.
        lost = np.concatenate([record.lost, np.ones(missing, dtype=bool)])
        notes.append(f"{missing} requests after the last reply were lost")
        return Record(lost, source=name, notes=tuple(notes))
    return record


def read_json(text: str, name: str) -> Record | None:
    """Returns the record in the JSON output of irtt; None if it is of another program.

    Raises:
        FitError: If the output is of iperf3.
    """
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    if "intervals" in found and "end" in found:
        raise FitError(
            f"{name}: iperf3 counts losses per interval, a model needs their order: capture the "
            "packets at the receiver (`tcpdump -w FILE`) and send RTP, or use irtt or ping; "
            "`--rates` reads its throughput"
        )
    if isinstance(found.get("raw_values"), dict):
        return read_flent(found, name)
    trips = found.get("round_trips")
    if not isinstance(trips, list):
        return None
    if not all(isinstance(trip, dict) and "lost" in trip for trip in trips):
        raise FitError(f"{name}: a round trip without `lost`: expected the output of irtt")
    states = [str(trip["lost"]).lower() for trip in trips]
    counts = Counter(states)
    notes = [
        f"{counts[state]} round trips lost {where}"
        for state, where in (("true_up", "to the server"), ("true_down", "from the server"))
        if counts[state]
    ]
    if counts["true"]:
        notes.append(f"{counts['true']} round trips lost in an unknown direction")
    lost = np.array([state != "false" for state in states])
    return Record(lost, source=name, notes=tuple(notes))


def read_flent(found: bytes | dict[str, Any], name: str) -> Record:
    """Returns the record in a data file of Flent, or in its contents.

    Raises:
        FitError: If no series has sequence numbers.
    """
    if isinstance(found, bytes):
        try:
            with gzip.open(io.BytesIO(found)) as file:
                text = file.read(LARGEST + 1)
            if len(text) > LARGEST:
                raise FitError(f"{name}: more than {LARGEST // 10**6} MB after decompression")
            found = json.loads(text)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise FitError(f"{name}: invalid Flent data ({error})") from None
    series = found.get("raw_values") if isinstance(found, dict) else None
    for title, samples in series.items() if isinstance(series, dict) else ():
        if not isinstance(samples, list):
            continue
        numbers = [one.get("seq") for one in samples if isinstance(one, dict)]
        known = [number for number in numbers if type(number) is int and 0 <= number < 2**62]
        if known and len(known) == len(numbers):
            return from_sequence(known, name, notes=[f"series {title!r}"])
    raise FitError(f"{name}: no series with sequence numbers (`raw_values`, `seq`)")


def read_rtp(packets: Sequence[bytes], link: int, name: str) -> Record:
    """Returns the record of the busiest RTP stream of a capture.

    Args:
        packets: Captured packets.
        link: Link type: 1 (Ethernet), 101 (IP), 113 or 276 (Linux cooked capture).
        name: The source.

    Raises:
        FitError: If no packet looks like RTP.
    """
    streams: dict[tuple[bytes, int], list[int]] = {}
    for packet in packets:
        for flow, payload in _datagrams(packet, link):
            # Version 2, and not one of RTCP's types (RFC 5761, section 4).
            if len(payload) >= 12 and payload[0] >> 6 == 2 and not 64 <= payload[1] & 0x7F <= 95:
                number, _, source = struct.unpack_from(">HII", payload, 2)
                streams.setdefault((flow, source), []).append(number)
    if not streams:
        raise FitError(
            f"{name}: no RTP packet: expected RTP over UDP, or IEEE 802.11 with radiotap headers"
        )
    (_, source), numbers = max(streams.items(), key=lambda stream: len(stream[1]))
    total = sum(len(own) for own in streams.values())
    notes = [f"RTP stream {source:#010x}, {len(numbers)} of {total} RTP packets"]
    return from_sequence(numbers, name, wrap=65_536, notes=notes)


def _datagrams(packet: bytes, link: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields the addresses and the payload of the UDP datagram in a packet, if any."""
    header, kind = LINKS[link]
    if kind is not None:
        ether = packet[kind : kind + 2]
        if link == 1 and ether == b"\x81\x00":  # a VLAN tag
            header, ether = header + 4, packet[16:18]
        if ether not in (b"\x08\x00", b"\x86\xdd"):
            return
    ip = packet[header:]
    if len(ip) < 20:
        return
    if ip[0] >> 4 == 4:
        length, protocol, addresses = (ip[0] & 15) * 4, ip[9], ip[12:20]
        if int.from_bytes(ip[6:8]) & 0x1FFF:  # a later fragment
            return
    elif ip[0] >> 4 == 6 and len(ip) >= 40:
        length, protocol, addresses = 40, ip[6], ip[8:40]
    else:
        return
    if protocol == 17 and len(ip) >= length + 8:
        yield addresses + ip[length : length + 4], ip[length + 8 :]
