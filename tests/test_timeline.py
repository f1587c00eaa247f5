"""Timelines: changes of links at given times, as steps of their rates and delays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lasthop
from lasthop.scenarios import timeline
from lasthop.scenarios.arguments import ArgumentError

SCENARIO = """
name = "timeline"
[link.a]
between = ["server", "base"]
rate = "10 Mbps"
delay = "5 ms"
[link.b]
between = ["base", "client"]
rate = "2 Mbps"
delay = "20 ms"
reverse = { rate = "1 Mbps" }
[flow.f]
from = "server"
to = "client"
transport = { kind = "udp" }
app = { kind = "on-off", rate = "800 kbps", on = "1 h", off = "1 ns", packet = "1000 B" }
[run]
duration = "10 s"
"""


def changed(tmp_path: Path, text: str, scenario: str = SCENARIO) -> lasthop.Scenario:
    """The scenario with a timeline."""
    path = tmp_path / "changes.txt"
    path.write_text(text)
    return timeline.apply(lasthop.Scenario.from_toml(scenario), timeline.read(path))


def test_changes_become_steps(tmp_path: Path) -> None:
    text = """
    # A comment.
    2 s     set link.b.rate=500 kbps link.b.delay=80ms
    1.5 s   down 250 ms b   # before the first line
    4s      down 1 s
    """
    links = changed(tmp_path, text).to_dict()["link"]
    ms = "000000 ns"
    down = [[f"4000{ms}", "0 bps"], [f"5000{ms}", "10 Mbps"]]
    assert links["a"]["rate"] == {"kind": "steps", "at": [["0 ns", "10 Mbps"], *down]}
    assert links["a"]["delay"] == "5 ms"
    early = [["0 ns", "2 Mbps"], [f"1500{ms}", "0 bps"], [f"1750{ms}", "2 Mbps"]]
    late = [[f"2000{ms}", "500 kbps"], [f"4000{ms}", "0 bps"], [f"5000{ms}", "500 kbps"]]
    assert links["b"]["rate"]["at"] == [*early, *late]
    assert links["b"]["delay"]["at"] == [["0 ns", "20 ms"], [f"2000{ms}", "80ms"]]
    # The reverse direction has its own rate, which only interruptions change.
    values = [value for _, value in links["b"]["reverse"]["rate"]["at"]]
    assert values == ["1 Mbps", "0 bps", "1 Mbps", "0 bps", "1 Mbps"]


def test_a_simulation_follows_the_timeline(tmp_path: Path) -> None:
    def delivered(text: str) -> float:
        scenario = changed(tmp_path, text).with_({"link.b.queue": "10 packets"})
        rows = lasthop.run(scenario, replications=1).summary().iter_rows(named=True)
        return float(next(row["mean"] for row in rows if row["metric"] == "flow.f.goodput_bps"))

    # 800 kbps; for half of the time the link has 80 kbps, or is down with a queue of 10 packets.
    free = delivered("1 s set link.b.rate=3 Mbps")
    assert free == pytest.approx(800e3, rel=0.05)
    assert delivered("5 s set link.b.rate=80 kbps") == pytest.approx(440e3, rel=0.08)
    assert delivered("5 s down 5 s b") == pytest.approx(400e3, rel=0.08)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("set link.b.rate=1 Mbps", "changes.txt:1"),
        ("1 s put link.b.rate=1 Mbps", "expected `TIME set"),
        ("1 s set link.b.queue=3", "expected `TIME set"),
        ("1 s down soon", "changes.txt:1"),
        ("1 s down 2 s c", "unknown link `c`"),
        ("1 s set link.c.rate=1 Mbps", "unknown link `c`"),
        ("1 s set link.b.rate=1 s", "link.b.rate"),
    ],
)
def test_malformed_lines_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises((ArgumentError, lasthop.ScenarioError)) as refused:
        changed(tmp_path, text).points()
    assert words in str(refused.value)


def test_repeated_rates_are_refused(tmp_path: Path) -> None:
    steps = '{ kind = "steps", at = [["0 s", "1 Mbps"], ["1 s", "2 Mbps"]], repeat = "3 s" }'
    text = SCENARIO.replace('"10 Mbps"', steps)
    with pytest.raises(ArgumentError, match=r"link\.a\.rate.*repeated"):
        changed(tmp_path, "1 s down 1 s a", text)
    # Steps without repetition are extended.
    text = SCENARIO.replace('"10 Mbps"', steps.replace(', repeat = "3 s"', ""))
    at = changed(tmp_path, "2 s down 1 s a", text).to_dict()["link"]["a"]["rate"]["at"]
    assert [value for _, value in at] == ["1 Mbps", "2 Mbps", "0 bps", "2 Mbps"]


def test_the_command_names_the_file(tmp_path: Path) -> None:
    path, lines = tmp_path / "s.toml", tmp_path / "changes.txt"
    path.write_text(SCENARIO)
    command = [sys.executable, "-m", "lasthop", "run", str(path), "--timeline", str(lines)]
    missing = subprocess.run(command, capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert f"cannot read `{lines}`" in missing.stderr
    lines.write_text("1 s down\n")
    wrong = subprocess.run(command, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "changes.txt:1: invalid change `1 s down`" in wrong.stderr
