import json
import re
import subprocess
from pathlib import Path

import polars as pl
import pytest

from command import COMMAND, lasthop
from lasthop import commands as cli
from lasthop.commands import campaigns
from lasthop.commands.app import COMMANDS, command
from lasthop.commands.declarations import Group
from lasthop.commands.parsing import parameters
from lasthop.commands.values import as_folder, as_path, as_picture
from lasthop.showing import labels


def test_run_prints_the_json_that_scripts_rely_on(small: Path) -> None:
    done = lasthop("run", small, "--format", "json", "--replications", "3")
    assert done.returncode == 0
    assert done.stderr == ""
    printed = json.loads(done.stdout)
    assert list(printed) == ["scenario", "points", "notes"]
    assert printed["scenario"]["name"] == "small"
    assert [point["parameters"] for point in printed["points"]] == [
        {"flow.transfer.transport.variant": "reno"},
        {"flow.transfer.transport.variant": "sack"},
    ]
    for point in printed["points"]:
        assert list(point) == ["parameters", "metrics"]
        goodput = point["metrics"]["flow.transfer.goodput_bps"]
        assert list(goodput) == ["mean", "ci95", "n", "low", "high", "method"]
        assert goodput["n"] == 3
        assert goodput["mean"] > 0.0


@pytest.mark.slow
def test_interval_of_one_replication_is_null(small: Path) -> None:
    done = lasthop("run", small, "--format", "json", "--replications", "1")
    metrics = json.loads(done.stdout)["points"][0]["metrics"]
    assert metrics["flow.transfer.goodput_bps"]["ci95"] is None


@pytest.mark.slow
def test_every_format_holds_every_replication(small: Path, tmp_path: Path) -> None:
    csv = lasthop("run", small, "--format", "csv")
    frame = pl.read_csv(csv.stdout.encode())
    assert frame.filter(kind="flow").height == 8
    parquet = subprocess.run(
        [*COMMAND, "run", str(small), "--format", "parquet"], capture_output=True, check=True
    )
    assert pl.read_parquet(parquet.stdout).height == frame.height
    table = lasthop("run", small)
    assert "Goodput" in table.stdout
    assert "(kbps)" in table.stdout
    assert "±" in table.stdout
    out = tmp_path / "out"
    assert lasthop("run", small, "--out", out).returncode == 0
    assert pl.read_parquet(out / "replications.parquet").height == frame.height
    assert json.loads((out / "results.json").read_text())["points"]
    assert pl.read_csv(out / "summary.csv").height > 0


@pytest.mark.slow
def test_set_changes_the_scenario(small: Path) -> None:
    done = lasthop(
        "run", small, "--set", "flow.transfer.transport.variant=sack", "--format", "json"
    )
    (point,) = json.loads(done.stdout)["points"]
    assert point["parameters"] == {}


def test_without_a_command_three_first_commands_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli._main([]) == 2
    printed = capsys.readouterr()
    shown = [line for line in printed.out.splitlines() if line.startswith("  lasthop ")]
    assert [line.split()[1] for line in shown] == ["new", "run", "explore"]
    assert printed.err == ""


def test_check(small: Path) -> None:
    done = lasthop("check", small)
    assert done.returncode == 0
    assert "valid, 2 points" in done.stdout


@pytest.mark.slow
def test_list_explains_each_part() -> None:
    done = lasthop("list")
    assert done.returncode == 0
    names = "selective-repeat", "snoop", "cellular", "two-state", "tcp sack", "udp", "on-off"
    for name in (*names, "multilayer"):
        lines = [x for x in done.stdout.splitlines() if x.startswith(f"  {name} ")]
        # An error process and an application are both named on-off.
        assert len(lines) == (2 if name == "on-off" else 1)
        assert all(len(line.split()) > 3 for line in lines)
    assert "two-state" not in lasthop("list", "links").stdout
    presets = lasthop("list", "presets").stdout
    assert "43.2 kbps, 100 ms, packets up to 50 B" in presets
    assert "2 Mbps, 3 ms, packets up to 1 kB" in presets


def test_schema_is_json() -> None:
    assert json.loads(lasthop("schema").stdout)["title"] == "Lasthop scenario"


@pytest.mark.slow
def test_trace_writes_series_and_a_picture(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "traced"
    done = lasthop("trace", small, "--out", out)
    assert done.returncode == 0, done.stderr
    written = {Path(line).name for line in done.stdout.splitlines()}
    series = {"cwnd.csv", "sequence.csv", "queue.csv", "link.csv"}
    assert written == series | {"frames.csv", "trace.json", "trace.png"}
    for name in ("cwnd", "sequence", "queue", "link"):
        frame = pl.read_csv(out / f"{name}.csv")
        assert frame.columns == ["time_s", "entity", "event", "sequence", "value"]
        assert frame.height > 0
        assert frame["time_s"].is_sorted()
    frames = pl.read_csv(out / "frames.csv")
    assert (
        frames.height
        == pl.read_csv(out / "link.csv")
        .filter(pl.col("event").is_in(["frame_sent", "frame_lost"]))
        .height
    )
    assert (out / "trace.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_the_picture_of_a_link_is_written_alone_and_always_the_same(
    suffix: str, begins: bytes, small: Path, tmp_path: Path
) -> None:
    pictures = [tmp_path / f"{name}.{suffix}" for name in ("one", "two")]
    for picture in pictures:
        done = lasthop("trace", small, "--link", "wireless", "--out", picture)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [str(picture)]
    assert pictures[0].read_bytes().startswith(begins)
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"small.toml"} | {
        picture.name for picture in pictures
    }


