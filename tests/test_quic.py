"""QUIC in the package: explanation, traces, qlog and captures."""

import json
from pathlib import Path

import pytest

import lasthop
from lasthop import commands as cli
from lasthop.running.qlog import write_qlog
from lasthop.scenarios.explain import explain

QUIC = """
name = "quic"

[link.air]
between = ["server", "phone"]
rate = "5 Mbps"
delay = "10 ms"
queue = "100 kB"
errors = { kind = "uniform", loss = "2 %" }

[flow.f]
from = "server"
to = "phone"
transport = { kind = "quic" }
app = { kind = "file", size = "300 kB" }

[run]
replications = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "quic.toml"
    path.write_text(QUIC)
    return path


def test_a_run_reports_the_metrics_of_quic() -> None:
    rows = lasthop.run(lasthop.Scenario.from_toml(QUIC)).frame.filter(name="f")
    assert len(rows) == 3
    assert (rows["complete"] == 1.0).all()
    # 2 RTT of 20 ms before the client's first data, less than 5 ms of transmission.
    assert (rows["handshake_s"] > 0.020).all()
    assert (rows["packets_lost"] > 0).all()
    assert (rows["packets_spurious"] == 0).all()


def test_explain_states_the_parameters(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._main(["explain", str(file)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "QUIC, congestion control cubic of the stack: datagrams of" in text
    assert "packet threshold 3, time threshold 1.125 RTT, initial RTT 333 ms" in text


def test_explain_describes_pages() -> None:
    pages = '{ kind = "page", http = "1.1" }'
    tcp = QUIC.replace('{ kind = "quic" }', '{ kind = "tcp", variant = "cubic" }')
    text = explain(
        lasthop.Scenario.from_toml(tcp.replace('{ kind = "file", size = "300 kB" }', pages))
    )
    flat = " ".join(text.split())
    assert (
        "1 page of 71 objects and 2.652 MB on average, 3 levels, over HTTP/1.1 with 6 conn" in flat
    )
    assert "Each ends when every page is loaded, at the latest" in flat


def test_qlog_contains_the_packets_of_the_trace(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "f.qlog"
    assert cli._main(["trace", str(file), "--qlog", str(out)]) == 0
    records = [json.loads(one) for one in out.read_text().split("\x1e")[1:]]
    header, events = records[0], records[1:]
    assert (header["qlog_format"], header["qlog_version"]) == ("JSON-SEQ", "0.3")
    assert f"{len(events)} events" in capsys.readouterr().out
    trace = lasthop.trace(QUIC_SCENARIO)
    own = trace.frame.filter(entity="flow.f")
    for name, event in [
        ("transport:packet_sent", "packet_sent"),
        ("recovery:packet_lost", "packet_lost"),
    ]:
        numbers = [
            one["data"]["header"]["packet_number"]
            for one in events
            if one["name"] == name and one["data"]["header"]["packet_type"] == "1RTT"
        ]
        assert numbers == own.filter(event=event)["sequence"].to_list()
    # Every byte of the file is in a STREAM frame.
    frames = [
        frame
        for one in events
        if one["name"] == "transport:packet_sent"
        for frame in one["data"]["frames"]
        if frame["frame_type"] == "stream"
    ]
    covered = 0
    for frame in sorted(frames, key=lambda frame: frame["offset"]):
        assert frame["offset"] <= covered
        covered = max(covered, frame["offset"] + frame["length"])
    assert covered == 300_000
    windows = [one["data"] for one in events if one["name"] == "recovery:metrics_updated"]
    assert windows[0]["congestion_window"] == 14_720
    times = [one["time"] for one in events]
    assert times == sorted(times)


def test_qlog_distinguishes_0_rtt_packets(tmp_path: Path) -> None:
    text = QUIC.replace('kind = "quic" }', 'kind = "quic", resumption = "0-rtt" }')
    out = tmp_path / "early.qlog"
    write_qlog(lasthop.Scenario.from_toml(text), out)
    events = [json.loads(one) for one in out.read_text().split("\x1e")[2:]]
    heads = [
        (one["data"]["header"]["packet_type"], one["data"]["header"]["packet_number"], one["time"])
        for one in events
        if one["name"] == "transport:packet_sent"
    ]
    early = [head for head in heads if head[0] == "0RTT"]
    # The initial window, sent before the first flight of the server arrives.
    assert [number for _, number, _ in early] == list(range(len(early)))
    assert early
    assert all(time < 20.0 for _, _, time in early)
    later = [number for kind, number, _ in heads if kind == "1RTT"]
    assert min(later) == len(early)


# The CDDL of draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events for version 0.3:
# types of required and of optional members ("?"), as far as a trace can contain them. Times are
# numbers, others are integers.
NUMBER = (int, float)
HEADER = {"packet_type": str, "packet_number": int}
PACKET = {"header": HEADER, "raw?": {"length?": int}, "frames?": list}
EVENTS = {
    "transport:packet_sent": PACKET,
    "transport:packet_received": PACKET,
    "recovery:packet_lost": {"header?": HEADER, "trigger?": str},
    "recovery:metrics_updated": {
        "congestion_window?": int,
        "ssthresh?": int,
        "pacing_rate?": int,
        "bytes_in_flight?": int,
        "min_rtt?": NUMBER,
        "smoothed_rtt?": NUMBER,
        "latest_rtt?": NUMBER,
    },
}
FRAMES = {
    "ack": {"frame_type": str, "acked_ranges?": list},
    "stream": {"frame_type": str, "stream_id": int, "offset": int, "length": int, "fin?": bool},
}
FILE = {
    "qlog_version": str,
    "qlog_format": str,
    "title?": str,
    "trace": {
        "vantage_point?": {"name?": str, "type": str},
        "common_fields?": {
            "ODCID?": str,
            "time_format?": str,
            "reference_time?": NUMBER,
            "protocol_type?": list,
        },
    },
}


def conforms(value: object, shape: object) -> bool:
    """Whether a value has the members of a map of the CDDL, and no others."""
    if not isinstance(shape, dict):
        return isinstance(value, shape) and not (shape is int and isinstance(value, bool))  # type: ignore[arg-type]
    if not isinstance(value, dict):
        return False
    required = {name for name in shape if not name.endswith("?")}
    known = {name.removesuffix("?"): one for name, one in shape.items()}
    return required <= value.keys() <= known.keys() and all(
        conforms(one, known[name]) for name, one in value.items()
    )


def test_qlog_conforms_to_its_schema(tmp_path: Path) -> None:
    write_qlog(QUIC_SCENARIO, tmp_path / "f.qlog")
    records = (tmp_path / "f.qlog").read_text().split("\x1e")
    assert records[0] == ""
    # RFC 7464: each record ends with a line feed.
    assert all(one.endswith("\n") for one in records[1:])
    header, *events = [json.loads(one) for one in records[1:]]
    assert conforms(header, FILE)
    assert header["trace"]["common_fields"]["time_format"] in ("absolute", "delta", "relative")
    for one in events:
        assert conforms(one, {"time": NUMBER, "name": str, "data": EVENTS[one["name"]]}), one
        header = one["data"].get("header", {"packet_type": "1RTT"})
        assert header["packet_type"] in ("initial", "handshake", "0RTT", "1RTT")
        for frame in one["data"].get("frames", []):
            assert conforms(frame, FRAMES[frame["frame_type"]]), frame
            for low, high in frame.get("acked_ranges", []):
                assert 0 <= low <= high
    assert {one["name"] for one in events} == EVENTS.keys()
    assert not conforms({"time": "1", "name": "a", "data": {}}, {"time": NUMBER, "name": str})


def test_qlog_of_pages_is_that_of_the_server(tmp_path: Path) -> None:
    page = '{ kind = "page", objects = 5, size = "100 kB", sizes = "constant" }'
    text = QUIC.replace('{ kind = "file", size = "300 kB" }', page)
    write_qlog(lasthop.Scenario.from_toml(text), tmp_path / "p.qlog")
    records = (tmp_path / "p.qlog").read_text().split("\x1e")[1:]
    header, *events = [json.loads(one) for one in records]
    assert header["trace"]["vantage_point"]["type"] == "server"
    # Streams 0, 4, 8, 12 and 16 carry the objects, each with all of its bytes.
    ends: dict[int, int] = {}
    for one in events:
        if one["name"] == "transport:packet_sent":
            for frame in one["data"]["frames"]:
                if frame["frame_type"] == "stream":
                    end = frame["offset"] + frame["length"]
                    number = frame["stream_id"]
                    ends[number] = max(ends.get(number, 0), end)
    assert sorted(ends) == [0, 4, 8, 12, 16]
    assert abs(sum(ends.values()) - (100_000 + 5 * 200)) <= 5


QUIC_SCENARIO = lasthop.Scenario.from_toml(QUIC)


def test_qlog_needs_a_flow_over_quic(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(file.with_name("x.qlog"))
    assert cli._main(["trace", str(file), "--qlog", out, "--flow", "g"]) == 2
    assert "expected one of the flows over QUIC: f" in capsys.readouterr().err
    assert cli._main(["trace", str(file), "--flow", "f"]) == 2
    assert "`--flow` requires `--qlog FILE`" in capsys.readouterr().err


ONE_LOSS = """
name = "quic"

