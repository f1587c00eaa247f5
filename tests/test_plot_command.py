"""`lasthop plot`: its files, options and errors."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import lasthop
from lasthop import commands as cli
from pictured import ys


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_are_drawn_as_results_are(tmp_path: Path, small: Path, form: str) -> None:
    results = lasthop.run(small)
    path = tmp_path / f"table.{form}"
    if form == "csv":
        results.frame.write_csv(path)
    else:
        results.frame.write_parquet(path)
    expected, found = (
        ys(lasthop.plot(data, x="variant", y="goodput_bps").axes[0].get_lines()[0])
        for data in (results, path)
    )
    np.testing.assert_allclose(found, expected)


@pytest.mark.slow
def test_command_line(tmp_path: Path, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"
    assert cli._main(["run", str(small), "--out", str(results), "--format", "json"]) == 0
    assert cli._main(["trace", str(small), "--out", str(tmp_path / "trace")]) == 0
    for source, options in (
        (results, ["--y", "goodput_bps"]),
        (results, ["--kind", "cdf", "--y", "duration_s"]),
        (small, ["--x", "variant"]),
        (small, ["--kind", "sequence"]),
        (small, ["--kind", "ladder", "--link", "wireless"]),
        (tmp_path / "trace", ["--kind", "series", "--y", "cwnd"]),
    ):
        out = tmp_path / "figure.svg"
        assert cli._main(["plot", str(source), *options, "--out", str(out)]) == 0
        assert re.search(r"<svg.*</svg>", out.read_text(), re.DOTALL)
        out.unlink()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--out", "figure.bmp"],
            "invalid value `figure.bmp` for `--out`: expected a name that ends in .png",
        ),
        (["--out", "no/figure.svg"], "expected a file in an existing, writable folder"),
        (["--y", "speed", "--out", "figure.svg"], "unknown metric `speed` for `--y`"),
        (["--where", "variant", "--out", "figure.svg"], "invalid value `variant` for `--where`"),
        (
            ["--kind", "ladder", "--out", "figure.svg"],
            "missing `--link`: expected wireless",
        ),
        (["--point", "9", "--kind", "series", "--out", "f.svg"], "invalid value `9` for `--point`"),
        (["--set", "x", "--out", "figure.svg"], "invalid value `x` for `--set`"),
        (["--from", "soon", "--out", "figure.svg"], "invalid value `soon` for `--from`"),
    ],
)
def test_command_line_refuses(
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli._main(["plot", str(small), *options]) == 2
    assert message in capsys.readouterr().err


def test_command_line_refuses_what_is_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no table")
    (tmp_path / "b.csv").write_text("a,b\n1,2\n")
    (tmp_path / "c.csv").write_text("point,value,point\n1,2,3\n")
    for name, message in (
        ("a.parquet", "not a table"),
        ("b.csv", "has no column `point`"),
        ("c.csv", "2 columns are named `point`: expected unique names"),
        ("missing.csv", "No such file"),
        (".", "no results: expected"),
    ):
        source = str(tmp_path / name)
        assert cli._main(["plot", source, "--out", str(tmp_path / "f.svg")]) in (1, 2)
        assert message in capsys.readouterr().err


def test_options_that_say_nothing_about_a_figure_are_refused(small: Path) -> None:
    trace, results = lasthop.trace(small), lasthop.run(small)
    for data, arguments, message in (
        (
            results,
            {"start": 1.0},
            "`from` requires kind series or sequence or ladder",
        ),
        (
            results,
            {"link": "wireless"},
            "`link` requires kind ladder",
        ),
        (
            trace,
            {"where": {"variant": "sack"}},
            "`where` requires kind line or cdf",
        ),
        (trace, {"x": "variant"}, "`x` requires kind line or cdf"),
        (
            trace,
            {"link": "wireless"},
            "`link` requires kind ladder",
        ),
    ):
        with pytest.raises(lasthop.PlotError, match=message):
            lasthop.plot(data, **arguments)


def test_options_are_named_as_they_are_given(
    tmp_path: Path, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those whose names differ from the arguments in Python."""
    picture = str(tmp_path / "figure.svg")
    series = ["plot", str(small), "--kind", "series", "--out", picture]
    for option in (["--x-label", "a"], ["--y-label", "a"], ["--style", "paper"]):
        assert cli._main([*series, *option]) == 2
        assert f"`{option[0]}` requires kind line or cdf" in capsys.readouterr().err
    assert cli._main(["plot", str(small), "--y-label", "Rate of data", "--out", picture]) == 0
    assert "Rate of data" in Path(picture).read_text(encoding="utf-8")
