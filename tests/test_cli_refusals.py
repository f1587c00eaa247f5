"""What commands refuse, and how they tell it."""

import os
from pathlib import Path

import pytest

from command import lasthop
from conftest import SMALL
from lasthop import commands as cli
from lasthop.commands.output import shortened


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.toml"], "absent.toml: No such file"),
        (["run", "."], "Is a directory"),
        (["run", "FILE", "--set", "nonsense"], "allowed: KEY=VALUE"),
        (["run", "FILE", "--replications", "0"], "replications"),
        (["run", "FILE", "--jobs", "-1"], "jobs"),
        (["run", "FILE", "--format", "xml"], "xml"),
        (["run", "FILE", "--out", "FILE"], "--out"),
        (["run"], "FILE"),
        (["run", "FILE", "--metric", "flow.nobody.*"], "--metric: found 'flow.nobody.*'; allowed"),
        (["fly"], "fly"),
        (["list", "planets"], "'planets'; allowed: links"),
        (["trace", "FILE", "--point", "9"], "point: found 9"),
        (["trace", "FILE", "--link", "moon", "--out", "a.png"], "--link: found 'moon'; allowed"),
        (["trace", "FILE", "--out", "a.png"], "a folder, or a picture with --link"),
        (["trace", "FILE", "--from", "1 s"], "--from, --to: found no link"),
        (["trace", "FILE", "--link", "wireless", "--from", "1"], '--from: found "1"; allowed: a'),
        (
            [
                "trace",
                "FILE",
                "--link",
                "wireless",
                "--from",
                "2 s",
                "--to",
                "1 s",
                "--out",
                "a.png",
            ],
            "--from: found 2 s; allowed: from 0 s to before 1 s",
        ),
        (
            [
                "trace",
                "FILE",
                "--link",
                "wireless",
                "--to",
                "7 s",
                "--from",
                "0 s",
                "--out",
                "a.png",
            ],
            "frames from 0 s to 7 s; allowed: at most 120",
        ),
        (["reproduce", "absent"], "allowed: arq-and-tcp, disruption, link-enhancements"),
        (["reproduce", "multilayer", "Table XX"], "no such table or figure"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli._main([str(small) if word == "FILE" else word for word in arguments])
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_broken_json_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "half.json"
    path.write_text('{"name": "x",')
    assert cli._main(["check", str(path)]) == 2
    assert "scenario: found broken JSON: EOF" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--replications", "0"], "--replications: found '0'; allowed: a whole number of at least"),
        (["--seed", "x"], "--seed: found 'x'; allowed: a whole number"),
        (["--dry-run", "--until", "godput_bps=1%"], "--until: found 'godput_bps'; allowed: "),
        (["--dry-run", "--compare-theory"], "--dry-run: found --compare-theory of no results"),
        (["--format", "xml"], "--format: found 'xml'; allowed: table, csv, json, parquet"),
        (["--until", "x=3%"], "--until: found 'x'; allowed: flow.transfer.goodput_bps, flow."),
        (["--until", "*.goodput=3%"], "allowed: flow.transfer.goodput_bps, with * and ?"),
        (["--set", "link.wireless.errors.loss=nan"], "link.wireless.errors.loss: found nan; allow"),
        (["--set", f"run.seed={2**63}"], f"run.seed: found {2**63}; allowed: a number from -2^63"),
    ],
)
def test_refusals_name_the_option_or_key_and_what_was_found(
    small: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert cli._main(["run", str(small), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("lasthop: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("folder", ["", " ", os.fsdecode(b"\xff")])
def test_what_is_no_name_of_a_folder_is_refused_before_anything_is_run(
    small: Path, folder: str
) -> None:
    done = lasthop("run", small, "--replications", "1000000", "--store", folder)
    assert done.returncode == cli.BAD_INPUT
    assert done.stderr.startswith("lasthop: --store: found ")
    assert "; allowed: " in done.stderr


def test_an_unknown_metric_names_the_nearest(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._main(["run", str(small), "--metric", "godput_bps"]) == cli.BAD_INPUT
    assert "nearest is flow.transfer.goodput_bps; allowed: " in capsys.readouterr().err


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    before = (tmp_path / "small.toml").read_bytes()
    done = lasthop("trace", "small.toml", "--pcap", "./small.toml", cwd=tmp_path)
    assert "--pcap: found small.toml, which is read; allowed: another file" in done.stderr
    assert (tmp_path / "small.toml").read_bytes() == before
    lasthop("run", "small.toml", "--replications", "2", "--store", "kept", cwd=tmp_path)
    before = (tmp_path / "kept/ledger.sqlite").read_bytes()
    for out in ("kept/ledger.sqlite", "kept/parts/x.html"):
        done = lasthop("report", "kept", "--out", out, cwd=tmp_path)
        assert f"--out: found {out}, which is read" in done.stderr
    assert (tmp_path / "kept/ledger.sqlite").read_bytes() == before


def test_a_series_has_a_bounded_number_of_steps(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    done = lasthop("steady", "small.toml", "--step", "1 ns", cwd=tmp_path)
    assert "step: found 1e-09 s; allowed: at least" in done.stderr
    assert "at most 1,000,000 steps" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "FILE", "b", "c"], "run: found b c after the last argument; allowed: FILE"),
        (["rum"], "found no command rum, nearest is run; allowed: run, "),
        (["repro", "x"], "found no command repro, nearest is rep"),
        (["analyse", "nosuch"], "found no command nosuch; allowed: arq, tcp, dcf"),
        (["run", "FILE", "--dry-run=3"], "--dry-run: found a value; allowed: none"),
        (["run"], "FILE: found nothing; allowed: Scenario file"),
        (["run", "FILE", "--seed"], "--seed: found no value; allowed: one"),
        (["run", "FILE", "--replicatons", "3"], "nearest is --replications; allowed: --accept-"),
        (["analyse", "arq", "--bad-to-good", "1"], "--good-to-bad: found nothing; allowed: Per"),
        (["analyse", "arq", "--plot", "a.gif"], "--plot: found 'a.gif'; allowed: a name that end"),
        (["diff", "FILE", "FILE", "--level", "x"], "--level: found 'x'; allowed: a number"),
        (["run", "FILE", "--out", ""], "--out: found ''; allowed: the name of a file or folder"),
        (["plot", "FILE", "--out", "absent/a.png"], "--out: found no folder absent"),
    ],
    ids=str,
)
def test_what_typer_refuses_is_told_as_all_else(
    small: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert cli._main([str(small) if word == "FILE" else word for word in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_long_values_are_cut_in_messages(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 5000
    for options in (
        ["--set", f"link.wireless.rate={long}"],
        ["--set", f"link.{long}.rate=3"],
        ["--set", long],
        ["--format", long],
        ["--metric", long],
        ["--baseline", f"{long}=1"],
    ):
        assert cli._main(["run", str(small), *options]) == 2
        error = capsys.readouterr().err
        assert len(error) < 1000
        assert "…" in error
        assert "; allowed: " in error
    assert len(shortened(f"a: found b; allowed: {long}")) < 2100
