"""Profiles: named scenarios of common links."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

import lasthop
from command import lasthop as command
from lasthop.scenarios.profiles import Profile, profiles


@pytest.mark.parametrize("one", profiles().values(), ids=lambda one: one.name)
def test_a_profile_delivers_its_download(one: Profile) -> None:
    assert one.name == one.tables["name"]
    assert one.source
    assert one.chosen
    tables = copy.deepcopy(one.tables)
    tables["flow"]["download"]["app"]["size"] = "20 kB"
    results = lasthop.run(tables, replications=1)
    assert results.point_intervals(0)["flow.download.complete"].mean == 1


def test_commands_accept_the_name_of_a_profile() -> None:
    assert command("check", "lte").stdout == "lte: valid, 1 point\n"
    assert "LEO constellation" in command("list", "profiles").stdout
    refused = command("check", "ltee")
    assert refused.returncode == 2
    assert "unknown profile `ltee`; did you mean `lte`?" in refused.stderr
    both = command("live", "--profile", "lte", "x.toml", "--", "true")
    assert both.returncode == 2
    assert "cannot use `--profile` with a scenario file" in both.stderr


def test_a_new_scenario_from_a_profile_keeps_sources(tmp_path: Path) -> None:
    made = command("new", "train", "--template", "lte-train", "--out", str(tmp_path / "train.toml"))
    assert made.returncode == 0, made.stderr
    text = (tmp_path / "train.toml").read_text()
    assert "# Source: " in text
    assert lasthop.load(tmp_path / "train.toml").to_dict()["name"] == "train"
