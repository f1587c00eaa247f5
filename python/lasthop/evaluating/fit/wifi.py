"""Losses from a capture: of IEEE 802.11 in monitor mode, by the Retry bit; else of RTP.

A station retransmits a unicast data frame, with the same sequence number and the Retry bit set,
until it is acknowledged or discarded at the retry limit. A transmission that is followed by another
one of the same frame is therefore considered lost, the last one received. If the first transmission
was not captured, it is added as lost. Broadcasts, control frames and frames with a wrong checksum
are excluded.

Not detected: discarded frames (their last transmission is considered received), further
transmissions missed by the monitor, and lost acknowledgments.

Source: IEEE Std 802.11-2020, 9.2.4.1.6 (Retry subfield), 10.3.2.14 (duplicate detection).
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from dataclasses import dataclass

import numpy as np

from lasthop.evaluating.fit.programs import LINKS, read_rtp
from lasthop.evaluating.fit.radiotap import flags_and_rate
from lasthop.evaluating.fit.records import FitError, Record

__all__ = ["read_capture"]

RADIOTAP = 127
BAD_FCS = 0x40
DATA = 2
# Maximum age of a retransmission: sequence numbers wrap at 4096.
FORGOTTEN_S = 1.0


@dataclass(frozen=True, slots=True)
class _Sent:
    """A captured data frame."""

    transmitter: str
    number: int
    is_retry: bool
    time_s: float
    bytes: int
    rate_bps: float | None


def read_capture(data: bytes, name: str, transmitter: str | None) -> Record:
    """Reads a capture.

    Args:
        data: A pcap or pcapng file.
        name: Name of the capture in messages.
        transmitter: MAC address; None: the station with most data frames.

    Raises:
        FitError: If it is not an 802.11 capture with radiotap headers, or has no such frame.
    """
    kind, packets = _packets(data, name)
    if kind in LINKS and transmitter is None:
        return read_rtp([packet for _, packet in packets], kind, name)
    if kind != RADIOTAP:
        raise FitError(
            f"{name}: invalid link type {kind}: expected {RADIOTAP}, IEEE 802.11 with radiotap "
            "headers, as recorded in monitor mode, or Ethernet or IP with RTP"
        )
    frames = [found for one in packets if (found := _data_frame(*one)) is not None]
    stations = Counter(frame.transmitter for frame in frames)
    if not stations:
        raise FitError(f"{name}: no unicast data frame of IEEE 802.11: expected at least one")
    chosen = transmitter.lower() if transmitter else stations.most_common(1)[0][0]
    if chosen not in stations:
        known = ", ".join(station for station, _ in stations.most_common(5))
        raise FitError(f"invalid value `{transmitter}` for `transmitter`: expected {known}")
    own = [frame for frame in frames if frame.transmitter == chosen]
    lost: list[bool] = []
    sent: list[_Sent] = []
    last: dict[int, tuple[int, float]] = {}
    added = 0
    for frame in own:
        place, when = last.get(frame.number, (-1, -np.inf))
        is_known = frame.time_s - when < FORGOTTEN_S
        if frame.is_retry:
            if is_known:
                lost[place] = True
            else:
                sent.append(frame)
                lost.append(True)
                added += 1
        last[frame.number] = (len(lost), frame.time_s)
        sent.append(frame)
        lost.append(False)
    notes = [f"transmitter {chosen}, {len(own)} of {len(frames)} data frames"]
    if added:
        notes.append(f"{added} first transmissions were not captured and are considered lost")
    bits = np.array([8.0 * frame.bytes for frame in sent])
    rates = [frame.rate_bps for frame in sent]
    air = None
    if all(rate is not None for rate in rates):
        air = bits / np.array(rates, dtype=np.float64)
    times = np.maximum.accumulate([frame.time_s for frame in sent])
    return Record(np.array(lost), bits, air, times - times[0], f"{name}", tuple(notes))


def _packets(data: bytes, name: str) -> tuple[int, list[tuple[float, bytes]]]:
    """Returns the link type of a capture, and its packets with their times in seconds."""
    try:
        import dpkt  # type: ignore[import-untyped]
    except ImportError:
        raise FitError(f"{name}: needs dpkt: run `pip install 'lasthop[pcap]'`") from None
    try:
        reader = (dpkt.pcapng if data[:4] == b"\n\r\r\n" else dpkt.pcap).Reader(io.BytesIO(data))
        return reader.datalink(), [(float(time_s), packet) for time_s, packet in reader]
    except (ValueError, dpkt.Error, struct.error) as error:
        raise FitError(f"{name}: invalid capture ({error}): expected pcap, pcapng") from None


def _data_frame(time_s: float, packet: bytes) -> _Sent | None:
    """Parses a captured packet; None if it is not such a frame."""
    if len(packet) < 8:
        return None
    (length,) = struct.unpack_from("<2xH", packet)
    flags, rate = flags_and_rate(packet)
    frame = packet[length:]
    if flags & BAD_FCS or len(frame) < 24:
        return None
    control, to = frame[0], frame[4]
    if (control >> 2) & 3 != DATA or control >> 4 & 4 or to & 1:  # other types, no data, groups
        return None
    (sequence,) = struct.unpack_from("<H", frame, 22)
    station = ":".join(f"{byte:02x}" for byte in frame[10:16])
    return _Sent(station, sequence, bool(frame[1] & 0x08), time_s, len(frame), rate)
