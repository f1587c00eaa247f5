"""`lasthop doctor`: installed and missing components."""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest

from lasthop.commands import doctor
from lasthop.commands.app import run_command


def test_every_part_has_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["doctor", "--format", "json"]) == 0
    found = {one["part"]: one for one in json.loads(capsys.readouterr().out)}
    assert {"lasthop", "Python", "optuna", "distributed", "dpkt", "tshark"} <= set(found)
    assert found["lasthop"]["present"]


def test_a_missing_extra_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "optuna" else find(name)
    )
    monkeypatch.setattr(doctor, "_live", list)
    found = {one.part: one for one in doctor.findings()}
    assert not found["optuna"].present
    assert found["optuna"].detail == "run `pip install 'lasthop[advise]'`"
    assert found["dpkt"].present


def test_the_table_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor, "_live", list)
    assert run_command(["doctor"]) == 0
    assert "package tshark" in capsys.readouterr().out
