"""The comparison with ns-3 decides by the interval of a ratio; the comparison needs ns-3."""

import runpy
from pathlib import Path

import pytest

from conftest import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "compare_ns3.py"))


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([10.05], [10.0], "within"),
        ([10.4], [10.0], "outside"),
        # Means of 10.1 and 10: the interval of the ratio is 1.01 ± 0.014.
        ([10.05, 10.15, 10.05, 10.15], [9.95, 10.05, 9.95, 10.05], "within"),
        ([10.5, 9.7, 10.5, 9.7], [9.95, 10.05, 9.95, 10.05], "undecided"),
        ([10.9, 11.0, 11.1, 11.0], [9.95, 10.05, 9.95, 10.05], "outside"),
        # ns-3 has none in a starved category.
        ([0.05, 0.02], [0.0, 0.0], "within"),
        ([0.5, 0.2], [0.0, 0.0], "outside"),
    ],
)
def test_a_ratio_is_decided_by_its_interval(
    ours: list[float], theirs: list[float], verdict: str
) -> None:
    found = TOOL["Comparison"]("case", ours, theirs, 0.03)
    assert found.verdict() == verdict
    assert (verdict in found.text()) == (verdict != "within")


def test_groups_are_summarised() -> None:
    comparison = TOOL["Comparison"]
    members = [comparison("a", [10.1], [10.0], 0.03), comparison("b", [11.0], [10.0], 0.03)]
    summary = TOOL["summary"]("some", members)
    assert summary == "some: ratios 1.0100 to 1.1000; 1 within, 0 undecided, 1 outside"


def test_the_grid_has_every_group() -> None:
    groups = {case.group() for case in TOOL["CASES"]}
    assert groups == {"one sender, 1%", "several senders, 3%", "several categories", "TCP"}


def test_results_of_ns3_are_kept_per_version_of_its_program(tmp_path: Path) -> None:
    calls, program, source = (tmp_path / name for name in ("calls", "program", "program.cc"))
    program.write_text(f'#!/bin/sh\necho "$1" >> {calls}\necho 1.5 2\n')
    program.chmod(0o755)
    source.write_text("first")
    kept = tmp_path / "kept.jsonl"

    def results(argument: str) -> None:
        assert TOOL["Ns3"](program, source, kept).throughputs([argument]) == [1.5, 2.0]

    for argument in ("--run=1", "--run=2", "--run=1"):
        results(argument)
    assert calls.read_text().split() == ["--run=1", "--run=2"]
    # A line that an interruption cut is ignored.
    kept.write_text(kept.read_text()[:-9])
    results("--run=1")
    results("--run=2")
    assert calls.read_text().split() == ["--run=1", "--run=2", "--run=2"]
    source.write_text("second")
    results("--run=1")
    assert len(calls.read_text().split()) == 4
