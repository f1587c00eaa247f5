"""Applications with a rate, pauses and several files; losses between two times; reordering."""

import polars as pl
import pytest

import lasthop

BASE = """
name = "t"
[link.path]
between = ["server", "client"]
rate = "10 Mbps"
delay = "20 ms"
[flow.f]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "cubic", profile = "linux" }
[flow.f.app]
kind = "messages"
size = "1448 B"
rate = "2 Mbps"
[run]
duration = "10 s"
"""


def scenario(**keys: object) -> lasthop.Scenario:
    return lasthop.Scenario.from_toml(BASE).with_(keys)


def metric(one: lasthop.Scenario, name: str) -> float:
    return float(lasthop.run(one, replications=1).samples(name, 0)[0])


@pytest.mark.parametrize("kind", ["tcp", "quic"])
def test_the_goodput_is_the_rate_of_the_application(kind: str) -> None:
    transport = {"kind": kind} | ({"variant": "bbr3"} if kind == "tcp" else {})
    one = scenario(**{"flow.f.transport": transport})
    assert metric(one, "flow.f.goodput_bps") == pytest.approx(2e6, rel=0.02)
    if kind == "tcp":
        assert metric(one, "flow.f.limited_by_application") > 0.9
        # 10 s of 2 Mbps, except the last round trip.
        assert metric(one, "flow.f.messages") == pytest.approx(10 * 2e6 / 8 / 1448, abs=2)


def test_small_messages_share_segments_with_nagle() -> None:
    """A message of 100 B every 10 ms, and an RTT of 40.5 ms: with Nagle's algorithm, one segment
    per RTT."""
    app = {"kind": "messages", "size": "100 B", "interval": "10 ms"}
    for nagle, segments in ((False, 1000), (True, 10 / 0.0405)):
        one = scenario(**{"flow.f.app": app, "flow.f.transport.nagle": nagle})
        assert metric(one, "flow.f.messages") == pytest.approx(1000, abs=2)
        assert metric(one, "flow.f.segments_sent") == pytest.approx(segments, rel=0.02)


def test_an_application_pauses() -> None:
    app = {"kind": "messages", "size": "1448 B", "rate": "2 Mbps", "on": "2 s", "off": "3 s"}
    frame = lasthop.trace(scenario(**{"flow.f.app": app})).frame
    sent = frame.filter(pl.col("value") > 0, entity="flow.f", event="segment_sent")["time_s"]
    seconds = sorted({int(time) for time in sent})
    assert [second for second in seconds if second < 10] == [0, 1, 5, 6]


def test_files_follow_each_other_after_a_gap() -> None:
    app = {"kind": "messages", "size": "100 kB", "gap": "exp 500 ms"}
    found = lasthop.run(scenario(**{"flow.f.app": app, "run.duration": "200 s"}), replications=1)
    count, mean, most = (
        float(found.samples(f"flow.f.{name}", 0)[0])
        for name in ("messages", "message_time_mean_s", "message_time_p95_s")
    )
    # The time of a file and a mean gap of 500 ms, within 4 standard errors.
    assert count == pytest.approx(200 / (mean + 0.5), rel=4 / count**0.5)
    # At least the transmission of 100 kB at 10 Mbps, and at least a round trip.
    assert 0.1 < mean <= most < 0.6


@pytest.mark.parametrize(
    ("app", "message"),
    [
        ({"rate": "1 Mbps", "gap": "1 s"}, "app: found rate and gap; expected exactly one of"),
        ({}, "app: found none of rate, interval, gap"),
        ({"gap": "1 s", "on": "1 s"}, "app.off: found none, with on"),
    ],
)
def test_contradictory_messages_are_refused(app: dict[str, str], message: str) -> None:
    with pytest.raises(lasthop.ScenarioError, match=message):
        scenario(**{"flow.f.app": {"kind": "messages", "size": "1 kB", **app}}).points()


def test_losses_occur_between_two_times() -> None:
    errors = {
        "kind": "product",
        "first": {"kind": "uniform", "loss": "20 %"},
        "second": "none",
        "after": "4 s",
        "until": "6 s",
    }
    frame = lasthop.trace(scenario(**{"link.path.errors": errors})).frame
    lost = frame.filter(event="frame_lost")["time_s"]
    assert len(lost) > 30
    assert min(lost) >= 4.0
    assert max(lost) < 6.01
    with pytest.raises(
        lasthop.ScenarioError, match=r"errors.until: found .*; expected a time after"
    ):
        scenario(**{"link.path.errors": {**errors, "until": "4 s"}}).points()


def test_a_path_reorders_packets_of_every_transport() -> None:
    agent = {"kind": "reorder", "at": "client", "share": "5 %", "hold": "12 ms"}
    speech = {"kind": "media", "rate": "1 Mbps", "packet": "1000 B", "silence": "0 s"}
    for keys in (
        {"flow.f.transport": {"kind": "tcp", "variant": "cubic", "profile": "linux"}},
        {"flow.f.transport": {"kind": "quic"}},
        {"flow.f.transport": "udp", "flow.f.app": speech},
    ):
        found = lasthop.run(scenario(**{"link.path.agent": agent, **keys}), replications=1)
        held, overtaken, packets = (
            float(found.samples(name, 0)[0])
            for name in (
                "agent.path.packets_held",
                "agent.path.packets_overtaken",
                "link.path.forward.frames_sent",
            )
        )
        assert held == pytest.approx(0.05 * packets, rel=0.35)
        assert 0.0 < overtaken <= held
    # A packet of the last flow, which is sent every 8 ms, is overtaken unless the next one is held.
    assert overtaken > 0.85 * held


def test_reordering_alone_causes_spurious_retransmissions_of_a_threshold_of_three() -> None:
    """RFC 5681 takes three duplicate ACKs for a loss; RACK adapts its reordering window."""
    agent = {"kind": "reorder", "at": "client", "share": "2 %", "hold": "10 ms"}
    file = {"kind": "file", "size": "1 GB"}
    keys = {"link.path.agent": agent, "flow.f.app": file}
    counts = {
        profile: metric(
            scenario(
                **keys,
                **{"flow.f.transport": {"kind": "tcp", "variant": "sack", "profile": profile}},
            ),
            "flow.f.spurious_retransmissions",
        )
        for profile in ("rfc", "linux")
    }
    assert counts["rfc"] >= 10
    assert counts["linux"] < 0.2 * counts["rfc"]
