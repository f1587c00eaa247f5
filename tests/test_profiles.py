"""Profiles: named scenarios of common links."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

import lasthop
from command import lasthop as command
from lasthop.scenarios.profiles import Profile, profiles
from lasthop.scenarios.starter import TEMPLATES, starter


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


def test_bursts_of_profiles_and_templates_are_in_time() -> None:
    """A process with one step per frame would not advance during a retransmission timeout."""
    texts = {name: starter(name, name) for name in TEMPLATES}
    found = {name: lasthop.Scenario.from_toml(text).to_dict() for name, text in texts.items()}
    found |= {one.name: dict(one.tables) for one in profiles().values()}

    def kinds(value: object) -> list[str]:
        if not isinstance(value, dict):
            return []
        own = value.get("errors")
        nested = [own] if isinstance(own, dict) else []
        nested += [one for part in nested for one in part.values() if isinstance(one, dict)]
        mine = [own] if isinstance(own, str) else [str(one["kind"]) for one in nested]
        return mine + [kind for child in value.values() for kind in kinds(child)]

    used = {name: kinds(tables) for name, tables in found.items()}
    assert {"two-state", "slotted-gilbert-elliott"} <= {
        kind for own in used.values() for kind in own
    }
    for name, own in used.items():
        assert not {"gilbert-elliott", "markov-chain", "trace"} & set(own), name
