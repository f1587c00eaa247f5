"""Rules of `--compare-theory`: hypotheses, cases without a prediction, output."""

import csv
import io
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lasthop
from conftest import ROOT, SMALL
from lasthop import commands as cli
from lasthop import theory
from lasthop.evaluating.theory.network import Hypothesis, Network, Prediction
from lasthop.evaluating.theory.rules import RULES, predict
from theories import (
    ERRORS,
    FAST,
    MEDIA,
    PROTOCOLS,
    UDP,
    UNIFORM,
    over_radio,
    predictions,
    row,
    scenario,
    tcp,
)

SCENARIOS = sorted(
    path
    for folder in ("examples", "papers", "docs/links/scenarios")
    for path in (ROOT / folder).rglob("*.toml")
    if "[flow." in path.read_text()
)


def test_broken_hypotheses_are_marked() -> None:
    """A formula for independent losses is wrong for loss bursts, and is marked as inapplicable."""
    table = lasthop.compare_theory(
        scenario(
            {**MEDIA, "rate": "2 kbps"},
            errors=ERRORS[7],
            protocol={"kind": "stop-and-wait", "retries": 1},
            queue="1 MB",
        )
    )
    one = row(table, "residual loss")
    assert one["theory"] == pytest.approx(0.05**2)
    assert (one["inside"], one["agrees"]) == (False, False)
    assert one["simulated"] > 2 * one["theory"]
    assert one["hypotheses"] == "broken"
    assert one["broken"] == "losses are independent (radio forward has gilbert-elliott)"


def test_what_a_run_measured_counts_as_a_hypothesis() -> None:
    """Media faster than the link: the queue drops packets, which violates a measured hypothesis."""
    speech = {"kind": "media", "rate": "100 kbps", "packet": "250 B"}
    table = lasthop.compare_theory(
        scenario(speech, errors=UNIFORM, queue="2 packets", replications=3, duration="100 s")
    )
    one = row(table, "residual loss")
    assert one["hypotheses"] == "broken"
    assert one["broken"].startswith("queues refuse nothing (")
    assert row(table, "delay")["broken"].startswith("packets do not arrive faster than any")


def test_the_interval_decides() -> None:
    def comparison(value: float, mean: float, ci95: float, **more: Any) -> theory.Comparison:
        prediction = Prediction("r", "m", value, (), **more)
        return theory.Comparison(0, prediction, lasthop.statistics.Interval(mean, ci95, 5))

    assert comparison(10.0, 11.0, 1.0).inside is True
    assert comparison(10.0, 11.1, 1.0).inside is False
    assert comparison(10.0, 11.1, float("nan")).inside is None
    assert comparison(10.0, 11.1, float("nan")).agrees is None
    assert comparison(10.0, 5.0, 0.1, is_bound=True).inside is True
    assert comparison(10.0, 10.2, 0.1, is_bound=True).inside is False
    assert comparison(10.0, 12.0, 0.6, accuracy=0.15).inside is False
    assert comparison(10.0, 12.0, 0.6, accuracy=0.15).agrees is True
    assert comparison(10.0, 12.2, 0.6, accuracy=0.15).agrees is False
    assert comparison(0.0, 0.0, 0.0).percent is None


def test_bad_news_about_hypotheses_comes_first() -> None:
    def worst(*statuses: str) -> str:
        needs = tuple(Hypothesis("t", status) for status in statuses)  # type: ignore[arg-type]
        interval = lasthop.statistics.Interval(1.0, 0.1, 5)
        return theory.Comparison(0, Prediction("r", "m", 1.0, needs), interval).hypotheses

    assert worst() == "met"
    assert worst("met", "nearly") == "nearly"
    assert worst("nearly", "unknown") == "unknown"
    assert worst("unknown", "broken", "met") == "broken"


