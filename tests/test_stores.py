"""Archives, merging, queries and descriptions of stored results."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lasthop
from lasthop import commands as cli
from lasthop.running import archive as archives
from lasthop.running.campaign.merging import merge

SWEPT = """
name = "swept"
[link.air]
between = ["server", "client"]
rate = "1 Mbps"
delay = "5 ms"
errors = { kind = "uniform", loss = "2 %" }
[flow.file]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "20 kB" }
[run]
replications = 4
[sweep]
"link.air.rate" = ["1 Mbps", "2 Mbps"]
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    lasthop.Campaign(tmp_path / "store").run(lasthop.Scenario.from_toml(SWEPT))
    return tmp_path / "store"


def changed(source: Path, target: Path, name: str, data: bytes, *, sums: bool = True) -> Path:
    """Copies an archive with one changed file, by default with a valid checksum."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for one in old.namelist():
            text = data if one == name else old.read(one)
            if one == archives.CHECKSUMS and sums:
                before = hashlib.sha256(old.read(name)).hexdigest()
                text = text.replace(before.encode(), hashlib.sha256(data).hexdigest().encode())
            new.writestr(one, text)
    return target


def test_an_archive_is_repeated_with_equal_values(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zip"
    files = archives.archive(store, out)
    assert {"README.md", "manifest.json", "reproduce.py", "SHA256SUMS"} < set(files)
    assert {"results/run-1.parquet", "figures/run-1.png", "figures/run-1.html"} < set(files)
    (verdict,) = archives.reproduce(out)
    assert (verdict.replications, verdict.different) == (8, 0)
    with zipfile.ZipFile(out) as packed:
        packed.extractall(tmp_path / "extracted")
    assert archives.reproduce(tmp_path / "extracted") == [verdict]
    again = tmp_path / "again.zip"
    archives.archive(store, again)
    assert again.read_bytes() == out.read_bytes()


def test_a_changed_value_or_file_of_an_archive_is_found(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zip"
    archives.archive(store, out)
    name = "results/run-1.parquet"
    with zipfile.ZipFile(out) as packed:
        (tmp_path / "rows").write_bytes(packed.read(name))
    rows = pl.read_parquet(tmp_path / "rows")
    goodput = "flow.file.goodput_bps"
    other = rows.with_columns(
        pl.when(pl.int_range(pl.len()) == 2)
        .then(np.nextafter(1e6, 2e6))
        .otherwise(goodput)
        .alias(goodput)
    )
    other.write_parquet(tmp_path / "rows")
    data = (tmp_path / "rows").read_bytes()
    (verdict,) = archives.reproduce(changed(out, tmp_path / "value.zip", name, data))
    assert verdict.different == 1
    assert verdict.example.startswith(f"{goodput} of point 0, replication 2, was 1000000.0")
    damaged = changed(out, tmp_path / "file.zip", name, data, sums=False)
    with pytest.raises(archives.ArchiveError, match=f"{name}: changed since"):
        archives.reproduce(damaged)


def test_the_command_reports_equality_by_its_exit_code(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out.zip")
    assert cli._main(["archive", str(store), out]) == 0
    assert cli._main(["archive", str(store), out]) == 2
    assert "file exists" in capsys.readouterr().err
    assert cli._main(["reproduce", out]) == 0
    assert "run 1, swept: 8 replications, all values equal" in capsys.readouterr().out
    (tmp_path / "not.zip").write_text("text")
    assert cli._main(["reproduce", str(tmp_path / "not.zip")]) == 2
    assert "not a ZIP file" in capsys.readouterr().err


@pytest.mark.slow
def test_recordings_are_archived(tmp_path: Path) -> None:
    (tmp_path / "lost.txt").write_text("0\n1\n0\n")
    text = SWEPT.replace('kind = "uniform", loss = "2 %"', 'kind = "trace", file = "lost.txt"')
    lasthop.Campaign(tmp_path / "s").run(lasthop.Scenario.from_toml(text, base=tmp_path))
    with pytest.raises(archives.ArchiveError, match=r"cannot read `lost.txt`.*--base"):
        archives.archive(tmp_path / "s", tmp_path / "a.zip", base=tmp_path / "s")
    archives.archive(tmp_path / "s", tmp_path / "a.zip", base=tmp_path)
    (tmp_path / "lost.txt").unlink()
    assert [one.different for one in archives.reproduce(tmp_path / "a.zip")] == [0]


def test_merged_folders_have_the_results_of_one(store: Path, tmp_path: Path) -> None:
    scenario = lasthop.Scenario.from_toml(SWEPT)
    other, whole = (lasthop.Campaign(tmp_path / name) for name in ("other", "whole"))
    other.run(scenario, replications=6)
    expected = whole.run(scenario, replications=6)
    found = merge([store, other.folder], tmp_path / "merged")
    assert (found.points, found.added, found.known) == (2, 12, 8)
    merged = lasthop.Campaign(tmp_path / "merged")
    results = merged.results()
    assert (results.values == expected.values).all()
    # Nothing is missing: the same command runs nothing.
    assert merged.plan(scenario, replications=6).missing == 0
    again = merge([store], tmp_path / "merged")
    assert (again.added, again.known) == (0, 8)
    with pytest.raises(lasthop.CampaignError, match="into itself"):
        merge([store], store)
    with pytest.raises(lasthop.CampaignError, match="not a campaign"):
        merge([tmp_path / "nothing"], tmp_path / "merged")


def test_queries_have_the_points_of_runs_and_swept_numbers(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = 'SELECT run, point, "link.air.rate_bps" AS rate, count(*) AS n FROM results '
    sql += 'GROUP BY run, point, "link.air.rate_bps" ORDER BY point'
    assert cli._main(["query", str(store), sql, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == [
        {"run": 1, "point": 0, "rate": 1e6, "n": 4},
        {"run": 1, "point": 1, "rate": 2e6, "n": 4},
    ]
    results = lasthop.Campaign(store).results()
    frame = lasthop.Campaign(store).frame("goodput").sort("point", "replication").collect()
    assert frame["point"].to_list() == results.point.tolist()
    for column in ("nothing", 'avg("link.air.rate")'):
        assert cli._main(["query", str(store), f"SELECT {column} FROM results"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("lasthop: invalid SQL: ")
        assert error.endswith("use `SELECT * FROM results LIMIT 1`\n")
        assert "Resolved plan" not in error


def test_wide_rows_are_printed_as_records(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table of all columns is wider than any terminal: each row is a table of its own."""
    sql = "SELECT * FROM results WHERE replication = 0 ORDER BY point"
    assert cli._main(["query", str(store), sql]) == 0
    wide = capsys.readouterr().out
    assert "row 1" in wide
    assert "row 2" in wide
    cells = [line.split("│")[1:3] for line in wide.splitlines() if line.startswith("│")]
    found = {name.strip(): value.strip() for name, value in cells}
    assert found["link.air.rate_bps"] == "2000000"
    assert cli._main(["query", str(store), "SELECT run, point FROM results LIMIT 2"]) == 0
    assert "row 1" not in capsys.readouterr().out


def test_explain_describes_the_runs_of_a_folder(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._main(["explain", str(store)]) == 0
    out = capsys.readouterr().out
    assert "Run 1, swept: complete, seed 1" in out
    assert "point 1: Link rate 2 Mbps; 4 replications" in out


def test_explain_refuses_a_folder_that_is_not_a_campaign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._main(["explain", str(tmp_path)]) == 2
    assert f"{tmp_path}: not a campaign" in capsys.readouterr().err
