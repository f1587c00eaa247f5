"""Results of live runs: lines of JSON, reports, expectations, JUnit XML, repeated runs.

The first part needs no live link. The tests marked slow run programs and are skipped where that is
not permitted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lasthop.running.live.expect import find, parse
from lasthop.running.live.junit import junit
from lasthop.running.live.outcome import Outcome
from lasthop.running.live.repeated import differences, read_summaries, statistics
from lasthop.running.live.session import with_flow, without_flow
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.scenario import Scenario
from lasthop.showing.live_timeline import conversation_name
from test_live import live, scenario, why_not

LINKS = {"core": {"between": ["a", "b"]}, "radio": {"between": ["b", "c"]}}


def part(value: float) -> dict[str, float]:
    """Statistics of a delay."""
    return {"n": 9, **{f"{name}_s": value for name in ("mean", "p50", "p90", "p95", "p99", "max")}}


def direction(link: str, way: str, delay: float, delivered: int) -> dict[str, Any]:
    """A direction of a summary."""
    counts = dict.fromkeys(("offered", "delivered", "drops", "retransmissions"), delivered)
    return {
        "link": link,
        "direction": way,
        "goodput_bps": 8.0 * delivered,
        "delivered_bytes": delivered,
        "delay": part(delay),
        "queueing": None,
        "frames": 200,
        "lost": 10,
        "repaired": 9,
        "discarded": 1,
        **counts,
    }


def run(replication: int = 0, code: int = 0, delay: float = 0.2) -> dict[str, Any]:
    """A summary: the link `core` carries more bytes, `radio` delays them longer."""
    return {
        "kind": "summary",
        "complete": True,
        "time": 10.0,
        "code": code,
        "programs": [],
        "directions": [
            direction("core", "forward", 0.01, 1_000_000),
            direction("core", "reverse", 0.01, 1_000),
            direction("radio", "forward", delay, 900_000),
            direction("radio", "reverse", 0.05, 1_000),
        ],
        "round_trips": {"core": part(0.02), "radio": part(delay + 0.05)},
        "changes": [],
        "seed": 1,
        "replication": replication,
    }


@pytest.mark.parametrize(
    ("text", "met", "found"),
    [
        # Without a place: the largest delay, and the rate of the busiest direction.
        ("delay_p95 < 200 ms", False, "200 ms (link.radio.forward)"),
        ("delay_p95 <= 200 ms", True, "200 ms (link.radio.forward)"),
        ("core.delay_p95 < 0.2 s", True, "10 ms (link.core.forward)"),
        ("link.radio.reverse.delay_max>40ms", True, "50 ms (link.radio.reverse)"),
        ("rtt_p50 < 1 s", True, "250 ms (link.radio)"),
        ("goodput > 8 Mbps", False, "8.00 Mbps (link.core.forward)"),
        ("radio.goodput >= 7.2 Mbps", True, "7.20 Mbps (link.radio.forward)"),
        ("loss = 5 %", True, "5 % (link.core.forward)"),
        ("discarded < 1", False, "1 (link.core.forward)"),
        ("exit = 0", True, "0"),
        ("exit != 0", False, "0"),
        ("duration <= 10 s", True, "10 s"),
    ],
)
def test_expectations_read_the_summary(text: str, met: bool, found: str) -> None:
    finding = find(parse(text, LINKS), [run()])
    assert (finding.met, finding.found) == (met, found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("delay_p95", "expected NAME < VALUE"),
        ("dely_p95 < 1 s", "did you mean `delay_p95`?"),
        ("radoi.delay_p95 < 1 s", "expected link.core, link.core.forward"),
        ("radio.exit = 0", "expected none"),
        ("radio.forward.rtt_p50 < 1 s", "expected link.core, link.radio"),
        ("delay_p95 < 200", "expected 200 ms"),
        ("goodput > 5 ms", "expected 5 Mbps"),
        ("exit = zero", "expected a number"),
    ],
)
def test_malformed_expectations_are_refused(text: str, words: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        parse(text, LINKS)
    assert words in str(refused.value)


def test_expectations_need_a_value() -> None:
    silent = run()
    for one in silent["directions"]:
        one["delay"] = None
    assert not find(parse("delay_p95 < 1 s", LINKS), [silent]).met
    assert not find(parse("delay_p95 < 1 s", LINKS), [run(), silent]).met


def test_the_mean_of_several_runs_decides() -> None:
    runs = [run(0, delay=0.1), run(1, delay=0.25), run(2, 7, delay=0.1)]
    finding = find(parse("delay_p95 < 200 ms", LINKS), runs)
    assert finding.met
    assert finding.found.startswith("mean 150 ms ± ")
    assert "2 of 3 runs" in finding.found
    # Each run must end with the exit code.
    finding = find(parse("exit = 0", LINKS), runs)
    assert (finding.met, finding.found) == (False, "7; 2 of 3 runs meet it")


def test_runs_are_paired_by_seed_and_replication(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    before = [run(0, delay=0.1), run(1, delay=0.3), {**run(2), "complete": False}]
    path.write_text("".join(json.dumps(one) + "\n" for one in [{"kind": "second"}, *before]))
    known = read_summaries(path)
    assert [one["replication"] for one in known] == [0, 1]
    found = differences([run(0, delay=0.11), run(1, delay=0.31), run(5, delay=9.0)], known)
    gap = next(one for one in found if one["name"] == "link.radio.forward.delay_p95")
    assert gap["n"] == 2
    assert gap["mean"] == pytest.approx(0.01)
    # The pairs differ by the same amount, so that the interval has no width.
    assert gap["ci95"] == pytest.approx(0.0, abs=1e-9)
    assert statistics(known)["link.radio.forward.delay_p95"]["mean"] == pytest.approx(0.2)
    with pytest.raises(ArgumentError, match="same `--seed`"):
        differences([run(7)], known)
    path.write_text('{"kind": "second"}\n')
    with pytest.raises(ArgumentError, match="no complete run"):
        read_summaries(path)
    path.write_text("no JSON\n")
    with pytest.raises(ArgumentError, match="line 1"):
        read_summaries(path)


def test_junit_counts_runs_and_expectations() -> None:
    failed = {**run(1, code=7), "failure": "exit code 7 \x1b[31m"}
    findings = [find(parse(text, LINKS), [run()]) for text in ("exit = 0", "delay_p95 < 1 ms")]
    suite = ElementTree.fromstring(junit("a & b", [run(), failed], findings).encode())
    assert (suite.get("tests"), suite.get("failures"), suite.get("name")) == ("4", "2", "a & b")
    cases = {case.get("name"): case.find("failure") for case in suite.iter("testcase")}
    assert cases["run 0"] is None
    assert cases["exit = 0"] is None
    assert cases["run 1"] is not None
    assert cases["delay_p95 < 1 ms"] is not None


def test_reports_omit_the_placeholder_of_a_scenario_without_flows() -> None:
    link = {"between": ["a", "b"], "rate": "1 Mbps", "delay": "5 ms"}
    tables = Scenario(with_flow({"name": "x", "link": {"l": link}})).to_dict()
    shown = without_flow(tables)
    assert shown["link"] == tables["link"]
    assert "flow" not in shown
    assert "duration" not in shown["run"]
    own = {**tables, "flow": {"mine": tables["flow"]["programs"]}}
    assert without_flow(own) == own


def test_conversations_of_both_families_have_different_labels() -> None:
    hosts = {"10.71.0.1": "server", "fd71::1": "server", "10.71.0.2": "client", "fd71::2": "client"}
    about = {"protocol": "tcp", "port": 80, "from_server": True}
    first = {**about, "from": "10.71.0.1", "to": "10.71.0.2"}
    second = {**about, "from": "fd71::1", "to": "fd71::2", "from_server": False}
    assert conversation_name(first, hosts) == "tcp server:80 → client"
    assert conversation_name(second, hosts) == "tcp server → client:80 (IPv6)"


@pytest.mark.slow
def test_long_runs_need_bounded_memory() -> None:
    outcome = Outcome()
    for number in range(50_000):
        one = {"rate_bps": 1.0, "delay_mean_s": None, "delay_max_s": number, "queue": number}
        outcome.add({"kind": "sample", "time": number / 10, "directions": [one]})
    assert len(outcome.samples) <= 12_000
    assert outcome.samples[-1]["time"] >= 4_999.0
    # The maximum of an interval survives.
    assert max(one["directions"][0]["delay_max_s"] for one in outcome.samples) >= 49_990


@pytest.fixture(name="permitted", scope="module")
def _permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


# Sends 40 datagrams of 500 B, 10 ms apart, to a host that counts them.
SEND = (
    "import socket,time; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
    "for k in range(120): s.sendto(k.to_bytes(4,'big')+bytes(496),('client',9)); time.sleep(.01)"
)


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_lines_and_summary_agree_with_the_traffic(tmp_path: Path) -> None:
    lines, report, xml = (tmp_path / name for name in ("a.jsonl", "a.html", "a.xml"))
    record = tmp_path / "a.rec"
    done = live(
        scenario(tmp_path, "raw"),
        *("--json", str(lines), "--report", str(report), "--junit", str(xml)),
        *("--record", str(record), "--expect", "exit = 0", "--expect", "delay_p95 > 5 ms"),
        *("--at", "server", "--", sys.executable, "-c", SEND),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    seconds, summary = rows[:-1], rows[-1]
    assert [one["kind"] for one in rows] == ["second"] * len(seconds) + ["summary"]
    forward = summary["directions"][0]
    # Raw: every lost frame is a lost packet. Nothing else is sent.
    assert (forward["offered"], forward["frames"]) == (120, 120)
    assert forward["delivered"] + forward["lost"] == 120
    assert (forward["discarded"], forward["repaired"]) == (forward["lost"], 0)
    assert forward["delay"]["n"] == forward["delivered"]
    # At least transmission and propagation: 528 B at 20 Mbps and 5 ms.
    assert forward["delay"]["p50_s"] >= 0.0052
    assert sum(one["directions"][0]["delivered"] for one in seconds) == forward["delivered"]
    [talk] = forward["conversations"]
    assert (talk["protocol"], talk["port"]) == ("udp", 9)
    assert talk["bytes"] == forward["delivered_bytes"] == 528 * forward["delivered"]
    assert summary["programs"][0]["code"] == 0
    suite = ElementTree.fromstring(xml.read_bytes())
    assert (suite.get("tests"), suite.get("failures")) == ("3", "0")
    page = report.read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "udp server → client:9" in page
    # A replay has the same results.
    again = tmp_path / "b.html"
    command = [sys.executable, "-m", "lasthop"]
    for words in (
        ["live", "--replay", str(record), "--report", str(again)],
        ["plot", str(record), "--out", str(tmp_path / "a.png")],
    ):
        subprocess.run([*command, *words], check=True, capture_output=True, timeout=120)
    assert "udp server → client:9" in again.read_text()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_a_missed_expectation_has_its_own_exit_code(tmp_path: Path) -> None:
    path = scenario(tmp_path)
    done = live(path, "--expect", "exit = 0", "--", "sh", "-c", "exit 3", cwd=tmp_path)
    assert done.returncode == 5
    assert "lasthop: not met: exit = 0: 3" in done.stderr
    # An expected exit code is a success.
    done = live(path, "--expect", "exit = 3", "--", "sh", "-c", "exit 3", cwd=tmp_path)
    assert done.returncode == 0
    refused = live(path, "--expect", "dely_p95 < 1 s", "--", "true", cwd=tmp_path)
    assert refused.returncode == 2
    assert "did you mean `delay_p95`?" in refused.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_a_program_that_cannot_start_is_the_failure_of_its_run(tmp_path: Path) -> None:
    xml = tmp_path / "a.xml"
    done = live(scenario(tmp_path), "--junit", str(xml), "--", "no-such-program", cwd=tmp_path)
    assert done.returncode == 1
    failures = [one.get("message") or "" for one in ElementTree.parse(xml).iter("failure")]
    assert len(failures) == 1
    assert "no-such-program" in failures[0]
    assert "No such file" in failures[0]


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_a_timeout_ends_the_run_and_keeps_its_results(tmp_path: Path) -> None:
    lines, xml = tmp_path / "a.jsonl", tmp_path / "a.xml"
    done = live(
        scenario(tmp_path),
        *("--timeout", "1.5 s", "--json", str(lines), "--junit", str(xml), "--", "sleep", "50"),
        cwd=tmp_path,
    )
    assert done.returncode == 124
    assert "did not end within 1.5 s" in done.stderr
    summary = json.loads(lines.read_text().splitlines()[-1])
    assert summary["failure"] == "the run did not end within 1.5 s"
    assert ElementTree.fromstring(xml.read_bytes()).get("failures") == "1"


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_repeated_runs_use_one_replication_each(tmp_path: Path) -> None:
    path, send = scenario(tmp_path, "raw"), SEND.replace("120", "60")
    program = ("--at", "server", "--", sys.executable, "-c", send)
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for file, more in ((first, ()), (second, ("--baseline", str(first)))):
        done = live(path, "--repeat", "2", "--json", str(file), *more, *program, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    runs = [read_summaries(file) for file in (first, second)]
    assert [one["replication"] for one in runs[0]] == [0, 1]
    lost = [[one["directions"][0]["lost"] for one in some] for some in runs]
    # The same replication has the same losses.
    assert lost[0] == lost[1]
    last = json.loads(second.read_text().splitlines()[-1])
    assert last["kind"] == "differences"
    [gap] = [one for one in last["values"] if one["name"] == "link.wireless.forward.loss"]
    assert gap["mean"] == 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
@pytest.mark.parametrize("option", ["--json", "--report", "--junit"])
def test_a_full_disk_costs_only_its_file(tmp_path: Path, option: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    out = tmp_path / "out.json"
    done = live(
        scenario(tmp_path), option, "/dev/full", "--out", str(out), "--", "true", cwd=tmp_path
    )
    assert done.returncode == 1
    assert "cannot write `/dev/full`: No space left on device" in done.stderr
    assert json.loads(out.read_text())["code"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("permitted")
def test_the_action_runs_programs_and_keeps_results(tmp_path: Path) -> None:
    script = Path(__file__).parent.parent / ".github/actions/live/run.sh"
    tool = tmp_path / "bin/lasthop"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m lasthop "$@"\n')
    tool.chmod(0o755)
    inputs = {
        "LINK": str(scenario(tmp_path)),
        "PROGRAMS": '--at server -- "sleep 30" --at client -- sh -c \'exit "$0"\' 3',
        "EXPECT": "exit = 3\n\n  duration < 50 s\n",
        "REPEAT": "2",
        "TIMEOUT": "60 s",
        "RESULTS": str(tmp_path / "results"),
    }
    done = subprocess.run(
        ["bash", str(script)],
        cwd=tmp_path,
        env={**os.environ, **inputs, "PATH": f"{tool.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    suite = ElementTree.fromstring((tmp_path / "results/junit.xml").read_bytes())
    assert suite.get("tests") == "4"
    assert (tmp_path / "results/report.html").stat().st_size > 10_000