def test_results_are_compared_with_their_own_scenario() -> None:
    results = lasthop.run(scenario(MEDIA, errors=UNIFORM, replications=2, duration="20 s"))
    table = lasthop.compare_theory(results)
    assert set(table["rule"]) == {"frame loss", "residual loss", "loss bursts", "delay"}
    other = lasthop.Scenario(scenario(MEDIA, errors=UNIFORM, delay="1 ms"))
    with pytest.raises(ValueError, match="does not match the results"):
        lasthop.compare_theory(results, scenario=other)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: str(path.relative_to(ROOT)))
def test_rules_never_fail_on_a_scenario_there_is(path: Path) -> None:
    for point in lasthop.load(path).points():
        network = Network(json.loads(point.resolved()), {})
        for one in predict(network):
            assert one.metric.split(".")[0] in ("link", "flow")
            assert one.rule in {rule.name for rule in RULES}
            assert one.value >= 0.0


def test_there_are_scenarios_to_try() -> None:
    assert len(SCENARIOS) >= 15


@given(
    st.sampled_from(PROTOCOLS),
    st.sampled_from(ERRORS),
    st.sampled_from(ERRORS),
    st.sampled_from(
        [
            (UDP, FAST),
            (UDP, MEDIA),
            (UDP, {**MEDIA, "silence": "exp 1 s"}),
            (tcp(), {"kind": "file", "size": "1 MB"}),
            (
                {"kind": "tcp", "variant": "sack", "profile": "rfc"},
                {"kind": "file", "size": "1 kB"},
            ),
            ({"kind": "tcp", "variant": "newreno", "profile": "rfc"}, {"kind": "web"}),
        ]
    ),
    st.sampled_from([{}, {"queue": "3 kB"}, {"agent": {"kind": "snoop", "at": "a"}}]),
)
def test_rules_never_fail(
    protocol: dict[str, Any],
    errors: dict[str, Any],
    back: dict[str, Any],
    flow: tuple[dict[str, Any], dict[str, Any]],
    more: dict[str, Any],
) -> None:
    transport, app = flow
    tables = scenario(
        app, transport=transport, errors=errors, reverse={"errors": back}, protocol=protocol, **more
    )
    tables["flow"]["other"] = {"from": "b", "to": "a", "transport": UDP, "app": MEDIA}
    for alone in (True, False):
        if alone:
            tables = {**tables, "flow": {"f": tables["flow"]["f"]}}
        for one in predictions(tables).values():
            assert one.value >= 0.0, one


def test_the_command_line_prints_all_three_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "radio.json"
    path.write_text(json.dumps(scenario(MEDIA, errors=ERRORS[7], replications=3, duration="50 s")))
    compare = ["run", str(path), "--compare-theory"]
    assert cli._main([*compare, "--out", str(tmp_path / "out")]) == cli.DONE
    printed = capsys.readouterr().out
    assert "flow.f.residual_loss" in printed
    assert "queues refuse nothing" in printed
    table = (tmp_path / "out" / "theory.csv").read_text()
    assert cli._main([*compare, "--format", "csv"]) == cli.DONE
    assert capsys.readouterr().out.rstrip("\n") == table.rstrip("\n")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert {"residual loss", "delay", "frame loss"} <= {row["rule"] for row in rows}
    assert cli._main([*compare, "--format", "json"]) == cli.DONE
    tables = json.loads(capsys.readouterr().out)
    (point,) = tables["points"]
    assert point["metrics"]["flow.f.residual_loss"]["n"] == 3
    assert len(point["theory"]) == len(rows)
    for one, written in zip(point["theory"], rows, strict=True):
        assert one["theory"] == float(written["theory"])
        assert all(set(need) == {"text", "status", "detail"} for need in one["hypotheses"])


