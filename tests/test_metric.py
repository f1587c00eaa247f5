"""The list of metrics declared by the engine."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import lasthop
from command import lasthop as command
from lasthop.evaluating.metric import bare_name, metric_of, metrics
from lasthop.evaluating.results import Point, Results
from lasthop.running.precision import Target, _metrics
from lasthop.scenarios import catalogue

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("name", "label", "unit", "bounds", "preferred", "aggregation"),
    [
        ("flow.web.goodput_bps", "Goodput", "bps", (0.0, math.inf), "higher", "sum"),
        ("flow.v.delay_p95_s", "Delay, 95th percentile", "s", (0.0, math.inf), "lower", "mean"),
        ("flow.v.loss_burst_max", "Largest loss burst", "", (0.0, math.inf), "lower", "max"),
        ("link.a.forward.nacks", "NACKs", "", (0.0, math.inf), "neither", "sum"),
        ("link.a.reverse.voice.share", "Share", "%", (0.0, 1.0), "neither", "mean"),
        ("wlan.cell.airtime_idle", "Airtime idle", "%", (0.0, 1.0), "neither", "mean"),
        ("agent.a.p_estimate", "Estimated end-to-end loss", "%", (0.0, 1.0), "neither", "mean"),
        # A name without its entity, and one that the engine does not declare.
        ("frame_loss", "Frame loss", "%", (0.0, 1.0), "lower", "mean"),
        ("flow.f.new_loss", "New loss", "", (-math.inf, math.inf), "neither", "mean"),
    ],
)
def test_a_metric_is_described_by_its_declaration(
    name: str,
    label: str,
    unit: str,
    bounds: tuple[float, float],
    preferred: str,
    aggregation: str,
) -> None:
    one = metric_of(name)
    assert (one.label, one.unit, (one.minimum, one.maximum)) == (label, unit, bounds)
    assert (one.preferred, one.aggregation) == (preferred, aggregation)


def test_names_without_units() -> None:
    assert bare_name("flow.v.delay_p95_s") == "flow.v.delay_p95"
    assert bare_name("flow.v.packets_sent") == "flow.v.packets_sent"


def test_what_runs_report_is_in_the_list() -> None:
    known = {(one.entity, one.name) for one in metrics()}
    for file in sorted((ROOT / "examples").glob("*.toml")):
        for name in lasthop.load(file).points()[0].metrics():
            assert (name.partition(".")[0], name.rpartition(".")[2]) in known, (file.name, name)


def test_the_interval_of_an_idle_airtime_ends_at_one() -> None:
    values = np.array([[0.99], [1.0], [0.996], [1.0]])
    found = Results(
        {"name": "w"},
        [Point({}, "")],
        ["wlan.cell.airtime_idle"],
        np.zeros(4, np.uint32),
        np.arange(4, dtype=np.uint64),
        values,
        1,
    )
    row = found.summary().row(0, named=True)
    assert row["mean"] + row["ci95"] > 1.0
    assert row["high"] == 1.0


def test_the_list_and_the_documentation_have_each_metric() -> None:
    listed = [name for name, _ in catalogue.catalogue("metrics")]
    assert len(listed) == len(set(listed)) == len(metrics()) == len(lasthop.metrics())
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        page = importlib.import_module("metrics_page").page()
    finally:
        sys.path.remove(str(ROOT / "docs"))
    rows = [line.split("`")[1] for line in page.split("\n") if line.startswith("| `")]
    assert sorted(rows) == sorted(one.name for one in metrics())


def test_selections_accept_former_names_with_a_warning(small: Path) -> None:
    results = lasthop.run(small, replications=2, seed=1)
    present = "flow.transfer.window_reductions"
    expected = results.samples(present, 0).tolist()
    with pytest.warns(FutureWarning) as caught:
        assert results.samples("flow.transfer.window_cuts", 0).tolist() == expected
    assert [str(one.message) for one in caught] == [
        "flow.transfer.window_cuts: renamed to `window_reductions`; the next minor version will "
        "reject `window_cuts`"
    ]
    assert caught[0].filename == __file__
    with pytest.warns(FutureWarning, match="renamed to `window_reductions`"):
        table = results.differences(
            "flow.*.window_cuts", by="flow.transfer.transport.variant", baseline="reno"
        )
    assert table.height == 1
    with pytest.warns(FutureWarning, match="renamed to `reductions_undone`"):
        (target,) = _metrics(results, Target.parse("flow.transfer.reductions_taken_back", "5"))
    assert target == "flow.transfer.reductions_undone"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "FILE", "--metric", "window_cuts", "--format", "csv"],
        pytest.param(
            ["plot", "FILE", "--y", "window_cuts", "--x", "flow.transfer.transport.variant"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_commands_accept_former_names_of_metrics(
    words: list[str], small: Path, tmp_path: Path
) -> None:
    words = [str(small) if word == "FILE" else word for word in words]
    more = ["--out", str(tmp_path / "x.png")] if words[0] == "plot" else []
    done = command(*words, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    note = "window_cuts: renamed to `window_reductions`; the next minor version will reject"
    assert f"lasthop: {note}" in done.stderr
    assert done.stderr.count("renamed") == 1
    if words[0] == "run":
        assert "window_reductions" in done.stdout
