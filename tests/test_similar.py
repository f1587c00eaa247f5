"""Tables of many similar flows and links."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import lasthop
from lasthop.evaluating.similar import LIMIT, summarised
from lasthop.evaluating.statistics import jain_index
from lasthop.showing import terminal

LINK = """
name = "many"
[link.l]
between = ["a", "b"]
rate = "10 Mbps"
delay = "10 ms"
[run]
replications = 3
"""


def flow(name: str, size: str = "20 kB") -> str:
    return f"""
[flow.{name}]
from = "a"
to = "b"
transport = {{ kind = "tcp", variant = "sack", profile = "rfc" }}
app = {{ kind = "file", size = "{size}" }}
"""


def results(count: int, *more: str) -> lasthop.Results:
    text = LINK + "".join(flow(f"f{index}") for index in range(count)) + "".join(more)
    return lasthop.run(lasthop.Scenario.from_toml(text))


def test_similar_flows_become_their_mean() -> None:
    found = results(LIMIT + 1, flow("large", "40 kB"))
    shown, (group,) = summarised(found)
    assert group.name == f"flow.f0…f{LIMIT}"
    assert group.members == tuple(f"flow.f{index}" for index in range(LIMIT + 1))
    names = [f"{member}.goodput_bps" for member in group.members]
    rates = np.stack([found.samples(name, 0) for name in names])
    assert np.allclose(shown.samples(f"{group.name}.goodput_bps", 0), rates.mean(axis=0))
    assert group.spread("goodput_bps", 0) == pytest.approx(rates.mean(axis=1).std(ddof=1))
    worst = int(rates.mean(axis=1).argmin())
    assert group.worst("goodput_bps", 0) == (rates.mean(axis=1)[worst], f"f{worst}")
    assert group.worst("segments_sent", 0) is None, "neither few nor many are preferred"
    assert group.jain(0) == pytest.approx(jain_index(rates, axis=0).mean())
    kept = [name for name in found.metrics if not name.startswith(tuple(group.members))]
    kept += [name for name in found.metrics if name.startswith("flow.large.")]
    assert set(kept) <= set(shown.metrics)
    assert shown.samples("flow.large.goodput_bps", 0) == pytest.approx(
        found.samples("flow.large.goodput_bps", 0)
    )


def test_few_flows_are_shown_one_by_one() -> None:
    found = results(LIMIT)
    assert summarised(found) == (found, [])


def test_a_flow_whose_key_is_swept_is_shown_by_itself() -> None:
    sweep = '\n[sweep]\n"flow.f3.app.size" = ["10 kB", "20 kB"]\n'
    found = results(LIMIT + 2, sweep)
    shown, (group,) = summarised(found)
    assert len(group.members) == LIMIT + 1
    assert "flow.f3.goodput_bps" in shown.metrics
    assert len(next(terminal.show_similar(found, [group])).rows) == 2


def test_stations_of_a_wlan_are_similar() -> None:
    stations = [f"s{index}" for index in range(LIMIT + 1)]
    listed = ", ".join(f'"{one}"' for one in stations)
    flows = "".join(
        f'[flow.{one}]\nfrom = "{one}"\nto = "ap"\ntransport = {{ kind = "udp" }}\n'
        'app = { kind = "on-off", rate = "100 kbps", packet = "500 B", on = "1 s", off = "1 s" }\n'
        for one in stations
    )
    text = (
        f'name = "w"\n[wlan.cell]\nstandard = "802.11b"\naccess_point = "ap"\n'
        f'stations = [{listed}]\n{flows}[run]\nduration = "1 s"\nreplications = 2\n'
    )
    found = lasthop.run(lasthop.Scenario.from_toml(text))
    shown, groups = summarised(found)
    assert {group.name.partition(".")[0] for group in groups} == {"flow", "link"}
    assert {len(group.members) for group in groups} == {LIMIT + 1}
    assert len(shown.metrics) < len(found.metrics) / LIMIT + 20
    assert any(name.startswith("link.cell.s0…s10.forward.") for name in shown.metrics)


def test_a_thousand_flows_are_printed_within_a_second() -> None:
    found = results(1000)
    begin = time.process_time()
    shown, groups = summarised(found)
    tables = [terminal.show_results(shown, (), groups), *terminal.show_similar(found, groups)]
    text = io.StringIO()
    for table in tables:
        Console(file=text, width=200).print(table)
    assert time.process_time() - begin < 1.0
    assert text.getvalue().count("\n") < 60


@pytest.mark.slow
def test_all_prints_each(tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    file.write_text(LINK + "".join(flow(f"f{index}") for index in range(LIMIT + 1)))
    command = [sys.executable, "-m", "lasthop", "run", str(file)]
    few = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "flow.f0…f10.goodput_bps" in few.stdout
    assert "flow.f3.goodput_bps" not in few.stdout
    assert "flow.f0…f10 summarises 11 similar flows or links; --all prints each" in few.stderr
    every = subprocess.run([*command, "--all"], capture_output=True, text=True, check=True)
    assert "flow.f3.goodput_bps" in every.stdout
    assert "similar" not in every.stdout + every.stderr
    some = subprocess.run(
        [*command, "--metric", "flow.f1*.goodput_bps"], capture_output=True, text=True, check=True
    )
    assert "flow.f10.goodput_bps" in some.stdout