@pytest.mark.slow
def test_the_picture_of_a_link_stands_among_the_series(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "traced"
    times = ("--from", "500 ms", "--to", "1.5 s")
    done = lasthop("trace", small, "--link", "wireless", *times, "--out", out)
    assert done.returncode == 0, done.stderr
    assert (out / "sequence.png").is_file()
    assert (out / "trace.png").is_file()


def test_version() -> None:
    assert lasthop("--version").stdout.startswith("lasthop ")


def test_tables_have_units_of_people_and_fit_a_terminal(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._main(["run", str(small)]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 100
    for word in ("Goodput", "(kbps)", "Duration", "(s)", "Timeouts"):
        assert word in printed
    assert cli._main(["run", str(small), "--set", "flow.transfer.transport.variant=sack"]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if "goodput_bps" in x]
    assert "kbps" in line


@pytest.mark.parametrize(
    ("mean", "ci95", "text"),
    [
        (321_456.0, 221_111.0, "0.32 ± 0.22"),
        (2_000_000.0, 12_345.0, "2.000 ± 0.012"),
        (150_000_000.0, 9_900_000.0, "150.0 ± 9.9"),
        (1_500_000.0, 0.0, "1.5 ± 0"),
        (1_500_000.0, None, "1.5"),
        (float("nan"), None, "–"),
    ],
)
def test_a_mean_has_as_many_places_as_its_interval(
    mean: float, ci95: float | None, text: str
) -> None:
    assert labels.measured(mean, ci95, labels.Unit("Mbps", 1e6)) == text


def test_metric_filters_every_format(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", str(small), "--metric", "goodput_bps", "--format"]
    assert cli._main([*run, "json"]) == 0
    for point in json.loads(capsys.readouterr().out)["points"]:
        assert list(point["metrics"]) == ["flow.transfer.goodput_bps"]
    assert cli._main([*run, "csv"]) == 0
    frame = pl.read_csv(capsys.readouterr().out.encode())
    assert frame.columns[-2:] == ["name", "goodput_bps"]
    assert frame["kind"].unique().to_list() == ["flow"]
    assert cli._main([*run, "summary"]) == 0
    summary = pl.read_csv(capsys.readouterr().out.encode())
    assert summary["metric"].unique().to_list() == ["flow.transfer.goodput_bps"]
    assert summary.height == 2
    assert cli._main([*run, "latex"]) == 0
    latex = capsys.readouterr().out
    assert latex.startswith("\\begin{tabular}{lr}\n\\toprule\nTCP & Goodput (kbps) \\\\\n")
    assert "Reno & " in latex
    assert " $\\pm$ " in latex


def test_uneven_intervals_stand_above_and_below_in_latex(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Few replications have a timeout at this loss rate, so that the interval is asymmetric."""
    run = ["run", str(small), "--metric", "timeouts", "--replications", "12"]
    changes = ["link.wireless.protocol=raw", "link.wireless.errors={kind='uniform',loss='1 %'}"]
    sets = [word for change in changes for word in ("--set", change)]
    assert cli._main([*run, *sets, "--format", "latex"]) == 0
    latex = capsys.readouterr().out
    assert re.search(r" & \d+\.\d+\$_\{-\d+\.\d+\}\^\{\+\d+\.\d+\}\$ ", latex), latex
    # pdflatex accepts ASCII without a package.
    assert latex.isascii()


def test_columns_of_latex_have_one_unit(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Swept values in different units, in the commands of siunitx or in plain LaTeX."""
    run = ["run", str(small), "--metric", "goodput_bps", "--replications", "4"]
    text = small.read_text()
    delays = '[sweep]\n"link.wireless.delay" = ["500 us", "10 ms", "20 ms"]\n'
    small.write_text(text.replace("[sweep]\n", delays))
    run += ["--format"]
    assert cli._main([*run, "latex"]) == 0
    plain = capsys.readouterr().out.splitlines()
    assert "(ms)" in plain[2]
    assert {line.split(" & ")[column] for line in plain[4:-2] for column in (0, 1)} >= {
        *("0.5", "10", "20")
    }
    assert cli._main([*run, "siunitx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert r"\usepackage{siunitx}" in lines[0]
    assert r"(\unit{\milli\second})" in lines[3]
    assert r"Goodput (\unit{\kilo\bit\per\second})" in lines[3]
    body = lines[5:-2]
    assert len(body) == len(plain[4:-2]) == 6
    for line in body:
        assert re.search(r"\\num\{(0\.5|10|20)\}", line)
        assert re.search(r"\\num\{\d+(\.\d+)?( \\pm \d+(\.\d+)?)?\}", line)
        assert "$\\pm$" not in line
        assert line.isascii()


def test_differences_from_a_baseline(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", str(small), "--metric", "goodput_bps", "--baseline", "variant=reno"]
    assert cli._main([*run, "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (row,) = printed["differences"]
    first, second = (p["metrics"]["flow.transfer.goodput_bps"]["mean"] for p in printed["points"])
    assert row["mean"] == pytest.approx(second - first)
    assert row["baseline"] == "reno"
    assert cli._main(run) == 0
    assert "Difference from TCP reno" in capsys.readouterr().out
    for text, message in (
        ("variant", "invalid value `variant` for `--baseline`: expected KEY=VALUE"),
        ("variants=reno", "`variants` for `--baseline`; did you mean `flow.transfer.transport.var"),
        (
            "variant=vegas",
            "`vegas` of `flow.transfer.transport.variant` for `--baseline`: expected",
        ),
    ):
        assert cli._main(["run", str(small), "--baseline", text]) == cli.BAD_INPUT
        assert message in capsys.readouterr().err


def test_a_baseline_without_a_metric_has_no_difference(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A raw link reports no timeouts."""
    link = "link.wireless.protocol"
    sweep = f'sweep={{"{link}" = ["raw", "selective-repeat"]}}'
    run = ["run", str(small), "--set", sweep, "--baseline", "protocol=raw"]
    assert cli._main([*run, "--metric", "timeouts", "--metric", "duration_s"]) == 0
    _, _, differences = capsys.readouterr().out.partition("Difference from")
    rows = [line.split("│")[1].strip() for line in differences.splitlines() if line[:1] == "│"]
    assert rows == ["Timeouts", "Duration"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.034, "+3.4 %"), (-0.5, "-50 %"), (3.2, "+320 %"), (9.99, "+999 %"), (24.0, "× 25")],
)
def test_large_changes_are_told_as_factors(share: float, text: str) -> None:
    assert campaigns._change(share) == text


def test_every_option_that_names_a_file_takes_a_tilde() -> None:
    """The shell expands the tilde in `~/a`, but not in `--out=~/a`."""
    found = 0
    for entry in COMMANDS:
        one = command(entry.name)
        for function in one.commands.values() if isinstance(one, Group) else [one]:
            for each in parameters(function):
                if each.kind is Path:
                    found += 1
                    assert each.about.parser in (as_path, as_folder, as_picture), each
    assert found >= 25


def test_every_option_has_one_name() -> None:
    for entry in COMMANDS:
        one = command(entry.name)
        for function in one.commands.values() if isinstance(one, Group) else [one]:
            for each in parameters(function):
                assert each.option is None or re.fullmatch(r"--[a-z][a-z-]*", each.option), each


@pytest.mark.slow
def test_results_are_written_to_the_home_folder(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    words = ["run", str(small), "--replications=2"]
    assert cli._main([*words, "--out=~/results", "--store=~/kept"]) == 0
    assert cli._main(["plot", "~/kept", "--out=~/a.png"]) == 0
    assert cli._main(["report", "~/kept", "--out=~/a.html"]) == 0
    assert cli._main(["trace", str(small), "--out=~/trace", "--link=wireless"]) == 0
    assert cli._main(["new", "file", "--out=~/file.toml"]) == 0
    there = {path.name for path in (tmp_path / "home").iterdir()}
    assert there >= {"results", "kept", "a.png", "a.html", "trace", "file.toml"}
    assert not (tmp_path / "~").exists()


def test_a_terminal_gets_no_escape_codes_from_names(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "\x1b]0;title\x07\x9b2J"
    assert cli._main(["check", f"{code}.toml"]) == 2
    text = small.read_text().replace('name = "small"', 'name = "a\\u001b[2Jb"')
    bad = tmp_path / "bad.toml"
    bad.write_text(text)
    assert cli._main(["check", str(bad)]) == 2
    assert "name: found" in capsys.readouterr().err
    file = tmp_path / f"{code}[bold].toml"
    file.write_text(small.read_text())
    assert cli._main(["check", str(file)]) == 0
    losses = tmp_path / f"{code}[bold].txt"
    losses.write_text("0\n1\n" * 200)
    assert cli._main(["fit", str(losses)]) == 0
    printed = capsys.readouterr()
    assert not set("\x1b\x07\x9b") & set(printed.out + printed.err)
    assert "\\u001b]0;title\\u0007\\u009b2J[bold].txt: 400 frames" in printed.out
