"""Comparison with a kernel, `lasthop live --compare`: cells, and transfers of a late driver."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lasthop import ScenarioError
from lasthop.commands import live as command
from lasthop.running.live import compare as module
from lasthop.running.live.compare import (
    Cell,
    compare,
    drain_time,
    lateness_limits,
    propagation_time,
    transfer,
)
from lasthop.scenarios.scenario import Scenario
from test_live import why_not

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


def _known() -> str:
    file = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    return file.read_text("ascii") if file.exists() else ""


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


@pytest.mark.parametrize(
    ("changes", "drain_s"),
    [
        # 10 packets of 1500 B, or 20 kB, at 2 Mbps.
        ({"link.l.queue": "10 packets"}, 0.06),
        ({"link.l.queue": "20 kB"}, 0.08),
        ({"link.l.queue": {"kind": "fq-codel"}}, math.inf),
        ({"link.l.rate": "unlimited"}, math.inf),
        # The queue of ACKs is not on the path.
        ({"link.l.queue": "10 packets", "link.l.reverse.queue": "1 packets"}, 0.06),
        ({"link.l.rate": {"kind": "steps", "at": [["0 s", "4 Mbps"], ["9 s", "1 Mbps"]]}}, None),
    ],
)
def test_the_drain_time_is_that_of_the_smallest_queue(
    changes: dict[str, Any], drain_s: float | None
) -> None:
    point = Scenario.from_toml(TEXT).with_(changes).points()[0]
    resolved = json.loads(point.resolved())
    if drain_s is None:
        own = resolved["links"]["l"]["forward"]
        drain_s = 8 * 1500 * own["queue"]["packets"] / own["rate"]
    assert drain_time(resolved, "f") == pytest.approx(drain_s)


def test_the_propagation_time_is_that_of_all_links_of_the_path() -> None:
    text = (
        TEXT.replace('["a", "b"]', '["a", "router"]')
        + """
[link.near]
between = ["router", "b"]
rate = "1 Gbps"
delay = "1 us"
reverse = { delay = "2 ms" }
"""
    )
    resolved = json.loads(Scenario.from_toml(text).points()[0].resolved())
    assert propagation_time(resolved, "f") == pytest.approx(0.04 + 0.002001)


def test_lateness_is_compared_with_round_trip_and_queue() -> None:
    limits = {"p99_s": 0.002, "max_s": 0.015, "programs_s": 0.01}
    assert lateness_limits(0.04, 0.06) == pytest.approx(limits)
    # After an RTT, tail probes are sent.
    assert lateness_limits(0.04, math.inf) == pytest.approx({**limits, "max_s": 0.04})


class Transfers:
    """Transfers in place of the kernel's: the first ones of each replication are disturbed."""

    def __init__(self, disturbed: int) -> None:
        self.disturbed = disturbed
        self.counts: dict[int, int] = {}

    def __call__(self, _: Cell, replication: int, seed: int | None, spin_s: float) -> Any:
        count = self.counts[replication] = self.counts.get(replication, 0) + 1
        # Goodput is lower without a disturbance, and must not matter.
        is_disturbed = count <= self.disturbed
        counters = dict.fromkeys(module.METRICS, 0.0)
        goodput = 2e6 if is_disturbed else 1e6
        return {**counters, "goodput_bps": goodput, "disturbed": is_disturbed}


@pytest.mark.skipif("reno" not in _known(), reason="this kernel does not list Reno")
@pytest.mark.parametrize(
    ("disturbed", "retries", "counts", "left"),
    [(0, 3, 1, 0), (2, 3, 3, 0), (2, 1, 2, 3), (1, 0, 1, 3)],
)
def test_disturbed_transfers_are_repeated_and_counted(
    monkeypatch: pytest.MonkeyPatch, disturbed: int, retries: int, counts: int, left: int
) -> None:
    transfers = Transfers(disturbed)
    monkeypatch.setattr(module, "transfer", transfers)
    result = compare(Scenario.from_toml(TEXT), replications=3, retries=retries)
    (point,) = result["points"]
    assert transfers.counts == dict.fromkeys(range(3), counts)
    assert (point["disturbed"], point["repetitions"]) == (left, 3 * (counts - 1))
    for row in point["replications"]:
        earlier = row["live"]["earlier"]
        assert [one["goodput_bps"] for one in earlier] == [2e6] * (counts - 1)
    last = module.table(result).splitlines()[-1]
    repeated = f", {3 * (counts - 1)} repeated" if counts > 1 else ""
    assert last.endswith(f" | {left} of 3{repeated} |")


@pytest.mark.skipif("reno" not in _known(), reason="this kernel does not list Reno")
@pytest.mark.parametrize("disturbed", [0, 1])
def test_one_warning_names_the_remedies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], disturbed: int
) -> None:
    monkeypatch.setattr(module, "transfer", Transfers(disturbed))
    code = command._compare(
        Scenario.from_toml(TEXT), 2, seed=1, jobs=1, spin_s=0, retries=0, out=None, quiet=False
    )
    errors = capsys.readouterr().err
    lines = [line for line in errors.splitlines() if "disturbed" in line]
    assert code == 0
    assert len(lines) == disturbed
    for word in ["2 of 2 transfers", "--spin", "chrt", "idle machine"] if disturbed else []:
        assert word in lines[0]


def children(processes: list[str]) -> list[str]:
    """The children of processes; the driver is a child of the launcher, its child."""
    found = []
    for process in processes:
        for file in Path(f"/proc/{process}/task").glob("*/children"):
            found += file.read_text().split()
    return found


def stalls(generation: int, until: Callable[[], bool]) -> None:
    """Stops descendants of this process again and again, for 0.2 s each."""
    while not until():
        processes = ["self"]
        for _ in range(generation):
            processes = children(processes)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGSTOP)
                time.sleep(0.2)
                os.kill(int(process), signal.SIGCONT)
        time.sleep(0.3)


@pytest.mark.slow
@pytest.mark.skipif("reno" not in _known(), reason="this kernel does not list Reno")
@pytest.mark.parametrize(
    ("generation", "late"),
    [(2, "lateness_max_s"), (3, "lateness_programs_s")],
    ids=["driver", "programs"],
)
def test_a_stalled_transfer_is_disturbed(generation: int, late: str) -> None:
    if reason := why_not():
        pytest.skip(reason)
    cell = Cell(Scenario.from_toml(TEXT).points()[0], ".")
    found: list[dict[str, Any]] = []
    runner = threading.Thread(target=lambda: found.append(transfer(cell, 0, 1)))
    runner.start()
    stalls(generation, lambda: not runner.is_alive())
    runner.join()
    (result,) = found
    limits = {"p99_s": 0.05 * 0.04616, "max_s": 0.04616, "programs_s": 0.25 * 0.04616}
    assert result["lateness_limits"] == pytest.approx(limits)
    assert result["disturbed"]
    assert 0.15 < result[late] < 5
    assert result["lateness_p99_s"] <= result["lateness_max_s"]
