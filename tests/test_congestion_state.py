"""State of congestion control in traces: phases, model and pacing rate.

Several tests are example test cases of draft-ietf-ccwg-bbr, appendix "BBR Example Test Cases".
"""

import itertools
import json
import math
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import lasthop
from lasthop.running.qlog import write_qlog
from lasthop.running.tracing import PHASE

BASE = """
name = "t"
[link.path]
between = ["server", "client"]
rate = "10 Mbps"
delay = "20 ms"
queue = "67 packets"
[flow.f]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "bbr3", profile = "linux" }
app = { kind = "file", size = "1 GB" }
[run]
duration = "12 s"
seed = 1
"""
RATE = 10e6
SEGMENT = 1448
BDP = RATE * 0.0403 / 8 / 1500
"""Segments: 40 ms and the transmission of a segment and its ACK."""


def trace(**keys: object) -> lasthop.Trace:
    return lasthop.trace(lasthop.Scenario.from_toml(BASE).with_(keys))


@cache
def bbr3() -> lasthop.Trace:
    return trace()


def phases(traced: lasthop.Trace, entity: str = "flow.f") -> list[tuple[float, str]]:
    """The phases of a sender and their start times in seconds."""
    own = traced.frame.filter(pl.col("event").str.starts_with(PHASE), entity=entity)
    names = own["event"].str.strip_prefix(PHASE)
    return list(zip(own["time_s"], names, strict=True))


def value(traced: lasthop.Trace, event: str, at: float) -> float:
    """The value of a quantity at a time, after the events at that time."""
    own = traced.frame.filter(pl.col("time_s") <= at, event=event, entity="flow.f")
    return float(own["value"][-1])


def start(traced: lasthop.Trace, phase: str) -> float:
    return next(at for at, name in phases(traced) if name == phase)


def test_startup_ends_by_a_plateau_at_the_rate_of_the_link() -> None:
    """Case 1: max_bw is within 2 % of the link when DRAIN begins, and pacing falls to 0.5."""
    traced = bbr3()
    drained = start(traced, "drain")
    assert [name for _, name in phases(traced)][:2] == ["startup", "drain"]
    max_bw = value(traced, "max_bw_bps", drained)
    assert max_bw * 1500 / SEGMENT == pytest.approx(RATE, rel=0.02)
    paced = value(traced, "pacing_rate_bps", drained)
    assert paced == pytest.approx(0.99 * 0.5 * max_bw, rel=1e-6)


def test_drain_ends_when_at_most_the_bdp_is_in_flight() -> None:
    """Case 3: the queue is empty or nearly so when PROBE_BW begins."""
    traced = bbr3()
    # DOWN ends at the same ACK, because its condition holds too.
    ended = start(traced, "probe_cruise")
    queue = traced.frame.filter(
        pl.col("time_s") <= ended, event="queue", entity="link.path.forward"
    )
    assert max(queue["value"]) > 20
    assert queue["value"][-1] <= 4
    assert value(traced, "min_rtt_s", ended) == pytest.approx(0.0413, abs=0.002)


def test_probe_bw_cycles_through_its_phases_in_order() -> None:
    """Cases 5, 8: DOWN, CRUISE, REFILL and UP follow each other, except around PROBE_RTT."""
    names = [name for _, name in phases(bbr3())]
    following = {
        "probe_down": {"probe_cruise", "probe_refill", "probe_rtt"},
        "drain": {"probe_down", "probe_cruise"},
        "probe_cruise": {"probe_refill", "probe_rtt"},
        "probe_refill": {"probe_up", "probe_rtt"},
        "probe_up": {"probe_down", "probe_rtt"},
    }
    for name, after in itertools.pairwise(names):
        assert after in following.get(name, {after})
    assert names.count("probe_up") >= 3


def test_probe_rtt_follows_five_seconds_without_a_lower_round_trip() -> None:
    """Case 10: at least 200 ms and a round trip with half the BDP, then PROBE_BW again."""
    found = phases(bbr3())
    index = [name for _, name in found].index("probe_rtt")
    began, ended = found[index][0], found[index + 1][0]
    assert 5.0 < began < 5.5
    assert 0.2 <= ended - began < 0.4
    assert found[index + 1][1] in ("probe_down", "probe_cruise")
    assert value(bbr3(), "cwnd", ended - 0.05) <= math.ceil(0.5 * BDP) + 1


def test_probe_rtt_within_startup_returns_to_startup() -> None:
    """Case 20: with 1 s and 100 Mbps, STARTUP takes more than 5 s."""
    traced = trace(
        **{
            "link.path.rate": "100 Mbps",
            "link.path.delay": "500 ms",
            "link.path.queue": "8400 packets",
            "run.duration": "14 s",
        }
    )
    names = [name for _, name in phases(traced)]
    assert names[:3] == ["startup", "probe_rtt", "startup"]


def test_bounds_fall_by_losses_and_are_infinite_before() -> None:
    """Case 6: losses in UP set the long-term bound."""
    losses = {"kind": "uniform", "loss": "3 %"}
    traced = trace(**{"link.path.errors": losses})
    bound = traced.frame.filter(event="inflight_longterm", entity="flow.f")["value"]
    assert math.isinf(bound[0])
    assert math.isfinite(bound[-1])


def test_version_1_of_linux_has_phases_and_a_model() -> None:
    traced = trace(**{"flow.f.transport.variant": "bbr"})
    names = [name for _, name in phases(traced)]
    assert names[:2] == ["startup", "drain"]
    assert {"probe_up", "probe_down", "probe_cruise", "probe_rtt"} <= set(names)
    drained = start(traced, "drain")
    assert value(traced, "max_bw_bps", drained) * 1500 / SEGMENT == pytest.approx(RATE, rel=0.02)
    # Version 1 has no bounds.
    assert traced.frame.filter(event="inflight_longterm").is_empty()


def test_other_algorithms_report_the_phase_of_recovery() -> None:
    traced = trace(**{"flow.f.transport.variant": "cubic", "run.duration": "8 s"})
    names = [name for _, name in phases(traced)]
    assert names[0] == "slow_start"
    assert set(names) == {"slow_start", "recovery", "congestion_avoidance"}
    # CUBIC is not paced.
    assert traced.frame.filter(event="pacing_rate_bps").is_empty()
    assert traced.frame.filter(event="max_bw_bps").is_empty()


def test_written_states_are_read_again_and_drawn(tmp_path: Path) -> None:
    traced = bbr3()
    traced.write(tmp_path)
    again = lasthop.Trace.read(tmp_path)
    assert phases(again) == phases(traced)
    figure = lasthop.plot(traced, kind="series", y=["max_bw_bps", "phase"])
    upper, lower = figure.axes
    assert upper.get_ylabel() == "Bandwidth estimate\n(bit/s)"
    assert [label.get_text() for label in lower.get_yticklabels()][:2] == ["startup", "drain"]


def test_pacing_rates_of_quic_are_in_its_qlog(tmp_path: Path) -> None:
    scenario = lasthop.Scenario.from_toml(BASE).with_(
        {"flow.f.transport": {"kind": "quic"}, "flow.f.app.size": "1 MB"}
    )
    write_qlog(scenario, tmp_path / "q.sqlog")
    records = (tmp_path / "q.sqlog").read_text().split("\x1e")[1:]
    metrics = [json.loads(one)["data"] for one in records if "metrics_updated" in one]
    assert any("congestion_window" in one for one in metrics)
