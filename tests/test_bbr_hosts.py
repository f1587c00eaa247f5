"""Conditions of hosts on which measurements of BBR depend (docs/tcp/bbr.md)."""

import pytest

import lasthop

TEXT = """
name = "t"
[link.air]
between = ["server", "client"]
rate = "100 Mbps"
delay = "50 ms"
queue = "5000 packets"
errors = { kind = "uniform", loss = "10 %" }
[flow.f]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "bbr", profile = "linux", receive_window = "2000 segments" }
app = { kind = "file", size = "10 GB" }
[run]
duration = "30 s"
"""


def goodput(window: str) -> float:
    """Mean goodput in Mbps of four replications."""
    scenario = lasthop.Scenario.from_toml(TEXT).with_({"flow.f.transport.receive_window": window})
    results = lasthop.run(scenario, replications=4, seed=1)
    return float(results.samples("flow.f.goodput_bps", 0).mean() / 1e6)


@pytest.mark.slow
def test_losses_require_a_receive_window_of_several_round_trips() -> None:
    # 2000 segments are more than two bandwidth-delay products; 6000 are seven.
    small, large = goodput("2000 segments"), goodput("6000 segments")
    assert 33 < small < 46
    assert 55 < large < 68


SHALLOW = """
name = "t"
[link.air]
between = ["server", "client"]
rate = "1 Gbps"
delay = "10 ms"
queue = "1 MB"
[flow.b]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "bbr", profile = "linux" }
app = { kind = "file", size = "100 GB" }
[flow.c]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "cubic", profile = "linux" }
app = { kind = "file", size = "100 GB" }
[run]
duration = "6 s"
"""


def test_segmentation_offload_multiplies_the_retransmissions_in_a_shallow_queue() -> None:
    scenario = lasthop.Scenario.from_toml(SHALLOW)
    keys = {f"flow.{name}.transport.segmentation_offload": False for name in "bc"}
    by_default, without = (
        lasthop.run(one, replications=1, seed=1).samples("flow.b.retransmissions", 0)[0]
        for one in (scenario, scenario.with_(keys))
    )
    assert by_default > 5 * without
    assert without < 10_000
