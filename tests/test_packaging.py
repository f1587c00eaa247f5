"""Guarantees on versions, completion and packages."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

import lasthop
from conftest import ROOT
from lasthop.scenarios.catalogue import keys

HERE = Path(__file__).parent


def least_version(recorded: Mapping[tuple[int, int], set[str]], known: set[str]) -> tuple[int, int]:
    """The version of a schema with these keys, according to the rule of docs/upgrading.md.

    Args:
        recorded: The keys of each version that has a list.
        known: The keys of the schema.
    """
    newest = max(recorded)
    gone = {key for version, keys in recorded.items() if version[0] == newest[0] for key in keys}
    if gone - known:
        return newest[0] + 1, 0
    return (newest[0], newest[1] + 1) if known - recorded[newest] else newest


def test_the_schema_has_the_version_that_its_rule_asks_for() -> None:
    recorded = {
        (int(major), int(minor)): set(file.read_text().split("\n")[:-1])
        for file in HERE.glob("scenario-keys-*.txt")
        for major, minor in [file.stem.removeprefix("scenario-keys-").split(".")]
    }
    version = str(lasthop.schema()["$id"]).removeprefix("urn:lasthop:scenario:")
    # If this fails, SCHEMA_VERSION (crates/lasthop-sim/src/scenario/schema.rs) must be the version
    # on the right; if keys were removed, docs/upgrading.md describes the change of files.
    assert tuple(map(int, version.split("."))) == least_version(recorded, set(keys()))
    assert f"`urn:lasthop:scenario:{version}`" in (ROOT / "docs" / "upgrading.md").read_text()


@pytest.mark.parametrize(
    ("known", "version"),
    [("abc", (1, 1)), ("abcd", (1, 2)), ("bcd", (2, 0)), ("ab", (2, 0)), ("", (2, 0))],
)
def test_added_keys_raise_the_second_number_and_lost_ones_the_first(
    known: str, version: tuple[int, int]
) -> None:
    recorded = {(0, 9): set("xyz"), (1, 0): set("ab"), (1, 1): set("abc")}
    assert least_version(recorded, set(known)) == version


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
    ("words", "expected"),
    [
        ("lasthop re", {"report", "reproduce"}),
        ("lasthop fit --ra", {"--rate", "--rates"}),
        ("lasthop run --format la", {"latex"}),
        ("lasthop analyse t", {"tcp"}),
        ("lasthop analyse arq --good", {"--good-to-bad"}),
    ],
)
def test_shells_complete_commands_and_their_options(
    words: str, expected: set[str], tmp_path: Path
) -> None:
    output = tmp_path / "completions"
    env = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(output),
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": words,
        "COMP_POINT": str(len(words)),
    }
    code = "from lasthop.commands import main; main()"
    subprocess.run([sys.executable, "-c", code], env=env, timeout=120, check=True)
    assert set(output.read_text().split()) == expected


def test_completion_is_installed_once(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/bash"}
    (tmp_path / ".bashrc").write_text("alias ls='ls -l'")
    code = "from lasthop.commands import main; main()"
    for _ in range(2):
        words = [sys.executable, "-c", code, "--install-completion"]
        subprocess.run(words, env=env, timeout=120, check=True, stdout=subprocess.DEVNULL)
    line = 'eval "$(lasthop --show-completion=bash)"'
    assert (tmp_path / ".bashrc").read_text() == f"alias ls='ls -l'\n{line}\n"
    words = [sys.executable, "-c", code, "--show-completion=bash"]
    shown = subprocess.run(words, env=env, timeout=120, check=True, stdout=subprocess.PIPE)
    bash = subprocess.run(
        ["bash", "-c", f"{shown.stdout.decode()}\ncomplete -p lasthop"], check=True
    )
    assert bash.returncode == 0
