"""Figures of a study drawn by several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from lasthop.evaluating.results import Results
from lasthop.showing.figures import beside
from lasthop.showing.figures.beside import Painters
from lasthop.studies import Report, ReportCell, studies

NOBODY = [sys.executable, "-c", "pass"]
"""A helper that ends before it has drawn anything."""


@pytest.fixture
def report() -> Report:
    study = studies()["multilayer"]
    figures = study.find(["Figure 2", "Figure 3", "Figure 4"])
    cells = [
        ReportCell(figure.name, f"{row:g}", column, 40.0 - row, 1.5, "kbps", None, 30)
        for figure in figures
        for row in figure.rows
        for column in figure.columns
    ]
    return Report(study, figures, cells, [], cast("Results", None), complete=True)


def drawn(report: Report, folder: Path, jobs: int) -> dict[str, bytes]:
    """All drawn files by name, in the order in which they are reported."""
    folder.mkdir()
    with Painters(len(report.artefacts), jobs) as painters:
        painters.begin(report, folder)
        return {path.name: path.read_bytes() for path in painters.finish()}


@pytest.mark.slow
def test_helpers_draw_the_same_bytes(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "EACH", 1)
    alone = drawn(report, tmp_path / "alone", 1)
    # This process draws none, so that the helpers must draw all figures.
    with monkeypatch.context() as busy:
        busy.setattr(Painters, "_draw_left", lambda _self: None)
        together = drawn(report, tmp_path / "together", 3)
    assert list(alone) == [f"figure-{n}.{kind}" for n in (2, 3, 4) for kind in ("png", "pdf")]
    assert list(together.items()) == list(alone.items())


@pytest.mark.slow
def test_helpers_that_fail_are_stood_in_for(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "EACH", 1)
    start = subprocess.Popen

    def nobody(_command: list[str], **options: object) -> subprocess.Popen[bytes]:
        return start(NOBODY, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(subprocess, "Popen", nobody)
    assert len(drawn(report, tmp_path / "out", 3)) == 6


@pytest.mark.parametrize("jobs", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_what_cannot_be_written_is_told(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    monkeypatch.setattr(beside, "EACH", 1)
    (tmp_path / "out").write_text("no folder")
    with Painters(len(report.artefacts), jobs) as painters:
        painters.begin(report, tmp_path / "out")
        with pytest.raises(NotADirectoryError) as raised:
            painters.finish()
    assert raised.value.filename.endswith("figure-2.png")


@pytest.mark.parametrize(("figures", "jobs", "helpers"), [(4, 8, 0), (16, 1, 0), (5, 8, 1)])
def test_few_figures_and_few_cores_need_no_help(figures: int, jobs: int, helpers: int) -> None:
    with Painters(figures, jobs) as painters:
        assert len(painters._helpers) == helpers
