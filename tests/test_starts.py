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
