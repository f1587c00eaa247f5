"""Repetition and variants in Python: results, commands, campaigns, the names of metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lasthop
from lasthop import commands as cli
from lasthop.evaluating.cells import plus_minus, rounded
from lasthop.evaluating.metric import matching, metric_of
from lasthop.evaluating.similar import summarised
from lasthop.running.campaign import Campaign

BASE = """
name = "base"
[link.wired]
between = ["server", "client"]
rate = "10 Mbps"
delay = "5 ms"
errors = { kind = "uniform", loss = "1 %" }
[flow.file]
count = 3
spacing = "100 ms"
from = "server"
to = "client"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "50 kB" }
[run]
replications = 3
"""
VARIANT = 'extends = "base.toml"\nname = "variant"\n[flow.file]\ncount = 12\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "variant.toml").write_text(VARIANT)
    return tmp_path


def test_aggregates_are_sums_and_means_of_the_flows(folder: Path) -> None:
    results = lasthop.run(folder / "base.toml")
    for name, aggregate in (("goodput_bps", sum), ("duration_s", lambda x: sum(x) / len(x))):
        flows = [results.samples(f"flow.file{number}.{name}", 0) for number in (1, 2, 3)]
        assert results.samples(f"flows.file.{name}", 0) == pytest.approx(aggregate(flows))
        assert metric_of(f"flows.file.{name}").label == metric_of(f"flow.file1.{name}").label


def test_similar_flows_of_a_table_are_summarised(folder: Path) -> None:
    _, groups = summarised(lasthop.run(folder / "variant.toml"))
    assert [group.name for group in groups] == ["flow.file1…file12"]


def test_a_swept_number_of_flows_is_shown_by_its_aggregate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = BASE + '[sweep]\n"flow.file.count" = [1, 2]\n'
    (folder / "swept.toml").write_text(text)
    assert cli._main(["run", str(folder / "swept.toml")]) == 0
    heading = capsys.readouterr().out.partition("Fairness")[0]
    assert "file1" not in heading
    assert "Goodput" in heading


def test_stores_and_resolved_points_contain_no_reference_to_the_extended_file(folder: Path) -> None:
    scenario = lasthop.load(folder / "variant.toml")
    assert scenario["flow.file.count"] == 12
    assert "extends" not in scenario.to_dict()
    campaign = Campaign(folder / "store")
    campaign.run(scenario, replications=2)
    (folder / "base.toml").unlink()
    assert "extends" not in json.dumps(campaign.results().scenario)
    assert campaign.results().metrics == scenario.points()[0].metrics()


@pytest.mark.parametrize("command", ["check", "run", "explain", "trace"])
def test_commands_name_a_missing_file(
    folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "base.toml").unlink()
    assert cli._main([command, str(folder / "variant.toml")]) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1
    assert 'extends: found "base.toml", which cannot be read' in errors[0]
    assert "variant.toml:1: " in errors[0]


KNOWN = [
    *(
        f"flow.{flow}.{name}"
        for flow in ("web", "f1", "f2")
        for name in ("goodput_bps", "complete")
    ),
    *("flows.f.goodput_bps", "flows.f.complete", "flows.convergence_time_s"),
    "link.a.forward.frame_loss",
]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("flow.web.goodput_bps", ["flow.web.goodput_bps"]),
        ("flow.web.goodput", ["flow.web.goodput_bps"]),
        ("web.goodput", ["flow.web.goodput_bps"]),
        ("goodput", ["flow.web.goodput_bps", "flows.f.goodput_bps"]),
        ("goodput_bps", ["flow.web.goodput_bps", "flows.f.goodput_bps"]),
        ("flow.*.goodput", [f"flow.{flow}.goodput_bps" for flow in ("web", "f1", "f2")]),
        ("f2.complete", ["flow.f2.complete"]),
        ("convergence_time", ["flows.convergence_time_s"]),
        ("frame_*", ["link.a.forward.frame_loss"]),
        ("put_bps", []),
        ("goodput_s", []),
    ],
)
def test_one_form_of_names_selects_metrics(name: str, found: list[str]) -> None:
    assert matching(name, KNOWN) == found


def test_every_option_accepts_every_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(folder / "base.toml")
    for form in ("goodput", "goodput_bps", "flow.file1.goodput_bps", "file2.goodput"):
        assert cli._main(["run", file, "--until", f"{form}=50%", "--metric", form]) == 0
        store = str(folder / "store")
        assert cli._main(["run", file, "--store", store, "--metric", form]) == 0
        assert (
            cli._main(["plot", store, "--kind", "cdf", "--y", form, "--out", str(folder / "a.png")])
            == 0
        )
    capsys.readouterr()


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (972.9, 343.2, "973 ± 343"),
        (1234.5, 0.37, "1234.50 ± 0.37"),
        (0.0123456, 0.00098, "0.01235 ± 0.00098"),
        (1e7, 3.4e5, "10000000 ± 340000"),
        (5.0, 0.0, "5 ± 0"),
        (5.25, None, "5.25"),
        (float("nan"), 1.0, "–"),
    ],
)
def test_intervals_have_one_rounding(value: float, width: float | None, text: str) -> None:
    assert plus_minus(value, width) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345.0, "12300"), (999.6, "1000"), (0.00012345, "0.000123"), (0.5, "0.5"), (-1.0, "-1")],
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert rounded(value) == text
