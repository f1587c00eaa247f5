"""Cells of `lasthop live --compare`: kernel and simulation send packets of equal size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lasthop import ScenarioError
from lasthop.running.live.compare import Cell
from lasthop.scenarios.scenario import Scenario

TEXT = """
name = "x"
[link.l]
between = ["a", "b"]
rate = "2 Mbps"
delay = "20 ms"
[flow.f]
from = "a"
to = "b"
transport = { kind = "tcp", variant = "reno", profile = "linux" }
app = { kind = "file", size = "1 MB" }
"""


@pytest.mark.parametrize(
    ("changes", "mtu"),
    [
        ({}, 1500),
        ({"flow.f.transport.timestamps": False}, 1500),
        ({"flow.f.transport.segment": "500 B"}, 552),
        ({"flow.f.transport.segment": "1460 B", "link.l.mtu": "9 kB"}, 1512),
    ],
)
def test_packets_of_the_kernel_are_as_large_as_those_of_the_simulation(
    changes: dict[str, Any], mtu: int
) -> None:
    if "reno" not in _known():
        pytest.skip("this kernel does not list Reno")
    cell = Cell(Scenario.from_toml(TEXT).with_(changes).points()[0], ".")
    resolved = json.loads(cell.scenario.points()[0].resolved())
    assert resolved["links"]["l"]["mtu"] == mtu
    assert resolved["flows"]["f"]["packets"][0] == mtu


def test_a_segment_larger_than_the_mtu_is_rejected() -> None:
    with pytest.raises(ScenarioError, match=r"packets of 1.512 kB.*up to link.l.mtu, 1.5 kB"):
        Scenario.from_toml(TEXT).set("flow.f.transport.segment", "1460 B").points()


def _known() -> str:
    file = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    return file.read_text("ascii") if file.exists() else ""
