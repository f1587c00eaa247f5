"""Mutated results, captures and options of commands that read them: one message, no traceback."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from lasthop.commands import _main
from lasthop.running.tracing import Trace
from test_fit import capture, radiotap
from test_mutated_input import mutated, refused

SCENARIO = """
name = "small"

[link.wireless]
between = ["server", "client"]
rate = "2 Mbps"
delay = "20 ms"
errors = { kind = "uniform", loss = "1 %" }

[flow.transfer]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "reno" }
app = { kind = "file", size = "20 kB" }

[run]
replications = 3

[sweep]
"link.wireless.errors.loss" = ["0 %", "1 %"]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scenario, results, a campaign, a trace and an IEEE 802.11 capture."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "small.toml").write_text(SCENARIO)
    small = str(folder / "small.toml")
    assert _main(["run", small, "--out", str(folder / "results")]) == 0
    assert _main(["run", small, "--store", str(folder / "store")]) == 0
    assert _main(["trace", small, "--out", str(folder / "trace")]) == 0
    frames = [radiotap(number // 3, retry=number % 3 > 0) for number in range(60)]
    (folder / "air.pcap").write_bytes(capture(frames))
    return folder


@pytest.mark.parametrize(
    ("damaged", "arguments"),
    [
        ("air.pcap", ["fit", "air.pcap", "--model", "uniform"]),
        ("results/replications.parquet", ["plot", "results/replications.parquet"]),
        pytest.param("results/results.json", ["plot", "results"], marks=pytest.mark.slow),
        ("trace/trace.json", ["plot", "trace"]),
        pytest.param("trace/cwnd.csv", ["plot", "trace"], marks=pytest.mark.slow),
        pytest.param(
            "trace/frames.csv",
            ["plot", "trace", "--kind", "ladder", "--link", "wireless"],
            marks=pytest.mark.slow,
        ),
        ("store/ledger.sqlite", ["report", "store"]),
        ("store/ledger.sqlite", ["diff", "store", "store"]),
        ("store/ledger.sqlite", ["run", "small.toml", "--store", "store"]),
        ("store/parts/part-00000001.parquet", ["report", "store"]),
        ("store/parts/part-00000001.parquet", ["diff", "store", "store"]),
    ],
)
def test_damaged_results_are_refused_in_one_line(
    damaged: str,
    arguments: list[str],
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = random.Random(f"{damaged} {arguments}")
    whole = (made / damaged).read_bytes()
    for number in range(6):
        folder = tmp_path / str(number)
        shutil.copytree(made, folder)
        data = whole[: rng.randrange(len(whole))] if number < 2 else mutated(whole, rng)
        (folder / damaged).write_bytes(data)
        monkeypatch.chdir(folder)
        refused(arguments, data, capsys)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("cwnd", "0.1,flow.transfer"),
        ("cwnd", ",flow.transfer,cwnd,,1.0"),
        ("cwnd", "nan,flow.transfer,cwnd,,1.0"),
        ("link", "0.1,,lost,0.0,"),
        ("frames", "link.wireless.forward,data,0,1,,false,0,0,0,,,52,0.0,inf,"),
        ("frames", "link.wireless.forward,,0,1,,false,0,0,0,,,52,0.0,0.1,"),
    ],
)
def test_rows_of_traces_without_a_required_value_are_refused(
    name: str, row: str, made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made / "trace", tmp_path / "trace")
    lines = (tmp_path / "trace" / f"{name}.csv").read_text().splitlines()
    lines[1] = row
    (tmp_path / "trace" / f"{name}.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"line 2: invalid value `.*` for `"):
        Trace.read(tmp_path / "trace")


OPTIONS = (
    ["plot", "results", "--x", "no.such"],
    ["plot", "results", "--y", "*"],
    ["plot", "results", "--y", "["],
    ["plot", "results", "--where", "=1"],
    ["plot", "results", "--where", "a=b"],
    ["plot", "results", "--out", "no/such/folder/a.png"],
    ["plot", "results", "--out", "a.txt"],
    ["plot", "small.toml", "--y", "nothing"],
    ["plot", "air.pcap"],
    ["plot", "store"],
    ["diff", "results", "store"],
    ["diff", "store", "nowhere"],
    ["diff", "store", "store", "--level", "nan"],
    ["diff", "store", "store", "--level", "2"],
    ["diff", "small.toml", "store"],
    ["report", "results"],
    ["report", "store", "--run", "9"],
    ["report", "store", "--run", "-1"],
    ["report", "store", "--baseline", "x"],
    ["report", "store", "--baseline", "link.wireless.errors.loss=7 %"],
    ["report", "store", "--out", "no/such/folder/a.html"],
    ["advise", "small.toml", "--want", ""],
    ["advise", "small.toml", "--want", "goodput <"],
    ["advise", "small.toml", "--want", "nothing"],
    ["advise", "small.toml", "--want", "goodput < nan"],
    ["advise", "small.toml", "--want", "goodput", "--traffic", "file 1e99 GB"],
    ["advise", "small.toml", "--want", "goodput", "--link", "none"],
    ["advise", "small.toml", "--want", "goodput", "--protocol", "none"],
    ["advise", "small.toml", "--want", "goodput", "--transport", ""],
    ["fit", "air.pcap", "--transmitter", "xx"],
    ["fit", "air.pcap", "--frame", "-1 B"],
    ["fit", "air.pcap", "--plot", "no/such/folder/a.png"],
    ["trace", "small.toml", "--point", "7"],
    ["trace", "small.toml", "--link", "none"],
    ["trace", "small.toml", "--link", "wireless", "--from", "9 s", "--to", "1 s"],
)


@pytest.mark.parametrize("arguments", OPTIONS, ids=" ".join)
def test_options_are_refused_in_one_line(
    arguments: list[str],
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    refused(arguments, arguments, capsys)
