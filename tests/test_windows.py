"""Metrics in windows of time, in every place that shows or selects metrics."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import lasthop
from command import lasthop as command
from lasthop.evaluating.metric import matching, metric_of, metrics, window_of
from lasthop.evaluating.notes import notes
from lasthop.evaluating.similar import summarised
from lasthop.showing import terminal
from stored import same

TEXT = """
name = "windows"
[link.air]
between = ["server", "client"]
rate = "2 Mbps"
delay = "20 ms"
measure = "queueing-delay"
errors = { kind = "uniform", loss = "1 %" }
[flow.download]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "newreno", profile = "rfc" }
app = { kind = "file", size = "1 MB" }
[window.early]
to = "2 s"
[window.late]
from = "2 s"
to = "4 s"
[run]
replications = 3
duration = "6 s"
"""

GOODPUT = "flow.download.goodput_bps"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "windows.toml"
    path.write_text(TEXT)
    return path


def test_windows_are_metrics_like_all_others(file: Path) -> None:
    results = lasthop.run(file)
    early, late = (f"window.{name}.{GOODPUT}" for name in ("early", "late"))
    assert {early, late} <= set(results.metrics)
    bytes_early, bytes_late = (
        results.samples(f"window.{window}.flow.download.delivered_bytes", 0)
        for window in ("early", "late")
    )
    # The flow is active for 2 s of each window.
    assert np.allclose(bytes_early * 4.0, results.samples(early, 0))
    assert np.allclose(bytes_late * 4.0, results.samples(late, 0))
    assert (bytes_early + bytes_late < results.samples("flow.download.delivered_bytes", 0)).all()
    rows = results.frame.filter(kind="window")
    assert set(rows["name"]) >= {"early.flow.download", "late.link.air.forward"}
    delays = results.samples("window.late.link.air.forward.queueing_delay_p95_s", 0)
    assert (delays > 0.0).all()
    assert (delays < 0.5).all()


def test_a_metric_of_a_window_has_the_declaration_of_the_metric() -> None:
    name = f"window.late.{GOODPUT}"
    assert window_of(name) == ("late", GOODPUT)
    assert window_of(GOODPUT) == ("", GOODPUT)
    assert metric_of(name) == metric_of(GOODPUT)
    assert metric_of("window.w.flows.f.timeouts") == metric_of("flow.a.timeouts")
    windowed = {one.name for one in metrics() if one.windowed}
    assert {"goodput_bps", "utilization", "retransmissions", "delay_p95_s"} <= windowed
    assert not {"duration_s", "delay_sd_s", "unconfirmed_bytes", "handshake_s"} & windowed


def test_short_names_select_the_whole_run() -> None:
    known = [GOODPUT, f"window.early.{GOODPUT}", f"window.late.{GOODPUT}"]
    assert matching("goodput", known) == [GOODPUT]
    assert matching("download.goodput_bps", known) == [GOODPUT]
    assert matching("late.flow.download.goodput", known) == known[2:]
    assert matching("window.*.goodput_bps", known) == known[1:]


@pytest.mark.slow
def test_commands_know_windows(file: Path, tmp_path: Path) -> None:
    assert command("check", file).returncode == 0
    explained = command("explain", file).stdout
    assert "Window early: metrics from 0 s to 2 s" in explained
    assert "Window late: metrics from 2 s to 4 s" in explained
    name = f"window.late.{GOODPUT}"
    printed = json.loads(command("run", file, "--format", "json", "--metric", name).stdout)
    assert list(printed["points"][0]["metrics"]) == [name]
    folder = tmp_path / "campaign"
    assert command("run", file, "--store", folder).returncode == 0
    kept = lasthop.Campaign(folder).results(file)
    assert same(kept, lasthop.run(file))
    assert name in kept.metrics
    listed = command("list", "metrics").stdout
    assert "Has windows." in listed


def test_a_sweep_has_a_column_for_each_window(file: Path) -> None:
    text = TEXT + '[sweep]\n"link.air.rate" = ["1 Mbps", "2 Mbps"]\n'
    file.write_text(text)
    results = lasthop.run(file)
    table = terminal.show_results(results, ())
    headings = [str(column.header).replace("\n", " ") for column in table.columns]
    assert any(heading.startswith("late.flow.download: Goodput") for heading in headings), headings


def test_runs_that_end_before_a_window(file: Path) -> None:
    # 400 kB take 1.7 s and more: every run ends within the second window.
    file.write_text(TEXT.replace('duration = "6 s"', "").replace("1 MB", "600 kB"))
    results = lasthop.run(file)
    assert all(math.isnan(one) for one in results.samples(f"window.late.{GOODPUT}", 0))
    assert not any(math.isnan(one) for one in results.samples(f"window.early.{GOODPUT}", 0))
    found = list(notes(results))
    assert found == [
        "window.late: 3 of 3 replications were complete before the end of the window; its metrics "
        "exclude them"
    ]


def test_similar_flows_are_summarised_in_windows(file: Path) -> None:
    many = TEXT.replace('variant = "newreno"', 'variant = "reno"').replace(
        "[flow.download]", "[flow.download]\ncount = 40"
    )
    file.write_text(many.replace("replications = 3", "replications = 1"))
    _, groups = summarised(lasthop.run(file))
    names = {group.name for group in groups}
    assert {"flow.download1…download40", "window.late.flow.download1…download40"} <= names


def test_the_window_must_be_within_the_run(file: Path) -> None:
    file.write_text(TEXT.replace('to = "4 s"', 'to = "7 s"'))
    refused = command("check", file)
    assert refused.returncode != 0
    line = TEXT.splitlines().index('to = "4 s"') + 1
    assert refused.stderr.strip() == (
        f'lasthop: {file}:{line}: window.late.to: found "7 s"; expected at most "6 s", the value '
        "of run.duration"
    )
