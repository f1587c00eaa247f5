"""What is promised of versions, completion and packages."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lasthop
from conftest import ROOT
from lasthop.catalogue import keys

HERE = Path(__file__).parent


def test_the_schema_keeps_what_its_version_promises() -> None:
    version = str(lasthop.schema()["$id"]).removeprefix("urn:lasthop:scenario:")
    major = version.partition(".")[0]
    recorded = (HERE / f"scenario-keys-{major}.0.txt").read_text().split("\n")[:-1]
    gone = sorted(set(recorded) - set(keys()))
    # Taken away or renamed: raise SCHEMA_VERSION (crates/lasthop/src/scenario/schema.rs), write
    # `lasthop.catalogue.keys()` to the file of that version, tell it in docs/upgrading.md.
    assert gone == []


def test_keys_name_kinds_and_words() -> None:
    known = keys()
    assert "link.*.protocol[selective-repeat].window" in known
    assert "flow.*.transport[tcp].variant=sack" in known
    assert "run.seed" in known


def test_extras_pin_one_version_each() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, names in project["optional-dependencies"].items():
        for name in names:
            assert "==" in name, (extra, name)


def test_the_citation_has_the_version_of_the_package() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert f"version: {lasthop.__version__}\n" in text


@pytest.mark.parametrize(
    ("words", "place", "expected"),
    [
        ("lasthop re", 1, {"report", "reproduce"}),
        ("lasthop fit --ra", 2, {"--rate", "--rates"}),
        ("lasthop analyse t", 2, {"tcp"}),
    ],
)
def test_shells_complete_commands_and_their_options(
    words: str, place: int, expected: set[str]
) -> None:
    env = {
        **os.environ,
        "_LASTHOP_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(place),
    }
    code = "from lasthop.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, timeout=120
    )
    assert set(done.stdout.split()) == expected
