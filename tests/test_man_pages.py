"""The man pages name all commands and keys."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lasthop
from conftest import ROOT
from lasthop.commands.app import COMMANDS


@pytest.mark.slow
def test_man_pages_contain_commands_and_keys(tmp_path: Path) -> None:
    pytest.importorskip("myst_parser", reason="myst-parser is not installed: pyproject.toml, docs")
    tool = [sys.executable, str(ROOT / "tools" / "man_pages.py")]
    done = subprocess.run([*tool, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    commands = (tmp_path / "man1" / "lasthop.1").read_text(encoding="utf-8")
    assert '.TH "LASTHOP" "1"' in commands
    for one in COMMANDS:
        assert re.search(rf"^\.SH {one.name.upper()}\b", commands, re.MULTILINE | re.IGNORECASE)
    # An option is the term of a definition.
    assert re.search(r"^\.TP\n(\.B )?\\fB\\-\\-replications N", commands, re.MULTILINE)
    assert ".md" not in commands
    keys = (tmp_path / "man5" / "lasthop-scenario.5").read_text(encoding="utf-8")
    for group in lasthop.schema()["properties"]:
        assert group in keys
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Usage:" in done.stderr
