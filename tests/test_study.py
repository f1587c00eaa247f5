import json
import math
from pathlib import Path

import numpy as np
import pytest

from lasthop import cli
from lasthop.figures.studies import draw_figure
from lasthop.statistics import Estimate
from lasthop.studies import Study, StudyError, studies
from lasthop.studies.claims import Cell, Claim, Missing, Rule, judge


@pytest.fixture(scope="module")
def study() -> Study:
    return studies()["multilayer"]


def test_grid_is_that_of_the_paper(study: Study) -> None:
    cells = study.cells(study.artefacts)
    # 2 topologies, 2 applications, with and without congestion, 9 channels, 4 combinations.
    assert len(cells) == len(set(cells)) == 2 * 2 * 2 * 9 * 4
    assert len(cells) * study.replications == 8640
    hashes = {study.scenario(cell).points()[0].hash for cell in cells}
    assert len(hashes) == len(cells)


def test_artefacts_are_those_of_the_paper(study: Study) -> None:
    names = [artefact.name for artefact in study.artefacts]
    assert len(names) == len(set(names)) == 32
    for numeral in ("I", "II", "III", "IV", "V", "VI", "VII", "VIII"):
        assert f"Table {numeral}" in names
    for number in range(2, 10):
        assert f"Figure {number}" in names


def test_published_numbers_are_those_that_are_held(study: Study) -> None:
    assert set(study.published) == {"Table I", "Table III", "Table V"}
    for cells in study.published.values():
        assert len(cells) == 4 * (1 + 2 * 3)
    table = study.published["Table I"]
    assert table["2.5", "Reno/Raw", "kbps"] == 48.70
    assert table["2.5", "SACK/Raw", "%"] == 16.7
    assert table["2.5", "SACK/Raw", "kbps"] == pytest.approx(56.83)


@pytest.mark.parametrize("name", ["Table I", "table 1", "TABLE  i", "figure2", "Fig. 2"])
def test_names_are_found_however_written(study: Study, name: str) -> None:
    (artefact,) = study.find([name])
    assert artefact.name in {"Table I", "Figure 2"}


def test_unknown_names_are_refused(study: Study) -> None:
    with pytest.raises(StudyError, match="Table IX"):
        study.find(["Table IX"])


def test_wan_and_congestion_change_what_the_paper_says(study: Study) -> None:
    cell = {
        "topology": "WAN",
        "application": "file",
        "congestion": True,
        "model": "two-state",
        "flr": 5.4,
        "combination": "SACK/SR",
    }
    scenario = study.scenario(tuple(sorted(cell.items())))
    assert scenario["link.wired.rate"] == "2 Mbps"
    assert scenario["link.wired.delay"] == "50 ms"
    assert scenario["flow.congestion.app.rate"] == "1.99 Mbps"
    assert scenario["link.wireless.errors.bad"] == "500 ms"
    assert scenario["link.wireless.protocol.kind"] == "selective-repeat"
    assert scenario["flow.transfer.transport.variant"] == "sack"


def test_claims_are_all_there_and_say_what_decides_them(study: Study) -> None:
    assert [claim.id for claim in study.claims] == [f"M{number}" for number in range(1, 24)]
    for claim in study.claims:
        assert claim.text
        assert claim.where
        assert claim.comparisons


def test_every_comparison_can_be_evaluated_on_the_grid(study: Study) -> None:
    grid = set(study.cells(study.artefacts))
    random = np.random.default_rng(1)

    def samples(cell: Cell, quantity: str) -> Estimate:
        assert cell in grid
        assert quantity in {"goodput", "timeouts", "fast_retransmits"}
        return Estimate.of(random.normal(50.0, 1.0, 30))

    names = {name.replace("/", "_").lower(): name for name in study.combinations}
    verdicts = list(judge(study.claims, samples, names, study.rule))
    assert len(verdicts) == 23
    assert all(len(one.judgements) == len(one.claim.comparisons) for one in verdicts)


RULE = Rule(about=0.03, level=0.95, losses=(1.5, 9.8))


def verdict(
    relation: str, left: list[float], right: list[float], **limits: float
) -> tuple[str, str]:
    """Verdict and evidence of a claim of one comparison."""
    test = {"left": "reno_raw", "relation": relation, "right": "sack_raw", **limits}
    claim = Claim.from_table({"id": "X", "text": "x", "where": "x", "in": {}, "test": [test]})
    data = {"Reno/Raw": Estimate.of(left), "SACK/Raw": Estimate.of(right)}
    names = {"reno_raw": "Reno/Raw", "sack_raw": "SACK/Raw"}
    (one,) = judge([claim], lambda cell, _: data[dict(cell)["combination"]], names, RULE)
    return one.verdict, one.evidence


LOW, HIGH = [10.0, 11.0, 12.0], [20.0, 21.0, 22.5]
NOISY = [1.0, 30.0, 2.0]


