"""Adaptive media sources (NADA, RFC 8698) over simulated links."""

from pathlib import Path

import pytest

import lasthop

ROOT = Path(__file__).parent.parent
BASE = """
name = "nada"
[link.path]
between = ["server", "phone"]
rate = "1 Mbps"
delay = "50 ms"
queue = "37500 B"
[flow.call]
from = "server"
to = "phone"
transport = "udp"
app = { kind = "nada" }
[run]
duration = "120 s"
seed = 1
"""


def scenario(tmp_path: Path, text: str = BASE) -> lasthop.Scenario:
    """Writes and loads a scenario."""
    path = tmp_path / "nada.toml"
    path.write_text(text, encoding="utf-8")
    return lasthop.load(path)


def value(results: lasthop.Results, name: str, flow: str = "call") -> float:
    """Returns a metric of the only replication."""
    return float(results.samples(f"flow.{flow}.{name}", 0, censored=True)[0])


def test_a_flow_alone_settles_at_the_delay_of_the_equations(tmp_path: Path) -> None:
    results = lasthop.run(scenario(tmp_path), replications=1)
    # 50 ms of propagation, 8 ms of transmission, and 10 ms * 1.5 Mbps / 1 Mbps of queueing.
    assert value(results, "delay_p50_s") == pytest.approx(0.073, abs=0.004)
    assert value(results, "target_rate_bps") == pytest.approx(1e6, rel=0.05)
    assert value(results, "residual_loss") == 0.0


def test_a_flow_below_the_capacity_sends_at_its_maximum(tmp_path: Path) -> None:
    fast = scenario(tmp_path).with_({"link.path.rate": "10 Mbps"})
    results = lasthop.run(fast, replications=1)
    # The received rate of 500 ms grows by gamma = 0.05/(0.101 + 0.1 + 0.12) = 15.6 %: from 150 kbps
    # to 1.5 Mbps in 15.9 windows, 7.9 s with a mean of 586 kbps.
    assert value(results, "target_rate_bps") == pytest.approx(1.44e6, rel=0.02)
    assert value(results, "delay_p99_s") < 0.052


def test_losses_reduce_the_rate(tmp_path: Path) -> None:
    rates = []
    for loss in ("0 %", "2 %", "10 %"):
        errors = {
            "link.path.rate": "10 Mbps",
            "link.path.errors": {"kind": "uniform", "loss": loss},
        }
        results = lasthop.run(scenario(tmp_path).with_(errors), replications=1)
        rates.append(value(results, "target_rate_bps"))
    # At 2 %, windows of 500 ms without losses end the reduction; at 10 % there are few, and the
    # penalty of 1 s exceeds 10 ms * 1.5 Mbps / r at any rate.
    assert rates[0] > rates[1] > rates[2]
    assert rates[2] < 1.2 * 150e3


def test_two_flows_share_a_link(tmp_path: Path) -> None:
    second = BASE[BASE.index("[flow.call]") : BASE.index("[run]")].replace("call", "other")
    text = BASE.replace("[run]", second + "[run]").replace('"1 Mbps"', '"2 Mbps"')
    results = lasthop.run(scenario(tmp_path, text), replications=1)
    rates = [value(results, "goodput_bps", flow) for flow in ("call", "other")]
    assert sum(rates) == pytest.approx(2e6, rel=0.1)
    assert min(rates) > 0.8 * max(rates)


def test_the_example_follows_its_capacity() -> None:
    results = lasthop.run(lasthop.load(ROOT / "examples" / "adaptive-media.toml"), replications=1)
    # Capacity up to the maximum rate: 1 Mbps for 60 s, 1.5 Mbps for 20 s, 0.6 Mbps for 20 s.
    assert value(results, "target_rate_bps") == pytest.approx(1.02e6, rel=0.15)


def test_a_minimum_above_the_maximum_is_rejected(tmp_path: Path) -> None:
    wrong = {"flow.call.app.min_rate": "2 Mbps"}
    with pytest.raises(lasthop.ScenarioError, match=r"flow\.call\.app\.min_rate: .*max_rate"):
        scenario(tmp_path).with_(wrong).points()
