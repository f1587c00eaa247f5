"""`lasthop fit` reads sequence numbers and the output of measurement programs."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from lasthop import fit
from test_fit import capture

PING = """PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.
64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=20.1 ms
64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=20.3 ms
no answer yet for icmp_seq=3
64 bytes from 10.0.0.1: icmp_seq=4 ttl=64 time=20.2 ms

--- 10.0.0.1 ping statistics ---
6 packets transmitted, 3 received, 50% packet loss, time 5012ms
rtt min/avg/max/mdev = 20.1/20.2/20.3/0.1 ms
"""
IRTT = {
    "version": {},
    "round_trips": [
        {"seqno": 0, "lost": "false"},
        {"seqno": 1, "lost": "true_down"},
        {"seqno": 2, "lost": "true"},
        {"seqno": 3, "lost": "false"},
    ],
}
FLENT = {
    "raw_values": {
        "TCP upload": [{"t": 1.0, "val": 5.0}],
        "Ping (ms) ICMP": [{"seq": 4, "val": 1.0}, {"seq": 5, "val": 1.0}, {"seq": 8, "val": 1.0}],
    }
}


def rtp(number: int, source: int = 7, port: int = 5004, version: int = 2) -> bytes:
    """An Ethernet frame with an RTP packet."""
    payload = struct.pack(">BBHII", version << 6, 96, number, 160 * number, source) + bytes(20)
    datagram = struct.pack(">HHHH", 40000, port, 8 + len(payload), 0) + payload
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + header + bytes(8) + datagram


@pytest.mark.parametrize(
    ("name", "data", "lost", "note"),
    [
        ("semicolons.csv", b"time_s;lost\n0;ok\n1;timeout\n2;lost\n", [0, 1, 1], ""),
        ("tabs.tsv", b"seq\tlost\n1\tack\n2\tnack\n", [0, 1], ""),
        ("status.txt", b"reply\ntimed out\nreply\n", [0, 1, 0], ""),
        ("numbers.txt", b"4\n5\n7\n6\n9\n9\n", [0, 0, 0, 0, 1, 0], "1 duplicates ignored"),
        ("numbers.csv", b"seq,delay\n10,1\n12,1\n", [0, 1, 0], "sequence numbers 10 to 12"),
        ("ping.txt", PING.encode(), [0, 0, 1, 0, 1, 1], "2 requests after the last reply"),
        (
            "irtt.json",
            json.dumps(IRTT).encode(),
            [0, 1, 1, 0],
            "lost from the server",
        ),
        ("run.flent", json.dumps(FLENT).encode(), [0, 0, 1, 1, 0], "Ping (ms) ICMP"),
        (
            "run.flent.gz",
            gzip.compress(json.dumps(FLENT).encode(), mtime=0),
            [0, 0, 1, 1, 0],
            "ICMP",
        ),
    ],
)
def test_logs_of_programs_are_read(
    name: str, data: bytes, lost: list[int], note: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    record = fit.read(path)
    assert record.lost.astype(int).tolist() == lost
    assert note in "; ".join(record.notes)


def test_rtp_numbers_wrap_and_the_busiest_stream_is_taken(tmp_path: Path) -> None:
    pytest.importorskip("dpkt")
    numbers = [65534, 65535, 0, 2, 1, 5]
    packets = [rtp(number) for number in numbers] + [rtp(1, source=9), rtp(3, version=1)]
    path = tmp_path / "call.pcap"
    path.write_bytes(capture([*packets, b"\0" * 9, bytes(60)], kind=1))
    record = fit.read(path)
    # 65534 to 65541: 65539 and 65540 are missing.
    assert record.lost.astype(int).tolist() == [0, 0, 0, 0, 0, 1, 1, 0]
    assert record.notes[0] == "RTP stream 0x00000007, 6 of 7 RTP packets"
    assert "1 reordered packets" in record.notes[-1]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("iperf.json", b'{"start": {}, "intervals": [], "end": {}}', "per interval"),
        ("numbers.txt", b"5\n7\n900000000000\n", "a range of at most"),
        ("run.flent.gz", gzip.compress(b"{}", mtime=0), "no series with sequence numbers"),
        ("broken.gz", gzip.compress(b"{}" * 99, mtime=0)[:-12], "invalid Flent data"),
        ("numbers.csv", b"seq,delay\n10,1\nx,1\n", ":3: "),
    ],
)
def test_logs_that_hold_no_record_are_refused(
    name: str, data: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(fit.FitError, match=message):
        fit.read(path)


def recording(lost: Sequence[int], *, end: bool = True) -> bytes:
    """A live recording according to docs/live.md: a link with its two directions."""
    header = json.dumps({"links": ["wired", "radio"]})
    data = f"lasthop recording 1\n{header}\n".encode()
    for number, is_lost in enumerate(lost):
        at = 5_000_000 * number
        data += struct.pack("<BHBQI", ord("A"), 1, 0, at, 3) + b"F\x00D"  # data, not records
        data += struct.pack("<BHBQQQB", ord("F"), 1, 0, at, at + 2_000_000, 8000, is_lost)
        data += struct.pack("<BHBQIQ", ord("D"), 1, 1, at, 3, 7)
        if number % 2:
            data += struct.pack("<BHBQQQB", ord("F"), 1, 1, at, at + 1000, 64, 0)
    return data + (struct.pack("<BQ", ord("E"), at) if end else b"")


def test_a_live_recording_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    lost = [0, 1, 1, 0, 0, 1, 0, 0]
    path.write_bytes(recording(lost))
    found = fit.read(path, entity="link.radio.forward")
    assert found.lost.tolist() == [bool(one) for one in lost]
    assert found.bits is not None
    assert found.air_s is not None
    assert set(found.bits) == {8000.0}
    assert found.air_s.tolist() == pytest.approx([0.002] * 8)
    assert found.gap_s.tolist() == pytest.approx([0.003] * 7 + [0.0])
    assert found.notes == ()
    assert fit.read(path, entity="link.radio.reverse").lost.tolist() == [False] * 4
    # Truncated within its last record.
    path.write_bytes(recording(lost, end=False)[:-3])
    short = fit.read(path, entity="link.radio.reverse")
    assert short.lost.size == 3
    assert "truncated" in short.notes[0]


@pytest.mark.parametrize(
    ("data", "entity", "message"),
    [
        (recording([0, 1]), None, "2 directions: use `entity` to select one of link.radio.forward"),
        (
            recording([0, 1]),
            "link.x.forward",
            "invalid value `link.x.forward` for `entity`: expected link.rad",
        ),
        (recording([0, 1])[:-9] + b"Q", None, "invalid record 'Q' at byte"),
        (b"lasthop recording 1\n{}\n", None, ":2: invalid header"),
        (b'lasthop recording 1\n{"links": ["a"]}\n', None, "has no frame"),
        (recording([0]).replace(b"wired", b"").replace(b'"", ', b""), None, "unknown link"),
    ],
)
def test_a_damaged_recording_is_refused(
    data: bytes, entity: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.rec"
    path.write_bytes(data)
    with pytest.raises(fit.FitError, match=message):
        fit.read(path, entity=entity)
