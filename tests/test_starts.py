"""Random starts of flows, and policers, which enforce a rate without a queue."""

import numpy as np
import polars as pl
import pytest

import lasthop

BASE = """
name = "t"
[link.air]
between = ["server", "client"]
rate = "10 Mbps"
delay = "20 ms"
[flow.f]
from = "server"
to = "client"
start = "1 s"
start_spread = "2 s"
transport = { kind = "tcp", variant = "cubic" }
app = { kind = "file", size = "100 kB" }
"""


def scenario(**keys: object) -> lasthop.Scenario:
    return lasthop.Scenario.from_toml(BASE).with_(keys)


def starts(one: lasthop.Scenario, flow: str = "f", replications: int = 8) -> list[float]:
    def first(replication: int) -> float:
        frame = lasthop.trace(one, seed=1, replication=replication).frame
        sent = frame.filter(pl.col("entity") == f"flow.{flow}", pl.col("event") == "segment_sent")
        return float(sent["time_s"][0])

    return [first(replication) for replication in range(replications)]


def test_a_flow_starts_within_its_spread() -> None:
    found = starts(scenario(), replications=30)
    assert all(1 <= time < 3 for time in found)
    assert len(set(found)) == 30
    # The mean of 30 uniform times has a standard deviation of 0.105 s.
    assert np.mean(found) == pytest.approx(2.0, abs=0.35)
    assert max(found) - min(found) > 1.4
    assert starts(scenario()) == found[:8]


def test_flows_of_a_table_have_separate_starts() -> None:
    two = scenario(**{"flow.f.count": 2})
    assert not set(starts(two, "f1")) & set(starts(two, "f2"))


def test_other_flows_start_as_without_it() -> None:
    tables = scenario().to_dict()
    tables["flow"]["g"] = {
        **tables["flow"]["f"],
        "start_spread": "1 ms",
        "start": "0 s",
    }
    assert starts(lasthop.Scenario(tables)) == starts(scenario())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"flow.f.start_spread": "0 s"}, "start_spread: found .*; expected .*more than zero"),
        ({"run.duration": "2 s"}, 'start_spread: found "2 s" after "1 s"; expected a time before'),
        ({"run.max_time": "2.5 s"}, "start_spread: found .* before run.max_time"),
    ],
)
def test_a_spread_ends_before_the_run(keys: dict[str, object], message: str) -> None:
    with pytest.raises(lasthop.ScenarioError, match=message):
        scenario(**keys).points()


POLICED = {
    "link.air.rate": "100 Mbps",
    "link.air.queue": {"kind": "policer", "rate": "2 Mbps", "burst": "50 kB"},
    "flow.f.start": "0 s",
    "flow.f.transport": "udp",
    "run.duration": "10 s",
}


def test_a_policer_passes_its_rate_and_a_burst() -> None:
    media = {"kind": "media", "rate": "8 Mbps", "packet": "1000 B", "silence": "0 s"}
    results = lasthop.run(
        scenario(**{**POLICED, "flow.f.app": media, "flow.f.start_spread": "1 ns"}), replications=1
    )
    delivered = results.samples("flow.f.packets_delivered", 0)[0]
    dropped = results.samples("link.air.forward.queue_early_drops", 0)[0]
    # 10 s at 2 Mbps and a bucket of 50 kB, except 20 ms in transit at the end.
    assert delivered == pytest.approx((9.98 * 2e6 / 8 + 50e3) / 1000, abs=2)
    assert results.samples("link.air.forward.queue_tail_drops", 0)[0] == 0
    in_transit = results.samples("flow.f.packets_sent", 0)[0] - delivered - dropped
    assert 4 <= in_transit <= 6
    # Packets that pass find an empty queue: 80 us of transmission and 20 ms of propagation.
    assert results.samples("flow.f.delay_p95_s", 0)[0] == pytest.approx(0.02008, rel=0.01)


def test_below_its_rate_a_policer_drops_nothing() -> None:
    media = {"kind": "media", "rate": "1.9 Mbps", "packet": "1000 B", "silence": "0 s"}
    results = lasthop.run(
        scenario(**{**POLICED, "flow.f.app": media, "flow.f.start_spread": "1 s"}), replications=2
    )
    assert results.samples("link.air.forward.queue_early_drops", 0).tolist() == [0, 0]