@pytest.mark.parametrize(
    ("variant", "needed"),
    [
        ("reno", ["RACK-TLP has fewer timeouts", "reno over RACK-TLP, profile linux"]),
        ("sack", ["RACK-TLP has fewer timeouts", "sack over RACK-TLP, profile linux"]),
        ("cubic", ["CUBIC's window follows another function"] * 2),
    ],
)
def test_under_linux_no_variant_is_reno_as_formulas_have_it(
    variant: str, needed: list[str]
) -> None:
    transport = {"kind": "tcp", "profile": "linux", "variant": variant}
    tables = scenario({"kind": "file", "size": "1 MB"}, transport=transport, errors=UNIFORM)
    found = {
        one.rule: need.detail
        for (_, metric), one in predictions(tables).items()
        for need in one.hypotheses
        if metric == "flow.f.goodput_bps" and need.text == "TCP Reno"
    }
    assert [found["PFTK"], found["window chain"]] == needed


@pytest.mark.slow
def test_a_sweep_names_its_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    assert cli._main(["run", str(path), "--compare-theory"]) == cli.DONE
    printed = capsys.readouterr().out
    assert "point 1: flow.transfer.transport.variant = sack" in printed
    assert "sack has fewer timeouts" in printed


def test_a_scenario_without_theory_is_told_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "web.json"
    web = scenario({"kind": "web"}, transport=tcp(), duration="20 s", replications=2)
    path.write_text(json.dumps(web))
    assert cli._main(["run", str(path), "--compare-theory"]) == cli.DONE
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("No closed form applies to this scenario. There is one for: frame loss")
    assert lasthop.compare_theory(path).is_empty()
    assert cli._main(["run", str(path), "--compare-theory", "--format", "json"]) == cli.DONE
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["theory"] == []


def test_every_rule_is_tried_above() -> None:
    seen = set()
    for protocol, errors, flow in itertools.product(
        PROTOCOLS, ERRORS, ((UDP, FAST), (UDP, MEDIA), (tcp(), {"kind": "file", "size": "1 MB"}))
    ):
        tables = scenario(flow[1], transport=flow[0], errors=errors, protocol=protocol)
        seen |= {rule for rule, _ in predictions(tables)}
    seen |= {rule for rule, _ in predictions(over_radio("unlimited", 0.01).to_dict())}
    upload = {"from": "sta", "to": "ap", "transport": UDP, "app": FAST}
    cell = {"access_point": "ap", "stations": ["sta"]}
    run = {"duration": "10 s"}
    wlan = {"name": "cell", "wlan": {"cell": cell}, "flow": {"f": upload}, "run": run}
    seen |= {rule for rule, _ in predictions(wlan)}
    assert seen == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    ("errors", "has_loss"),
    [
        (UNIFORM, True),
        (ERRORS[5], False),
    ],
)
def test_a_rate_that_changes_is_refused(errors: dict[str, Any], has_loss: bool) -> None:
    """No prediction uses the mean rate; only losses that are independent of time are compared."""
    link = {"between": ["a", "b"], "delay": "10 ms", "errors": errors}
    flow = {
        "from": "a",
        "to": "b",
        "transport": {"kind": "udp"},
        "app": {"kind": "media", "rate": "9.6 kbps", "packet": "60 B", "silence": "0 s"},
    }
    steps = {"kind": "steps", "at": [["0 s", "64 kbps"], ["1 s", "128 kbps"]], "repeat": "2 s"}

    def predicted(rate: object) -> set[str]:
        tables = {"name": "x", "link": {"l": {**link, "rate": rate}}, "flow": {"f": flow}}
        point = lasthop.Scenario({**tables, "run": {"duration": "100 s"}}).points()[0]
        return {one.metric for one in predict(Network(json.loads(point.resolved()), {}))}

    losses = {f"link.l.{side}.frame_loss" for side in ("forward", "reverse")}
    constant = predicted("64 kbps")
    assert "flow.f.residual_loss" in constant
    assert "link.l.forward.frame_loss" in constant
    assert predicted(steps) == (constant & losses if has_loss else set())