@pytest.mark.parametrize(
    ("relation", "left", "right", "expected"),
    [
        ("greater", HIGH, LOW, "reproduced"),
        ("greater", LOW, HIGH, "contradicted"),
        ("greater", NOISY, LOW, "undecided"),
        ("less", LOW, HIGH, "reproduced"),
        ("less", HIGH, LOW, "contradicted"),
        ("about", HIGH, LOW, "contradicted"),
        ("about", NOISY, LOW, "reproduced"),
        ("about", [100.0, 100.0, 100.1], [102.0, 102.0, 102.1], "reproduced"),
        ("about", [100.0, 100.0, 100.1], [105.0, 105.0, 105.1], "contradicted"),
        ("not less", HIGH, LOW, "reproduced"),
        ("not less", [100.0, 100.0, 100.1], [102.0, 102.0, 102.1], "reproduced"),
        ("not less", LOW, HIGH, "contradicted"),
        ("greater", [1.0], [0.5], "undecided"),
        ("about", [1.0], [1.0], "undecided"),
    ],
)
def test_relations(relation: str, left: list[float], right: list[float], expected: str) -> None:
    assert verdict(relation, left, right)[0] == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(9.0, 12.0, "reproduced"), (11.2, 12.0, "reproduced"), (40.0, 50.0, "contradicted")],
)
def test_between(low: float, high: float, expected: str) -> None:
    assert verdict("between", LOW, LOW, low=low, high=high)[0] == expected


def test_paired_noise_does_not_hide_a_difference() -> None:
    noise = np.random.default_rng(3).normal(0.0, 20.0, 30)
    better = (100.0 + noise + 1.0 + 0.01 * noise).tolist()
    assert verdict("greater", better, (100.0 + noise).tolist())[0] == "reproduced"


def test_more_comparisons_need_more_evidence(study: Study) -> None:
    samples = {1: Estimate.of([1.0, 3.0, 1.5, 3.5, 2.5]), 0: Estimate.of([0.5] * 5)}

    def claim(count: int) -> Claim:
        tests = {"left": "this", "relation": "greater", "right": "at(this, flr = 99)"}
        table = {"id": "X", "text": "x", "where": "x", "in": {}}
        return Claim.from_table(
            table | {"test": [tests | {"each": {"flr": [*range(1, count + 1)]}}]}
        )

    def judged(count: int) -> str:
        (one,) = judge([claim(count)], lambda c, _: samples[dict(c)["flr"] != 99], {}, RULE)
        return one.verdict

    assert judged(1) == "reproduced"
    assert judged(30) == "undecided"


def test_claims_without_their_cells_are_not_judged() -> None:
    def missing(cell: Cell, quantity: str) -> Estimate:
        raise Missing("flr 1.5")

    table = {"left": "this", "relation": "greater", "right": "1"}
    claim = Claim.from_table({"id": "X", "text": "x", "where": "x", "in": {}, "test": [table]})
    (one,) = judge([claim], missing, {}, RULE)
    assert (one.verdict, one.judgements) == ("undecided", ())
    assert "flr 1.5" in one.evidence


@pytest.mark.parametrize("expression", ["__import__('os')", "this.value", "this ** 2", "nobody"])
def test_expressions_hold_nothing_but_arithmetic(expression: str) -> None:
    table = {"left": expression, "relation": "greater", "right": "1"}
    claim = Claim.from_table({"id": "X", "text": "x", "where": "x", "in": {}, "test": [table]})
    with pytest.raises(ValueError, match="cannot evaluate"):
        list(judge([claim], lambda *_: Estimate.constant(1.0), {}, RULE))


def test_reproduce_prints_the_json_that_scripts_rely_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["reproduce", "multilayer", "Table I", "--replications", "2", "--format", "json"]
    assert cli._main([*arguments, "--out", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["study", "cells", "claims"]
    assert printed["study"] == "multilayer"
    assert len(printed["cells"]) == 4 * (1 + 2 * 3)
    for cell in printed["cells"]:
        assert list(cell) == [
            "artefact",
            "row",
            "column",
            "value",
            "ci95",
            "unit",
            "published",
            "n",
        ]
        assert cell["published"] is not None
        assert cell["n"] == 2
    kbps = {(c["row"], c["column"]): c["value"] for c in printed["cells"] if c["unit"] == "kbps"}
    share = {(c["row"], c["column"]): c["value"] for c in printed["cells"] if c["unit"] == "%"}
    for (row, column), value in share.items():
        expected = 100.0 * (kbps[row, column] / kbps[row, "Reno/Raw"] - 1.0)
        assert value == pytest.approx(expected)
    assert [claim["id"] for claim in printed["claims"]] == [f"M{n}" for n in range(1, 24)]
    for claim in printed["claims"]:
        assert list(claim) == ["id", "verdict", "evidence"]
        assert claim["verdict"] in {"reproduced", "contradicted", "undecided"}
    assert json.loads((tmp_path / "report.json").read_text()) == printed


def test_reproduce_prints_tables_and_draws_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["reproduce", "multilayer", "Table I", "Figure 2", "--replications", "2"]
    assert cli._main([*arguments, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| 55.95" in printed
    assert "SACK/Raw (improvement, %)" in printed
    assert (tmp_path / "figure-2.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figure-2.pdf").read_bytes().startswith(b"%PDF")


def test_report_of_nothing_finished_has_no_numbers(study: Study) -> None:
    artefacts = study.find(["Table I"])
    report = study.reproduce(["Table I"], replications=1)
    first = report.cells[0]
    assert first.n == 1
    assert math.isnan(first.ci95)
    assert report.to_dict()["cells"][0]["ci95"] is None
    assert [a.name for a in report.artefacts] == [a.name for a in artefacts]


@pytest.mark.parametrize("key", sorted(studies()))
def test_titles_stay_inside_their_figures(key: str) -> None:
    for artefact in studies()[key].artefacts:
        if artefact.kind == "figure":
            figure = draw_figure(artefact, [])
            figure.draw_without_rendering()
            title = figure.axes[0].title.get_window_extent()
            assert 0.0 <= title.x0 < title.x1 <= figure.bbox.x1, artefact.name
