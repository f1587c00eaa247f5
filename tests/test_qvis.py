"""qlog for qvis: what its loader and its diagrams read (quiclog/qvis, branch of draft 02 and 0.3).

- loader: record separators, version 0.3, relative times in ascending order.
- sequence diagram: packet type and number of every packet.
- congestion diagram: `raw.length`, ACK ranges, losses, window, bytes in flight, and three RTTs.
- multiplexing diagram: STREAM frames that a server sends.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import lasthop
from lasthop.running.qlog import write_qlog

SCENARIO = """
name = "qvis"
[link.air]
between = ["server", "phone"]
rate = "20 Mbps"
delay = "20 ms"
queue = "100 packets"
errors = { kind = "uniform", loss = "1 %" }
[flow.f]
from = "phone"
to = "server"
transport = { kind = "quic" }
app = { kind = "file", size = "1 MB" }
"""
Event = dict[str, Any]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Event, list[Event]]:
    path = tmp_path_factory.mktemp("qvis") / "f.qlog"
    write_qlog(lasthop.Scenario.from_toml(SCENARIO), path)
    text = path.read_text()
    # qvis recognizes the format of a file with this suffix by its first 1024 characters.
    assert "qlog_version" in text[:1024]
    assert "JSON-SEQ" in text[:1024]
    header, *events = [json.loads(one) for one in text.split("\x1e")[1:]]
    return header, events


def named(events: list[Event], name: str) -> list[Event]:
    return [one for one in events if one["name"] == name]


def ranges(event: Event) -> list[tuple[int, int]]:
    """ACK ranges of a packet."""
    frames = [one for one in event["data"]["frames"] if one["frame_type"] == "ack"]
    return [(low, high) for frame in frames for low, high in frame["acked_ranges"]]


def is_data(event: Event) -> bool:
    return bool(event["data"]["header"]["packet_type"] == "1RTT")


def test_the_loader_accepts_the_file(file: tuple[Event, list[Event]]) -> None:
    header, events = file
    assert header["qlog_version"] == "0.3"
    fields = header["trace"]["common_fields"]
    assert (fields["time_format"], fields["reference_time"]) == ("relative", 0)
    times = [one["time"] for one in events]
    assert times == sorted(times)
    for one in events:
        category, _, name = one["name"].partition(":")
        assert category
        assert name
        # Members of earlier drafts.
        assert "packet_type" not in one["data"]
        assert not {"packet_size", "payload_length"} & one["data"].get("header", {}).keys()


def test_the_sequence_diagram_finds_the_counterpart_of_every_packet(
    file: tuple[Event, list[Event]],
) -> None:
    for name in ("transport:packet_sent", "transport:packet_received"):
        keys = [tuple(one["data"]["header"].values()) for one in named(file[1], name)]
        assert all(
            kind in ("initial", "handshake", "1RTT") and number >= 0 for kind, number in keys
        )
        assert len(set(keys)) == len(keys)


def test_the_congestion_diagram_has_losses_and_bytes_in_flight(
    file: tuple[Event, list[Event]],
) -> None:
    """The bytes in flight are those of the packets sent, neither acknowledged nor lost."""
    outstanding: dict[int, int] = {}
    lost = checked = 0
    known: int | None = None
    at = 0.0
    for one in [*file[1], {"name": "", "time": math.inf, "data": {}}]:
        data = one["data"]
        if one["time"] > at:
            # All events of an instant are known. Packets of the handshake are not considered.
            if known is not None and at > 200:
                checked += 1
                assert known == sum(outstanding.values()), at
            known, at = None, one["time"]
        number = data.get("header", {}).get("packet_number")
        if one["name"] == "transport:packet_sent" and is_data(one):
            assert data["raw"]["length"] > 0
            outstanding[number] = data["raw"]["length"]
        elif one["name"] == "transport:packet_received" and is_data(one):
            for low, high in ranges(one):
                for acked in range(low, high + 1):
                    outstanding.pop(acked, None)
        elif one["name"] == "recovery:packet_lost":
            lost += 1
            assert outstanding.pop(number) > 0
        known = data.get("bytes_in_flight", known)
    assert lost > 5
    assert checked > 300


def test_the_congestion_diagram_has_three_rtts(file: tuple[Event, list[Event]]) -> None:
    """A sample is the time since the largest newly acknowledged packet was sent, of RFC 9002,
    section 5.1; the smoothed RTT follows section 5.3."""
    sent = {
        one["data"]["header"]["packet_number"]: one["time"]
        for one in named(file[1], "transport:packet_sent")
        if is_data(one)
    }
    samples = []
    largest = -1
    for one in named(file[1], "transport:packet_received"):
        acked = max((high for _, high in ranges(one)), default=-1) if is_data(one) else -1
        if acked > largest:
            largest = acked
            samples.append(one["time"] - sent[acked])
    values: dict[str, list[float]] = {"min_rtt": [], "smoothed_rtt": [], "latest_rtt": []}
    for one in named(file[1], "recovery:metrics_updated"):
        for name, value in one["data"].items():
            if name in values:
                values[name].append(value)
    known = {round(one, 6) for one in samples}
    # Equal samples in succession have one event.
    assert len(values["latest_rtt"]) > 50
    # The first samples are of the handshake.
    assert all(round(one, 6) in known for one in values["latest_rtt"][2:])
    assert values["min_rtt"] == sorted(values["min_rtt"], reverse=True)
    # A datagram of 1500 B takes 0.6 ms; propagation takes 40 ms.
    assert 40 < values["min_rtt"][-1] < 42
    assert values["min_rtt"][-1] == pytest.approx(min(values["latest_rtt"]))
    low, high = min(values["latest_rtt"]), max(values["latest_rtt"])
    assert all(low <= one <= high for one in values["smoothed_rtt"])
    steps = zip(values["smoothed_rtt"], values["smoothed_rtt"][1:], strict=False)
    assert all(math.isclose(one, two, rel_tol=0.3) for one, two in steps)


def test_the_multiplexing_diagram_shows_streams_of_a_server(tmp_path: Path) -> None:
    pages = SCENARIO.replace(
        '{ kind = "file", size = "1 MB" }', '{ kind = "page", objects = 6, size = "100 kB" }'
    )
    path = tmp_path / "p.qlog"
    write_qlog(lasthop.Scenario.from_toml(pages), path)
    header, *events = [json.loads(one) for one in path.read_text().split("\x1e")[1:]]
    assert header["trace"]["vantage_point"]["type"] == "server"
    frames = [
        frame
        for one in named(events, "transport:packet_sent")
        for frame in one["data"]["frames"]
        if frame["frame_type"] == "stream"
    ]
    # Streams opened by the client are multiples of 4; others are skipped.
    assert {one["stream_id"] for one in frames} == {0, 4, 8, 12, 16, 20}
    assert all(one["length"] >= 0 and one["offset"] >= 0 for one in frames)
