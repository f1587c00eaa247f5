"""`lasthop explore`: presets, alternatives of a sweep, invalid arguments."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

import lasthop
from explorer import QUESTION
from lasthop.commands import _main as run_command
from lasthop.page import presets


def test_every_preset_runs_and_has_a_source() -> None:
    begin = presets.starting_point()["scenario"]
    names = [one["name"] for one in presets.presets()]
    assert len(names) == len(set(names)) >= 7
    assert {"wifi-4", "wifi-5", "wifi-6"} <= set(names)
    for one in presets.presets():
        assert one["source"]
        assert one["chosen"]
        if "link" not in one:
            tables = copy.deepcopy(one["scenario"])
            tables["flow"]["download"]["app"]["size"] = "20 kB"
            results = lasthop.run(tables, replications=1)
            assert results.point_intervals(0)["flow.download.goodput_bps"].mean > 0, one["name"]
            continue
        tables = copy.deepcopy(begin)
        tables["link"]["radio"] = {"between": ["server", "phone"], **one["link"]}
        if "segment" in one:
            tables["flow"]["download"]["transport"]["segment"] = one["segment"]
        tables["flow"]["download"]["app"]["size"] = "20 kB"
        results = lasthop.run(tables, replications=1)
        assert results.point_intervals(0)["flow.download.goodput_bps"].mean > 0, one["name"]


def test_a_sweep_becomes_alternatives() -> None:
    scenario = lasthop.Scenario(QUESTION["scenario"]).sweep(
        {
            "link.radio.errors.loss": [f"{n} %" for n in range(1, 9)],
            "flow.download.transport.variant": ["reno", "sack"],
        }
    )
    found = presets.split(scenario)
    assert [one["label"] for one in found["alternatives"]] == [f"{n} %" for n in range(1, 7)]
    assert found["alternatives"][2]["changes"] == {
        "link.radio.errors.loss": "3 %",
        "flow.download.transport.variant": "reno",
    }
    assert "sweep" not in found["scenario"]
    cases = lasthop.Scenario(QUESTION["scenario"]).sweep(
        case={"a": {}, "b": {"link.radio.rate": "1 Mbps"}}
    )
    assert presets.split(cases)["alternatives"] == [
        {"label": "a", "changes": {}},
        {"label": "b", "changes": {"link.radio.rate": "1 Mbps"}},
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.toml"], "absent.toml"),
        (["."], "not a campaign"),
        (["http://127.0.0.1:1/"], "expected an address with a part after `#`"),
        (["--port", "99999"], "--port"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["explore", "--no-browser", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
