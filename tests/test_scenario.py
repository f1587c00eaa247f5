import copy
import json
import pickle
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lasthop
from conftest import ROOT, SMALL
from lasthop import commands as cli

TABLE = ROOT / "crates/lasthop/tests/suite/data/bad-scenarios.toml"
BASE = ROOT / "examples/sr-file-transfer.toml"
CASES: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["case"]


def tables_without(key: str) -> dict[str, Any]:
    tables = tomllib.loads(BASE.read_text())
    del tables["sweep"]
    *parents, last = key.split(".")
    inner = tables
    for parent in parents:
        inner = inner[parent]
    del inner[last]
    return tables


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_python_refuses(case: dict[str, Any]) -> None:
    def build() -> lasthop.Scenario:
        if "text" in case:
            return lasthop.Scenario.from_toml(case["text"])
        if "without" in case:
            return lasthop.Scenario(tables_without(case["without"]))
        return lasthop.load(BASE).with_(case["set"])

    with pytest.raises(lasthop.ScenarioError) as caught:
        build().points()
    for text in case["expect"]:
        assert text in str(caught.value)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_command_line_refuses(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = []
    if "text" in case:
        path = tmp_path / "bad.toml"
        path.write_text(case["text"])
    elif "without" in case:
        path = tmp_path / "bad.json"
        path.write_text(json.dumps(tables_without(case["without"])))
    else:
        path = BASE
        arguments = [f"--set={key}={value}" for key, value in case["set"].items()]
    assert cli._main(["run", str(path), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("lasthop: ")
    assert printed.err.count("\n") == 1
    for text in case["expect"]:
        # A file precedes its line and column: `bad.toml:2:8: `.
        place = re.fullmatch(r"line (\d+)(?:, column (\d+))?", text)
        words = f"bad.toml:{':'.join(filter(None, place.groups()))}:" if place else text
        assert " ".join(words.split()) in printed.err


def test_the_ways_to_build_a_scenario_agree(small: Path) -> None:
    of_file = lasthop.load(small)
    of_text = lasthop.Scenario.from_toml(SMALL)
    of_mapping = lasthop.Scenario(tomllib.loads(SMALL))
    hashes = [[point.hash for point in s.points()] for s in (of_file, of_text, of_mapping)]
    assert hashes[0] == hashes[1] == hashes[2]
    assert hashes[0][0] != hashes[0][1]


def test_with_changes_a_copy(small: Path) -> None:
    before = lasthop.load(small)
    after = before.with_({"link.wireless.rate": "1 Mbps", "run.replications": 9})
    assert before["link.wireless.rate"] == "64 kbps"
    assert after["link.wireless.rate"] == "1 Mbps"
    assert after.points()[0].replications == 9
    table = {"kind": "two-state", "good": "10 s", "bad": "1 s", "good_ber": 1e-6, "bad_ber": 0.01}
    assert before.set("link.wireless.errors", table)["link.wireless.errors"] == table


def test_a_key_that_is_set_is_swept_no_more(small: Path) -> None:
    scenario = lasthop.load(small)
    assert len(scenario.points()) == 2
    assert len(scenario.with_({"flow.transfer.transport.variant": "sack"}).points()) == 1


def test_sweep_is_all_against_all_last_key_fastest(small: Path) -> None:
    points = lasthop.load(small).sweep({"link.wireless.delay": ["1 ms", "2 ms"]}).points()
    parameters = [tuple(json.loads(point.parameters).values()) for point in points]
    assert parameters == [("reno", "1 ms"), ("reno", "2 ms"), ("sack", "1 ms"), ("sack", "2 ms")]


def test_missing_keys_and_values_that_are_none() -> None:
    scenario = lasthop.Scenario.from_toml(SMALL)
    with pytest.raises(KeyError, match=r"link\.wireless\.window"):
        scenario["link.wireless.window"]
    with pytest.raises(lasthop.ScenarioError, match=r"invalid value .*in scenario"):
        lasthop.Scenario({"name": object()})
    with pytest.raises(lasthop.ScenarioError, match=r"invalid value .*in scenario"):
        scenario.with_({"run.seed": object()})


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(lasthop.ScenarioError, match="UTF-8"):
        lasthop.load(path)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.stem)
def test_examples_are_right(path: Path) -> None:
    assert lasthop.load(path).points()


def test_schema_describes_the_top_level() -> None:
    assert {"name", "link", "flow", "sweep", "run"} <= set(lasthop.schema()["properties"])


def test_sweeps_take_ranges_zipped_lists_and_cases(small: Path) -> None:
    scenario = lasthop.load(small).with_({"flow.transfer.transport.variant": "reno"})
    swept = scenario.sweep(
        {"link.wireless.delay": {"from": "1 ms", "to": "9 ms", "step": "4 ms"}},
        zip=[
            {"link.wireless.rate": ("64 kbps", "2 Mbps"), "link.wireless.queue": ["1 kB", "9 kB"]}
        ],
        case={"lossy": {"link.wireless.errors.loss": 0.2}, "plain": {}},
    )
    labels = [json.loads(point.parameters) for point in swept.points()]
    assert len(labels) == 3 * 2 * 2
    assert labels[0] == {
        "link.wireless.delay": "1 ms",
        "link.wireless.rate": "64 kbps",
        "link.wireless.queue": "1 kB",
        "case": "lossy",
    }
    assert list(labels[-1].values()) == ["9 ms", "2 Mbps", "9 kB", "plain"]
    with pytest.raises(
        lasthop.ScenarioError, match="found 5; expected a list of at least one value"
    ):
        scenario.sweep({"link.wireless.delay": 5})


def test_numbers_of_numpy_are_numbers() -> None:
    first = lasthop.load(ROOT / "examples/first.toml")
    changed = first.set("link.wireless.errors.loss", np.float64(0.125))
    assert changed["link.wireless.errors.loss"] == 0.125
    assert changed.set("run.replications", np.int64(3))["run.replications"] == 3
    swept = first.sweep(
        {
            "flow.transfer.transport.dupack_threshold": np.arange(3, 5),
            "link.wireless.errors.loss": np.array([0.5]),
        }
    )
    assert swept["sweep"] == {
        "flow.transfer.transport.dupack_threshold": [3, 4],
        "link.wireless.errors.loss": [0.5],
    }


def test_scenarios_are_pickled_and_copied() -> None:
    swept = lasthop.load(ROOT / "examples/first.toml").sweep(
        {"flow.transfer.transport.variant": ["reno", "sack"]}
    )
    for made in (pickle.loads(pickle.dumps(swept)), copy.copy(swept), copy.deepcopy(swept)):
        assert made.to_dict() == swept.to_dict()
        assert [one.hash for one in made.points()] == [one.hash for one in swept.points()]
        assert made._base == swept._base


def test_a_json_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    tables = json.dumps(tomllib.loads(SMALL))
    assert tables.count('"rate": "64 kbps"') == 1
    path = tmp_path / "twice.json"
    path.write_text(tables.replace('"rate"', '"rate": "1 Mbps", "rate"'))
    with pytest.raises(lasthop.ScenarioError, match='the key "rate" twice in a table at line 1'):
        lasthop.load(path)


@pytest.mark.slow
def test_a_hundred_thousand_points_are_resolved_in_seconds() -> None:
    """A list of 100,000 values; resolution takes linear time, because points share the list."""
    tables = tomllib.loads(SMALL)
    count = 100_000
    losses = [f"{50 * index / count:.6f} %" for index in range(count)]
    tables["sweep"] = {"link.wireless.errors.loss": losses}
    begin = time.process_time()
    points = lasthop.Scenario(tables).points()
    assert time.process_time() - begin < 20.0
    assert len(points) == count
    assert json.loads(points[-1].parameters) == {"link.wireless.errors.loss": losses[-1]}
    tables["sweep"]["link.wireless.errors.loss"][-1] = losses[0]
    with pytest.raises(lasthop.ScenarioError, match=r'found "0\.000000 %" twice'):
        lasthop.Scenario(tables)


def test_a_recording_is_read_once_for_all_points(tmp_path: Path) -> None:
    recording = tmp_path / "losses.txt"
    recording.write_text("0\n1\n0\n")
    errors = 'errors = { kind = "trace", file = "losses.txt" }'
    text = SMALL.replace('errors = { kind = "uniform", loss = "5 %" }', errors)
    scenario = lasthop.Scenario.from_toml(text, base=tmp_path)
    expected = [point.hash for point in scenario.points()]
    recording.unlink()
    assert [point.hash for point in scenario.points()] == expected
    assert len(scenario.with_({"run.seed": 2}).points()) == 2
    with pytest.raises(lasthop.ScenarioError, match="cannot be read"):
        lasthop.Scenario.from_toml(text, base=tmp_path)
