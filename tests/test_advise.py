"""Advice: intervals valid at all interim analyses, objectives, races with known results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import lasthop
from lasthop import advise
from lasthop.commands import _main
from lasthop.evaluating.advise.intervals import confidence_sequence
from lasthop.evaluating.advise.objectives import parse
from lasthop.evaluating.advise.space import PROTOCOLS
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.catalogue import catalogue
from lasthop.scenarios.starter import template
from lasthop.showing.figures.advice import draw_advice

LINK = """
name = "cell"
[link.radio]
between = ["base", "phone"]
rate = "1 Mbps"
delay = "10 ms"
errors = { kind = "gilbert-elliott", mean_loss = 0.06, mean_burst = 2 }
[flow.transfer]
from = "base"
to = "phone"
transport = { kind = "tcp", variant = "newreno", profile = "rfc" }
app = { kind = "file", size = "60 kB" }
[flow.voice]
from = "base"
to = "phone"
transport = { kind = "udp" }
app = { kind = "media", rate = "14.4 kbps", packet = "50 B" }
[run]
duration = "40 s"
"""
KNOWN = [
    "flow.transfer.goodput_bps",
    "flow.transfer.timeouts",
    "flow.voice.goodput_bps",
    "flow.voice.delay_p99_s",
    "flow.voice.residual_loss",
    "link.radio.forward.utilization",
]


def test_every_link_protocol_is_tried_or_left_out_for_a_reason() -> None:
    # docs/advise.md gives the reasons for those excluded.
    assert set(PROTOCOLS) | {"ideal-sr", "services"} == {name for name, _ in catalogue("links")}


# Objectives and constraints.


def test_wants_are_read() -> None:
    wants = parse("transfer.goodput, timeouts, delay_p99 < 300 ms, residual_loss <= 0.1 %", KNOWN)
    assert [(one.metrics, one.sign) for one in wants.objectives] == [
        (("flow.transfer.goodput_bps",), 1.0),
        (("flow.transfer.timeouts",), -1.0),
    ]
    delay, loss = wants.constraints
    assert (delay.metric, delay.is_upper) == ("flow.voice.delay_p99_s", True)
    assert delay.limit == pytest.approx(0.3)
    assert loss.limit == pytest.approx(0.001)
    assert parse("min utilization", KNOWN).objectives[0].sign == -1.0
    # With several flows, the objective is their sum, and the constraint applies to each flow.
    both = parse("goodput, goodput > 10 kbps", KNOWN)
    assert len(both.objectives[0].metrics) == 2
    assert [one.limit for one in both.constraints] == [10_000.0, 10_000.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "missing objective in `` for `want`"),
        ("delay_p99 < 1 s", "missing objective in `delay_p99 < 1 s` for `want`"),
        ("speed", "unknown metric `speed` for `want`: expected goodput, timeouts"),
        ("goodput, delay_p99 < soon", "invalid limit `soon` of delay_p99 for `want`"),
        ("goodput, residual_loss < few", "invalid limit `few` of residual_loss for `want`"),
        ("goodput ~ 3", "invalid value `goodput ~ 3` for `want`"),
    ],
)
def test_what_cannot_be_wanted_is_refused(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        parse(text, KNOWN)


def test_traffic_is_read() -> None:
    scenario = lasthop.Scenario.from_toml(LINK)
    other = advise.with_traffic(scenario, "file 300 kB, voice, voice 32 kbps", None)
    # A file transfer ends a run by itself; other traffic requires a duration.
    assert other.to_dict()["run"]["duration"] == (
        scenario.to_dict().get("run", {}).get("duration", "60 s")
    )
    alone = advise.with_traffic(scenario, "file", None).to_dict().get("run", {})
    assert alone == scenario.to_dict().get("run", {})
    flows = other.to_dict()["flow"]
    assert list(flows) == ["file", "voice", "voice2"]
    assert flows["voice2"]["app"]["rate"] == "32 kbps"
    assert flows["file"]["from"] == "base"
    for text, message in (
        ("mail", "invalid value `mail` for `traffic`: expected file"),
        ("file big", "invalid file for `traffic`: "),
        ("", "invalid value `` for `traffic`"),
    ):
        with pytest.raises(ArgumentError, match=message):
            advise.with_traffic(scenario, text, None)


def test_pages_have_a_version_of_http() -> None:
    tables = lasthop.Scenario.from_toml(LINK).to_dict()
    del tables["flow"]["transfer"]
    scenario = lasthop.Scenario(tables)
    found = advise.with_traffic(scenario, "page, page 1.1, page 3", None).to_dict()
    flows = found["flow"]
    assert [flow["app"].get("http") for flow in flows.values()] == [None, "1.1", "3"]
    assert [flow["transport"]["kind"] for flow in flows.values()] == ["tcp", "tcp", "quic"]
    # Pages end by themselves, like files.
    assert found.get("run", {}) == tables.get("run", {})
    with pytest.raises(ArgumentError, match=r"`page 4`.*page \[1\.1\|2\|3\]"):
        advise.with_traffic(scenario, "page 4", None)


def test_traffic_has_the_tcp_of_the_scenario_or_of_a_host_of_today() -> None:
    tables = lasthop.Scenario.from_toml(LINK).to_dict()
    own = tables["flow"]["transfer"]["transport"]
    kept = advise.with_traffic(lasthop.Scenario(tables), "file, web", None).to_dict()["flow"]
    assert [flow["transport"] for flow in kept.values()] == [own, own]
    del tables["flow"]["transfer"]  # only the voice flow over UDP remains
    other = advise.with_traffic(lasthop.Scenario(tables), "file, voice", None).to_dict()["flow"]
    linux = {"kind": "tcp", "profile": "linux", "variant": "cubic"}
    assert [flow["transport"] for flow in other.values()] == [linux, {"kind": "udp"}]
    assert template("file").count('profile = "linux"\nvariant = "cubic"') == 1


# Intervals.


@pytest.mark.slow
def test_intervals_hold_at_all_looks() -> None:
    # Samples with a skewed distribution, with interim analyses from 12 to 400 samples. A 90 %
    # interval that is valid for a single sample size would miss the mean at some analysis in about
    # half of the sequences. Of 300 sequences with an error probability of 5 %, at most 26 may miss:
    # with 5 %, more have a probability of 3e-3.
    random = np.random.default_rng(1)
    missed = 0
    for _ in range(300):
        samples = random.exponential(1.0, 400)
        looks = (confidence_sequence(samples[:n], 0.05) for n in range(12, 401, 4))
        missed += any(not one.low <= 1.0 <= one.high for one in looks)
    assert missed <= 26
    t_missed = 0
    for _ in range(100):
        samples = random.normal(0.0, 1.0, 400)
        for n in range(12, 401, 4):
            part = samples[:n]
            if abs(part.mean()) > 1.96 * part.std(ddof=1) / np.sqrt(n):
                t_missed += 1
                break
    assert t_missed > 20  # the effect of repeated ordinary intervals


@pytest.mark.slow
def test_one_side_of_an_interval_misses_half_as_often() -> None:
    # Ending a race or eliminating a candidate can fail on one side only, so that these intervals
    # have twice the error probability. Of 400 sequences at 10 %, at most 34 may miss above: with 5
    # %, more have a probability below 1 %.
    random = np.random.default_rng(2)
    missed = 0
    for _ in range(400):
        samples = random.normal(0.0, 1.0, 400)
        looks = (confidence_sequence(samples[:n], 0.1) for n in range(24, 401, 6))
        missed += any(one.high < 0.0 for one in looks)
    assert missed <= 34


def test_few_replications_have_no_interval_and_equal_ones_no_width() -> None:
    few = confidence_sequence(np.arange(5.0), 0.05)
    assert (few.low, few.high) == (-np.inf, np.inf)
    assert confidence_sequence(np.full(30, 3.0), 0.05).half_width == 0.0
    assert confidence_sequence(np.full(29, 3.0), 0.05).high == np.inf


# Races.


def race(tmp_path: Path, want: str, **options: object) -> advise.Advice:
    return advise.advise(
        lasthop.Scenario.from_toml(LINK),
        want,
        lasthop.Campaign(tmp_path / "race"),
        options=advise.Options(**{"trials": 0, "most": 60, **options}),  # type: ignore[arg-type]
    )


def test_a_constraint_rules_out_and_the_rest_is_told_apart(tmp_path: Path) -> None:
    found = race(
        tmp_path,
        "transfer.goodput, residual_loss < 1.5 %",
        protocols=("raw", "stop-and-wait", "selective-repeat"),
    )
    assert found.choice is not None
    assert found.choice.candidate.protocol == "selective-repeat"
    by_name = {one.candidate.name: one for one in found.standings}
    assert by_name["raw"].ruled_out.startswith("violates residual_loss < 1.5 %")
    # This candidate is far behind and is eliminated at an interim analysis before the last one.
    assert "has a better transfer.goodput" in by_name["stop-and-wait"].ruled_out
    assert by_name["stop-and-wait"].replications < 60
    assert 0.0 <= found.within < np.inf
    assert any("eliminates: raw" in reason for reason in found.reasons)
    assert found.replications < found.exhaustive
    assert any("do not depend on the frame length" in reason for reason in found.warnings)


def test_a_race_resumes_from_its_store_and_is_the_same(tmp_path: Path) -> None:
    options = {"protocols": ("selective-repeat", "go-back-n"), "trials": 2}
    first = race(tmp_path, "transfer.goodput", **options)
    rows = sum(1 for _ in (tmp_path / "race" / "parts").iterdir())
    again = race(tmp_path, "transfer.goodput", **options)
    assert first.to_dict() == again.to_dict()
    assert sum(1 for _ in (tmp_path / "race" / "parts").iterdir()) == rows
    assert any(one.candidate.is_tuned for one in first.standings)


def test_a_budget_ends_a_race(tmp_path: Path) -> None:
    found = race(
        tmp_path, "transfer.goodput", most=400, budget=80, protocols=("karn-rlp", "oos-rlp")
    )
    assert found.replications <= 80
    assert found.ended == "the budget is spent"
    # Two nearly equal candidates, and too few replications to establish that.
    assert found.within > 0.01
    statement = f"none is better in transfer.goodput by more than {100 * found.within:.2g} %"
    assert any(statement in reason for reason in found.reasons)


@pytest.mark.slow
def test_a_race_takes_a_fifth_of_all_replications_unless_told(tmp_path: Path) -> None:
    chosen = {"protocols": ("karn-rlp", "oos-rlp", "selective-repeat"), "most": 250}
    found = race(tmp_path, "transfer.goodput", **chosen)
    assert found.exhaustive == 250 * len(found.standings)
    assert found.replications <= found.exhaustive // 5
    # A larger budget reuses these replications.
    more = race(tmp_path, "transfer.goodput", **chosen, budget=found.exhaustive)
    assert more.replications >= found.replications
    assert more.ended == "the budget is spent" or more.within <= found.within


def test_near_ties_end_within_the_tolerance(tmp_path: Path) -> None:
    # Limits of 3 and 8 retransmissions differ little, because loss bursts are short.
    found = race(
        tmp_path,
        "transfer.goodput",
        protocols=("karn-rlp",),
        tolerance=0.2,
        most=400,
    )
    assert found.ended == "no other candidate is better by more than 20 % (95 % confidence)"
    assert found.within < 0.2


def test_the_picture_says_what_its_bars_are_and_who_is_out(tmp_path: Path) -> None:
    found = race(
        tmp_path, "transfer.goodput, residual_loss < 1.5 %", protocols=("raw", "selective-repeat")
    )
    figure = draw_advice(found)
    assert figure.get_supxlabel().startswith(
        "bars: 95 % confidence intervals, simultaneous for all candidates and interim analyses; "
        "hollow: eliminated"
    )
    (axes,) = figure.axes
    assert axes.get_ylabel() == "Goodput (kbps)"
    assert axes.get_xlabel() == "Residual loss (%), voice"
    assert {text.get_text() for text in axes.texts} == {"choice", "< 1.5 %"}
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.texts} == {"Raw link", "Selective repeat"}
    hollow = [bar[0].get_markerfacecolor() == "white" for bar in axes.containers]
    assert hollow == [bool(one.ruled_out) for one in found.standings]
    assert any(hollow)


def test_one_objective_is_drawn_as_bars(tmp_path: Path) -> None:
    found = race(tmp_path, "transfer.goodput", protocols=("raw", "selective-repeat"))
    (axes,) = draw_advice(found).axes
    assert axes.get_xlabel() == "Goodput (kbps)"
    widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert widths == sorted(widths)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert found.choice is not None
    assert names[-1] == f"{found.choice.candidate.name} (choice)"
    assert len(widths) == len(found.standings)


def test_no_candidate_may_keep_a_bound(tmp_path: Path) -> None:
    found = race(tmp_path, "transfer.goodput, delay_p99 < 1 us", protocols=("raw", "xor-fec"))
    assert found.choice is None
    assert any("every candidate violates a constraint" in warning for warning in found.warnings)


def test_the_command_says_which_scenario_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cell.toml"
    file.write_text(LINK)
    common = ["advise", str(file), "--want", "transfer.goodput, residual_loss < 1.5 %"]
    common += ["--protocol", "raw", "--protocol", "selective-repeat", "--trials", "0"]
    common += ["--max-replications", "30"]
    assert _main([*common, "--plot", str(tmp_path / "advice.png")]) == 0
    out = capsys.readouterr().out
    assert f'lasthop run {file} --set \'link.radio.protocol={{ kind = "selective-repeat"' in out
    assert (tmp_path / "advice.png").stat().st_size > 10_000
    assert _main([*common, "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["choice"].startswith("selective-repeat")
    # The scenario to run, with flows that the file does not contain.
    chosen = tmp_path / "chosen.json"
    common = ["advise", str(file), "--want", "file.goodput", "--traffic", "file 30 kB, voice"]
    common += ["--protocol", "selective-repeat", "--trials", "0", "--max-replications", "12"]
    assert _main([*common, "--out", str(chosen)]) == 0
    assert f"lasthop run {chosen}\n" in capsys.readouterr().out
    assert list(lasthop.load(chosen).to_dict()["flow"]) == ["file", "voice"]
    assert _main(["run", str(chosen), "--replications", "2"]) == 0
    capsys.readouterr()
    for arguments, message in (
        (
            ["--want", "goodput", "--out", str(tmp_path / "c.toml")],
            "` for `--out`: expected a name",
        ),
        (["--want", "speed"], "unknown metric `speed` for `--want`"),
        (
            ["--want", "goodput", "--protocol", "magic"],
            "unknown protocol `magic`: expected raw",
        ),
        (["--want", "goodput", "--link", "x"], "unknown link `x`: expected radio"),
        (["--want", "goodput", "--budget", "much"], "` for `--budget`: expected"),
        (["--want", "goodput", "--traffic", "mail"], "invalid value `mail` for `--traffic`"),
    ):
        assert _main(["advise", str(file), *arguments]) == 2
        assert message in capsys.readouterr().err


# Points of a sweep.


@pytest.mark.slow
def test_the_points_of_a_sweep_are_candidates(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    scenario = lasthop.load(root / "examples/wifi-advice.toml")
    options = advise.Options(budget=120, jobs=1)
    campaign = lasthop.Campaign(tmp_path / "race")
    want = "transfer.goodput, call.delay_p99 < 50 ms"
    found = advise.advise(scenario, want, campaign, options=options)
    assert len(found.standings) == 12
    assert found.choice is not None
    assert found.choice.candidate.changes["wlan.home.max_ampdu"] != "0 B"
    assert found.choice.candidate.changes["wlan.home.mpdu_retry_limit"] == "10"
    assert found.choice.candidate.name.startswith("max_ampdu ")
    # The changes are those of `--set`.
    for one in found.standings:
        (point,) = scenario.with_(one.candidate.changes).points()
        assert point.hash == one.candidate.point.hash
    with pytest.raises(ArgumentError, match="whose points are the candidates"):
        advise.advise(scenario, want, campaign, link="wire")
