"""Wireless LANs from Python: the starter, its explanation, theory compared with results."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import lasthop
from lasthop import analysis
from lasthop.scenarios.explain import explain
from lasthop.scenarios.starter import starter


def saturated(stations: int, seconds: int = 20) -> lasthop.Scenario:
    """Stations that send 1000 B datagrams to their access point and saturate the medium."""
    names = [f"s{number}" for number in range(stations)]
    app = {
        "kind": "on-off",
        "rate": "8 Mbps",
        "on": "1000000 s",
        "off": "0 s",
        "packet": "1000 B",
    }
    return lasthop.Scenario(
        {
            "name": "saturated",
            "wlan": {"cell": {"access_point": "ap", "stations": names}},
            "flow": {
                name: {"from": name, "to": "ap", "transport": {"kind": "udp"}, "app": app}
                for name in names
            },
            "run": {"duration": f"{seconds} s", "replications": 2},
        }
    )


def test_starter_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "cell.toml"
    path.write_text(starter("wlan", "cell"))
    scenario = lasthop.load(path)
    explained = explain(scenario)
    assert "WLAN cell: 802.11b on channel cell, ap and 2 stations" in explained
    assert "slots of 20 us, SIFS 10 us, DIFS 50 us, EIFS 364 us" in explained
    assert "laptop --+-- ap" in explained
    resolved = json.loads(scenario.points()[0].resolved())
    assert resolved["links"]["cell.phone"]["wlan"] == "cell"


def test_positions_are_drawn_and_bar_the_model_of_cells_that_hear_each_other() -> None:
    scenario = saturated(2)
    ends = scenario.to_dict()["wlan"]["cell"]["stations"]
    places = {ends[0]: {"x": "0 m"}, ends[1]: {"x": "400 m", "y": "30 m"}}
    placed = scenario.with_(
        {
            "wlan.cell.x": "200 m",
            "wlan.cell.carrier_sense_range": "300 m",
            "wlan.cell.station": places,
        }
    )
    explained = explain(placed)
    assert f"do not sense each other: {ends[0]} and {ends[1]} (401.1 m)" in explained
    ranges = "transmission range 250 m, carrier-sense range 300 m, interference range 300 m"
    assert ranges in explained
    assert "| 400 m" in explained
    results = lasthop.run(placed.with_({"run.duration": "1 s"}))
    table = lasthop.compare_theory(results)
    assert "wlan.cell.collision_probability" not in table["metric"].to_list()


def test_saturation_by_the_model() -> None:
    table = analysis.dcf_saturation([1, 10, 50], limit=None, counting="always")
    # Bianchi's equation (7) with W = 32, m = 5 for a single station: 2 / (W + 1).
    assert table["transmission_probability"][0] == pytest.approx(2 / 33)
    assert table["collision_probability"].is_sorted()
    for row in table.to_dicts():
        assert row["success"] + row["collision"] + row["idle"] == pytest.approx(1.0)
    with pytest.raises(analysis.AnalysisError, match="standard: found"):
        analysis.dcf_saturation([2], standard="802.11x")
    with pytest.raises(analysis.AnalysisError, match="rate: found 10 Mbps; expected 1 Mbps"):
        analysis.dcf_saturation([2], rate_bps=10e6)
    with pytest.raises(analysis.AnalysisError, match="rate: found 0 bps; expected 1 Mbps"):
        analysis.dcf_saturation([2], rate_bps=0)


def test_results_meet_the_model() -> None:
    results = lasthop.run(saturated(5))
    table = lasthop.compare_theory(results)
    assert "wlan.cell.collision_probability" in table["metric"].to_list()
    (row,) = analysis.dcf_saturation([5]).to_dicts()
    flows = results.frame.filter(pl.col("kind") == "flow")
    assert 5 * flows["goodput_bps"].to_numpy().mean() == pytest.approx(
        row["throughput_bps"], rel=0.01
    )
    cells = results.frame.filter(pl.col("kind") == "wlan")
    shares = cells.select("^airtime_(success|collision|error|idle)$")
    assert shares.width == 4
    assert shares.sum_horizontal().to_list() == pytest.approx([1.0, 1.0])


def test_loss_notification_by_the_paper() -> None:
    table = analysis.notification_load([0.2], [2])
    (row,) = table.to_dicts()
    loads = [100 * row[name] for name in ("ersn_printed", "ersn", "eln")]
    assert loads == pytest.approx([3.261, 3.333, 0.667], abs=6e-4)
    delays = analysis.notification_delay(20e-3, data_loss=0.05, ack_loss=0.05)
    assert delays["scheme"].to_list() == ["balakrishnan", "hack", "lhp", "ll-elsn"]
    assert delays["uplink_s"][3] == 0.0
    assert delays["downlink_s"][0] == pytest.approx(20e-3 + 2.33e-3 / 0.95)
    assert analysis.losses_in_a_row(0.2) == 2
    with pytest.raises(analysis.AnalysisError, match="a probability below 1"):
        analysis.notification_load([1.0], [2])


def test_a_ladder_shows_backoff_collisions_and_reserved_air() -> None:
    flow = {
        "from": "a",
        "to": "ap",
        "transport": {"kind": "udp"},
        "app": {
            "kind": "on-off",
            "rate": "8 Mbps",
            "on": "100 s",
            "off": "0 s",
            "packet": "1000 B",
        },
    }
    scenario = lasthop.Scenario(
        {
            "name": "two stations",
            "wlan": {"cell": {"access_point": "ap", "stations": ["a", "b"]}},
            "flow": {"a": flow, "b": flow | {"from": "b"}},
            "run": {"duration": "1 s"},
        }
    )
    trace = lasthop.trace(scenario)
    own = trace.frame.filter(pl.col("entity") == "link.cell.a.forward")
    draws = own.filter(pl.col("event") == "backoff")
    assert draws.height > 200
    assert (draws["sequence"] >= 0).all()
    assert (draws["sequence"] <= draws["value"]).all()
    assert {31.0, 63.0} <= set(draws["value"])
    # Data frames reserve SIFS and an ACK at 2 Mbps: 10 + 192 + 56 us.
    reserved = own.filter(pl.col("event") == "nav")["value"]
    assert reserved.to_numpy() == pytest.approx(258e-6)
    clash = own.filter(pl.col("event") == "collided")["time_s"][0]
    figure = trace.plot_link("cell.a", start=clash - 0.004, end=clash + 0.008)
    (axes,) = figure.axes
    words = [text.get_text() for text in axes.texts]
    assert "collision" in words
    assert any(word.startswith("backoff") for word in words)
    (legend,) = figure.legends
    assert "medium reserved (NAV)" in [text.get_text() for text in legend.get_texts()]


def anomaly(on: str, off: str, rate: str) -> list[float]:
    """Goodputs in Mbps of a fast and a slow station of 802.11n that share the queue of the AP."""
    app = {"kind": "on-off", "rate": rate, "on": on, "off": off, "packet": "1500 B"}
    flow = {"from": "ap", "transport": {"kind": "udp"}, "app": app}
    cell: dict[str, object] = {
        "access_point": "ap",
        "stations": ["fast", "slow"],
        "standard": "802.11n",
    }
    cell |= {"max_ampdu": "0 B", "station": {"slow": {"mcs": 0}}}
    scenario = lasthop.Scenario(
        {
            "name": "anomaly",
            "wlan": {"cell": cell},
            "flow": {name: flow | {"to": name} for name in ("fast", "slow")},
            "run": {"duration": "30 s"},
        }
    )
    means = lasthop.run(scenario, replications=4).point_intervals(0)
    return [means[f"flow.{name}.goodput_bps"].mean / 1e6 for name in ("fast", "slow")]


def test_a_fifo_gives_all_stations_the_rate_of_the_slowest() -> None:
    """Alternate PPDUs of 1538 B: 228 and 1936 us, each with SIFS, Ack, AIFS and 7.5 slots.

    Acks take 28 us at 24 Mbps and 44 us at 6 Mbps.
    """
    cycles = 228 + 28 + 1936 + 44 + 2 * (16 + 43 + 67.5)
    expected = 1500 * 8 / cycles
    for found in anomaly("exp 3 ms", "exp 1 ms", "40 Mbps"):
        assert found == pytest.approx(expected, rel=0.02)


def test_flows_of_one_constant_rate_do_not_share_a_full_queue_equally() -> None:
    """Phase effect: packets of one flow always arrive just after a place becomes free."""
    fast, slow = anomaly("1000000 s", "0 s", "30 Mbps")
    assert fast > 3 * slow


def test_packets_of_all_access_categories_are_traced() -> None:
    scenario = lasthop.Scenario.from_toml("""
        name = "categories"
        [wlan.cell]
        access_point = "ap"
        stations = ["a"]
        standard = "802.11n"
        edca = true
        [flow.call]
        from = "a"
        to = "ap"
        dscp = "EF"
        transport = { kind = "udp" }
        app = { kind = "media", rate = "80 kbps", packet = "200 B", silence = "0 s" }
        [flow.down]
        from = "ap"
        to = "a"
        transport = { kind = "tcp", variant = "cubic" }
        app = { kind = "file", size = "1 MB" }
        [run]
        duration = "1 s"
    """)
    frame = lasthop.trace(scenario).frame
    own = frame.filter(pl.col("entity") == "link.cell.a.forward")
    # 50 packets of the call, and the acknowledgments of the file.
    assert own.filter(pl.col("event") == "delivered").height > 60
