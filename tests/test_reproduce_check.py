"""The tool that recomputes stored results of studies."""

import runpy
from pathlib import Path

import pytest

from lasthop.studies import studies

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "reproduce_check.py"))


def test_every_study_has_digests_of_all_its_tables_and_figures() -> None:
    import json

    for key, study in studies().items():
        stored = json.loads((TOOL["PAPERS"] / key / "check.json").read_text(encoding="utf-8"))
        assert set(stored) == {artefact.name for artefact in study.artefacts}, key


@pytest.mark.slow
def test_results_of_a_study_are_those_that_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table I of multilayer with 3 replications matches its stored digest, unlike another seed."""
    study = studies()["multilayer"]
    table = study.find(["Table I"])
    monkeypatch.setattr(type(study), "find", lambda self, names: table)
    found = TOOL["digests"](study, 0, None)
    assert list(found) == ["Table I"]
    differences = TOOL["quick"](study, 0, None, write=False)
    assert "Table I: other numbers" not in differences
    monkeypatch.setattr(study, "seed", 2)
    assert "Table I: other numbers" in TOOL["quick"](study, 0, None, write=False)