def test_a_flow_stops_at_its_time() -> None:
    """Data that was sent is repaired, no new data is sent, and the goodput ends with the flow."""
    long = scenario(**{"flow.f.app.size": "1 GB", "flow.f.stop": "5 s", "run.duration": "8 s"})
    sent = lasthop.trace(long, seed=1).frame.filter(
        pl.col("entity") == "flow.f", pl.col("event") == "segment_sent", pl.col("value") > 0
    )
    fresh = sent.unique("sequence", keep="first", maintain_order=True)
    assert 4.9 < max(fresh["time_s"]) <= 5.0
    results = lasthop.run(long, replications=4)
    for index in range(4):
        started = starts(long, replications=4)[index]
        duration, goodput, complete = (
            results.samples(f"flow.f.{name}", 0, censored=True)[index]
            for name in ("duration_s", "goodput_bps", "complete")
        )
        assert duration == pytest.approx(5.0 - started, abs=1e-6)
        assert 8e6 < goodput < 10e6
        assert complete == 0.0


@pytest.mark.parametrize("profile", ["linux", "rfc", "ns-2"])
def test_lost_data_of_a_stopped_flow_is_repaired(profile: str) -> None:
    lossy = {
        "flow.f.transport": {"kind": "tcp", "variant": "sack", "profile": profile},
        "flow.f.app.size": "1 GB",
        "flow.f.stop": "4 s",
        "link.air.errors": {"kind": "uniform", "loss": "3 %"},
        "run.duration": "9 s",
    }
    for replication in range(5):
        frame = lasthop.trace(scenario(**lossy), seed=3, replication=replication).frame
        data = pl.col("value") > 0
        sent = frame.filter(data, entity="flow.f", event="segment_sent")
        # Everything that was sent before the stop has arrived.
        arrived = frame.filter(data, entity="flow.f.receiver", event="segment_received")
        assert set(sent["sequence"]) == set(arrived["sequence"])
        last = max(frame.filter(entity="flow.f", event="ack_received")["sequence"])
        end = max(sent["sequence"] + sent["value"])
        assert last >= end


@pytest.mark.parametrize(
    "app", [{"kind": "web"}, {"kind": "page"}, {"kind": "messages", "size": "1 MB", "gap": "0 s"}]
)
@pytest.mark.parametrize("transport", ["cubic", "quic"])
def test_every_application_with_streams_stops(app: dict[str, str], transport: str) -> None:
    kind = {"kind": "quic"} if transport == "quic" else {"kind": "tcp", "variant": "cubic"}
    one = scenario(
        **{
            "flow.f.app": app,
            "flow.f.transport": kind,
            "flow.f.start_spread": "1 ns",
            "flow.f.stop": "3 s",
            "run.duration": "6 s",
        }
    )
    frame = lasthop.trace(one).frame.filter(pl.col("event").is_in(["segment_sent", "packet_sent"]))
    # Only repairs, and packets that close a connection, follow within a few round trips.
    assert 2.0 < max(frame["time_s"]) < 4.5


def test_datagrams_stop_and_other_flows_go_on() -> None:
    sources = {
        "on-off": {"kind": "on-off", "rate": "1 Mbps", "on": "1 s", "off": "0 s"},
        "media": {"kind": "media", "rate": "1 Mbps", "silence": "0 s"},
    }
    for source in sources.values():
        one = scenario(
            **{
                "flow.f.app": {**source, "packet": "1000 B"},
                "flow.f.transport": "udp",
                "flow.f.start_spread": "1 ns",
                "flow.f.stop": "3 s",
                "run.duration": "6 s",
            }
        )
        results = lasthop.run(one, replications=1)
        (packets,) = results.samples("flow.f.packets_sent", 0)
        # 125 packets per second for 2 s.
        assert packets == pytest.approx(250, abs=1)
        (goodput,) = results.samples("flow.f.goodput_bps", 0)
        assert goodput == pytest.approx(1e6, rel=0.03)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"flow.f.stop": "3 s"}, 'stop: found "3 s"; expected a time after the start'),
        (
            {
                "flow.f.stop": "4 s",
                "flow.f.transport": {"kind": "tcp", "variant": "lt-tcp", "profile": "rfc"},
            },
            "stop: found .*lt-tcp",
        ),
    ],
)
def test_a_stop_that_is_not_possible_is_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(lasthop.ScenarioError, match=message):
        scenario(**keys).points()