[link.air]
between = ["a", "b"]
rate = "2 Mbps"
delay = "20 ms"
queue = "1 MB"
errors = { kind = "listed", lose = [9] }
reverse = { errors = { kind = "none" } }

[flow.f]
from = "a"
to = "b"
transport = { kind = "quic" }
app = { kind = "file", size = "30 kB" }
"""


def test_a_time_sequence_shows_packet_numbers_ranges_and_losses() -> None:
    trace = lasthop.trace(lasthop.Scenario.from_toml(ONE_LOSS))
    events = trace.frame.filter(entity="flow.f")
    (lost,) = events.filter(event="packet_lost")["sequence"].to_list()
    # The ACK of which the first range is above the gap.
    ranges = events.filter(event="ack_range", sequence=lost + 1)["value"].to_list()
    assert ranges
    figure = trace.plot_link("air", start=0.075, end=0.18)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert f"lost {lost:.0f}" in texts
    assert f"delivered {lost + 1:.0f}" in texts
    acks = [text for text in texts if text.startswith("ACK ")]
    assert any(text.startswith(f"ACK {lost + 1:.0f}") and ", " in text for text in acks)
    assert not any("dup" in text or "SACK" in text for text in texts)
    handshake = [
        text.get_text() for text in trace.plot_link("air", start=0.0, end=0.08).axes[0].texts
    ]
    assert "handshake" in handshake


def test_media_over_quic_and_udp_have_the_same_packets() -> None:
    text = QUIC.replace(
        '{ kind = "file", size = "300 kB" }',
        '{ kind = "media", rate = "64 kbps", packet = "200 B" }',
    )
    text += 'duration = "60 s"\n'
    rows = [
        lasthop.run(lasthop.Scenario.from_toml(one)).frame.filter(name="f")
        for one in (text, text.replace('kind = "quic"', 'kind = "udp"'))
    ]
    assert rows[0]["packets_sent"].to_list() == rows[1]["packets_sent"].to_list()
    # 2 % of some 1000 packets in each of 3 replications: a standard error of 0.25 %.
    for one in rows:
        assert abs(sum(one["residual_loss"].to_list()) / 3 - 0.02) < 0.01
    assert "delay_p95_s" in rows[0].columns
