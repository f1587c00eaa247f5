"""Error messages of commands."""

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
        (["run", "absent.toml"], "cannot read `absent.toml`: No such file"),
        (["run", "."], "Is a directory"),
        (["run", "FILE", "--set", "nonsense"], "expected KEY=VALUE"),
        (["run", "FILE", "--replications", "0"], "replications"),
        (["run", "FILE", "--jobs", "-1"], "jobs"),
        (["run", "FILE", "--format", "xml"], "xml"),
        (["run", "FILE", "--out", "FILE"], "cannot write to"),
        (["run"], "FILE"),
        (["run", "FILE", "--metric", "flow.zzz.*"], "`flow.zzz.*` for `--metric`: expected"),
        (["fly"], "fly"),
        (["run", "FILE", "--reps", "3"], "unknown option `--reps`; did you mean `--replications`?"),
        (["run", "FILE", "--foo", "3"], "unknown option `--foo`"),
        (["list", "xyz"], "unknown category `xyz`: expected links"),
        (["trace", "FILE", "--point", "9"], "invalid value `9` for `--point`"),
        (["trace", "FILE", "--link", "moon", "--out", "a.png"], "unknown link `moon`: expected"),
        (["trace", "FILE", "--out", "a.png"], "a folder, or a picture with `--link`"),
        (["trace", "FILE", "--from", "1 s"], "`--from` and `--to` require `--link NAME`"),
        (
            ["trace", "FILE", "--link", "wireless", "--from", "1"],
            "invalid value `1` for `--from`: expected a",
        ),
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
            "invalid value `2 s` for `--from`: expected 0 s to before 1 s",
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
            "frames from 0 s to 7 s: expected at most 120; choose",
        ),
        (["reproduce", "absent"], "expected arq-and-tcp, disruption, link-enhancements"),
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
        (
            ["--replications", "0"],
            "invalid value `0` for `--replications`: expected an integer of at least",
        ),
        (["--seed", "x"], "invalid value `x` for `--seed`: expected an integer"),
        (["--dry-run", "--until", "godput_bps=1%"], "unknown metric `godput_bps` for `--until`; "),
        (["--dry-run", "--compare-theory"], "cannot use `--dry-run` with `--compare-theory`"),
        (
            ["--format", "xml"],
            "invalid value `xml` for `--format`: expected table, csv, json, parquet",
        ),
        (
            ["--until", "x=3%"],
            "unknown metric `x` for `--until`: expected flow.transfer.goodput_bps, ",
        ),
        (
            ["--until", "*.goodpit=3%"],
            "unknown metric `*.goodpit` for `--until`; did you mean `flow",
        ),
        (["--set", "link.wireless.errors.loss=nan"], "link.wireless.errors.loss: found nan;"),
        (["--set", f"run.seed={2**63}"], f"run.seed: found {2**63}; expected a number from -2^63"),
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
    assert done.stderr.startswith("lasthop: invalid value `")
    assert "` for `--store`: expected " in done.stderr


def test_an_unknown_metric_names_the_nearest(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._main(["run", str(small), "--metric", "godput_bps"]) == cli.BAD_INPUT
    assert "; did you mean `flow.transfer.goodput_bps`?" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    before = (tmp_path / "small.toml").read_bytes()
    done = lasthop("trace", "small.toml", "--pcap", "./small.toml", cwd=tmp_path)
    refusal = "invalid value `small.toml` for `--pcap`: expected a file that is not an input"
    assert refusal in done.stderr
    assert (tmp_path / "small.toml").read_bytes() == before
    lasthop("run", "small.toml", "--replications", "2", "--store", "kept", cwd=tmp_path)
    before = (tmp_path / "kept/ledger.sqlite").read_bytes()
    for out in ("kept/ledger.sqlite", "kept/parts/x.html"):
        done = lasthop("report", "kept", "--out", out, cwd=tmp_path)
        assert f"invalid value `{out}` for `--out`: expected a file that" in done.stderr
    assert (tmp_path / "kept/ledger.sqlite").read_bytes() == before


def test_a_series_has_a_bounded_number_of_steps(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    done = lasthop("steady", "small.toml", "--step", "1 ns", cwd=tmp_path)
    assert "invalid value `1e-09 s` for `--step`: expected at least" in done.stderr
    assert "at most 1,000,000 steps" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "FILE", "b", "c"], "unexpected argument `b c` for `run`: expected FILE"),
        (["rum"], "unknown command `rum`; did you mean `run`?"),
        (["repro", "x"], "unknown command `repro`; did you mean `rep"),
        (["analyse", "nosuch"], "unknown command `nosuch`: expected arq, tcp, dcf"),
        (["run", "FILE", "--dry-run=3"], "`--dry-run` does not take a value"),
        (["run"], "missing `FILE`: expected scenario file"),
        (["run", "FILE", "--seed"], "missing value for `--seed`"),
        (
            ["run", "FILE", "--replicatons", "3"],
            "unknown option `--replicatons`; did you mean `--re",
        ),
        (["analyse", "arq", "--bad-to-good", "1"], "missing `--good-to-bad`: expected transition"),
        (
            ["analyse", "arq", "--plot", "a.gif"],
            "invalid value `a.gif` for `--plot`: expected a na",
        ),
        (
            ["diff", "FILE", "FILE", "--level", "x"],
            "invalid value `x` for `--level`: expected a nu",
        ),
        (["run", "FILE", "--out", ""], "invalid value `` for `--out`: expected the name of a file"),
        (
            ["plot", "FILE", "--out", "absent/a.png"],
            "expected a file in an existing, writable fold",
        ),
    ],
    ids=str,
)
def test_errors_of_command_lines_have_the_common_grammar(
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
        assert ("; expected " in error) or (": expected " in error)
    assert len(shortened(f"a: found b; expected {long}")) < 2100
    assert len(shortened(f"invalid value `b` for `a`: expected {long}")) < 2100
