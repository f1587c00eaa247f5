import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from lasthop import commands as cli
from lasthop import statistics
from lasthop.evaluating.statistics import Estimate
from lasthop.showing import markdown, study_tables
from lasthop.showing.figures.studies import draw_figure
from lasthop.studies import Study, StudyError, studies
from lasthop.studies.changes import with_changes
from lasthop.studies.claims import Cell, Claim, Grid, Missing, Rule, read_claims
from lasthop.studies.paired import from_baseline
from lasthop.studies.verdicts import judge, show, tally


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


@pytest.mark.parametrize("name", sorted(studies()))
def test_tables_and_figures_run_every_cell_that_a_claim_compares(name: str) -> None:
    # The report omits a claim whose cells were not run without a message.
    study = studies()[name]
    run = set(study.cells(study.artefacts))
    assert [claim.id for claim in study.claims if not run.issuperset(study.cells_of(claim))] == []


def test_artefacts_are_those_of_the_paper(study: Study) -> None:
    names = [artefact.name for artefact in study.artefacts]
    assert len(names) == len(set(names)) == 32
    for numeral in ("I", "II", "III", "IV", "V", "VI", "VII", "VIII"):
        assert f"Table {numeral}" in names
    for number in range(2, 10):
        assert f"Figure {number}" in names


def test_published_numbers_are_those_that_are_held(study: Study) -> None:
    numerals = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII")
    assert set(study.published) == {f"Table {numeral}" for numeral in numerals}
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


@pytest.mark.parametrize("key", sorted(studies()))
def test_every_claim_says_what_refutes_it_and_what_it_was(key: str) -> None:
    for claim in studies()[key].claims:
        assert claim.refuted_by, claim.id
        assert claim.refuted_by in claim.remarks[-1]
        # A claim is marked as our addition if and only if it is not in the paper.
        assert claim.addition == claim.where.startswith(("ours", "Follows from")), claim.id
        if claim.reworded is not None:
            assert claim.reworded.was.endswith(".")
            assert claim.reworded.why.endswith(".")
            assert claim.reworded.verdict.split(" (")[0] in study_tables.VERDICTS
            assert any(claim.reworded.was in remark for remark in claim.remarks)


def test_the_papers_own_numbers_satisfy_every_claim(study: Study) -> None:
    printed = study.judge_printed()
    failed = [show(one) for claim in printed for one in claim.failed]
    assert failed == []
    evaluated = {one.claim.id for one in printed if one.judgements}
    # The other claims require the WAN, or numbers of timeouts.
    assert {claim.id for claim in study.claims} - evaluated == {*("M10", "M11", "M12", "M19")}
    assert sum(len(one.judgements) for one in printed) > 150
    # Comparisons with the ends of ranges use the numbers in the text of the claim.
    assert all(one.missing + len(one.judgements) == len(one.claim.comparisons) for one in printed)


def test_a_claim_that_the_papers_own_numbers_contradict_is_found(study: Study) -> None:
    misread = copy.copy(study)
    common = {"topology": "LAN", "application": "file", "congestion": False, "model": "uniform"}
    # SACK's gain is 16.7 % at 2.5 %, not at most 9 %; over the WAN it is unknown.
    tests = [
        {"left": "sack_raw / reno_raw", "relation": "less", "right": "1.09", "in": {"flr": flr}}
        for flr in (1.5, 2.5)
    ]
    unknown = {"topology": "WAN", "flr": 9.8}
    tests.append({"left": "sack_raw", "relation": "greater", "right": "reno_raw", "in": unknown})
    table = {"id": "X", "text": "x", "where": "x", "in": common, "test": tests}
    misread.claims = (Claim.from_table(table, study.grid),)
    (one,) = misread.judge_printed()
    assert [dict(judgement.comparison.cell)["flr"] for judgement in one.failed] == [2.5]
    assert one.missing == 1
    assert one.words == "1 of 2 hold"


def test_additions_are_judged_and_shown_but_not_counted() -> None:
    tables = [
        {
            "id": name,
            "text": f"text of {name}",
            "where": "x",
            "addition": name == "Y",
            "test": [{"left": "this", "relation": "greater", "right": "1"}],
        }
        for name in ("X", "Y")
    ]
    claims = read_claims(tables, Grid())
    verdicts = list(judge(claims, lambda *_: Estimate.constant(2.0), {}, RULE))
    assert [one.verdict for one in verdicts] == ["reproduced", "reproduced"]
    assert tally(verdicts) == {"reproduced": 1}


@pytest.mark.slow
def test_claims_are_judged_at_two_numbers_of_replications(
    study: Study, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    few = study.reproduce(["Table I"], replications=2)
    many = study.reproduce(["Table I"], replications=4, judge_at=[2])
    assert list(many.earlier) == [2]
    # The first replications of a longer run equal those of a shorter one.
    assert [one.evidence for one in many.earlier[2]] == [one.evidence for one in few.verdicts]
    assert [one.evidence for one in many.verdicts] != [one.evidence for one in few.verdicts]
    text = markdown.report(many)
    assert "--replications 4 --judge-at 2" in text.splitlines()[0]
    assert "| id | verdict at 2 | at 4 | claim |" in text
    arguments = ["reproduce", "multilayer", "Table I", "--replications", "4", "--judge-at"]
    assert cli._main([*arguments, "4", "--out", str(tmp_path)]) == 2
    assert "invalid value `4` for `--judge-at`: expected 2 to 3" in capsys.readouterr().err
    with pytest.raises(StudyError, match="judge_at: found 1"):
        study.reproduce(["Table I"], replications=4, judge_at=[1])


RULE = Rule(about=0.03, level=0.95, losses=(1.5, 9.8))


def verdict(
    relation: str, left: list[float], right: list[float], **limits: float
) -> tuple[str, str]:
    """Verdict and evidence of a claim with a single comparison."""
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


@pytest.mark.parametrize("expression", ["__import__('os')", "this.value", "this ** 2", "absent"])
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
        assert list(claim)[:3] == ["id", "verdict", "evidence"]
        assert set(claim) <= {"id", "verdict", "evidence", "refuted_by", "reworded", "note"}
        assert claim["verdict"] in {"reproduced", "contradicted", "undecided"}
        assert claim["refuted_by"]
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


@pytest.mark.slow
def test_the_same_study_but_with_a_key_changed(
    study: Study, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    key = "flow.{flow}.transport.receive_window"
    varied, counts = with_changes(study, {key: "5 segments", "link.wireless.protocol.window": "2"})
    cells = study.cells(study.artefacts)
    assert counts == {key: len(cells), "link.wireless.protocol.window": len(cells) // 2}
    for cell in cells[:8]:
        flow = study.flow(cell)
        scenario = varied.scenario(cell)
        assert scenario[f"flow.{flow}.transport.receive_window"] == "5 segments"
        assert study.scenario(cell)[f"flow.{flow}.transport.receive_window"] == "20 segments"
        if scenario["link.wireless.protocol.kind"] == "selective-repeat":
            assert scenario["link.wireless.protocol.window"] == 2
    assert not study.changes

    arguments = [
        "reproduce",
        "multilayer",
        "Table I",
        "--replications",
        "2",
        "--out",
        str(tmp_path),
    ]
    changes = ["--set", f"{key}=2 segments", "--format", "json"]
    assert cli._main([*arguments, *changes]) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert printed["set"] == {key: "2 segments"}
    assert f"{key}=2 segments: in 288 of 288 cells" in captured.err
    # Two segments of 250 B per round trip, which is 140 ms with both transmissions: at most 28.6
    # kbps.
    kbps = [one["value"] for one in printed["cells"] if one["unit"] == "kbps"]
    assert 0.0 < max(kbps) < 28.6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("link.wireless.nonsense=1", "found in no scenario of multilayer"),
        ("link.other.rate=1 Mbps", "found in no scenario of multilayer"),
        ("link.wireless.rate=fast", 'link.wireless.rate: found "fast"'),
        ("run.seed=3", "expected --seed"),
        ("run.replications=3", "expected --replications"),
        ("nothing", "expected KEY=VALUE"),
    ],
)
def test_changes_that_mean_nothing_are_refused(
    change: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._main(["reproduce", "multilayer", "Table I", "--set", change]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


def test_a_changed_study_is_not_kept_as_the_study(study: Study, tmp_path: Path) -> None:
    varied, _ = with_changes(study, {"link.wireless.rate": "32 kbps"})
    report = varied.reproduce(["Table I"], replications=2)
    assert report.results.scenario == {"name": "multilayer, link.wireless.rate = 32 kbps"}
    assert report.artefacts[0].title.endswith("; link.wireless.rate = 32 kbps")
    assert report.to_dict()["study"] == "multilayer"


def test_published_values_stand_in_figures_and_misses_are_marked(study: Study) -> None:
    report = study.reproduce(["Figure 2", "Table I"], replications=2)
    figure, table = (
        {(cell.row, cell.column): cell for cell in report.cells if cell.artefact == name}
        for name in ("Figure 2", "Table I")
    )
    assert figure["2.5", "SACK/Raw"].published == pytest.approx(56.83)
    assert figure["0", "SACK/Raw"].published is None
    assert table["2.5", "Reno/Raw"].published == 48.70
    # By hand: 2 replications compared with 30 published ones.
    for cell in report.cells:
        if cell.published is not None:
            width = cell.ci95 * math.sqrt(1.0 + 2 / 30)
            assert cell.misses == (abs(cell.value - cell.published) > width)
    (first, *_) = [one for one in report.artefacts if one.name == "Figure 2"]
    missed = [replace(cell, misses=True) for cell in figure.values() if cell.published is not None]
    met = [replace(cell, misses=False) for cell in figure.values()]
    for cells, thin, bold in ((met, 16, 0), (missed, 0, 16)):
        drawn = draw_figure(first, cells)
        (axes,) = drawn.axes
        marks = [line.get_marker() for line in axes.get_lines()]
        assert (marks.count("x"), marks.count("X")) == (thin, bold)
        legend = axes.get_legend()
        assert legend is not None
        words = [text.get_text() for text in legend.get_texts()]
        assert "published" in words
        assert ("significantly different" in words) == (bold > 0)
    text = study_tables.cell_text(
        replace(table["2.5", "Reno/Raw"], misses=True), report.artefacts[1], is_compared=True
    )
    assert text.endswith("| 48.70 *")


def test_report_of_nothing_finished_has_no_numbers(study: Study) -> None:
    artefacts = study.find(["Table I"])
    report = study.reproduce(["Table I"], replications=1)
    first = report.cells[0]
    assert first.n == 1
    assert math.isnan(first.ci95)
    assert report.to_dict()["cells"][0]["ci95"] is None
    assert [a.name for a in report.artefacts] == [a.name for a in artefacts]


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(studies()))
def test_titles_stay_inside_their_figures(key: str) -> None:
    for artefact in studies()[key].artefacts:
        if artefact.kind == "figure":
            figure = draw_figure(artefact, [])
            figure.draw_without_rendering()
            title = figure.axes[0].title.get_window_extent()
            assert 0.0 <= title.x0 < title.x1 <= figure.bbox.x1, artefact.name


def test_figures_name_their_bars_and_no_curve_hides_another(study: Study) -> None:
    report = study.reproduce(["Figure 2"], replications=2)
    (axes,) = draw_figure(report.artefacts[0], report.cells).axes
    assert axes.get_xlabel().endswith("bars: 95 % intervals, Student t over 2 replications")
    curves = {
        str(one.get_label()): one.lines[0]
        for one in axes.containers
        if isinstance(one, ErrorbarContainer) and one.lines[0] is not None
    }
    lines = [curves[name] for name in ("Reno/SR", "SACK/SR")]
    left, right = (np.asarray(one.get_xdata(), dtype=float) for one in lines)
    assert (left < right).all(), "equal points are drawn next to each other"
    assert lines[0].get_linewidth() > lines[1].get_linewidth(), "the lower line is wider"


@pytest.mark.slow
def test_differences_from_a_column_are_paired(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = study.reproduce(["Table I"], replications=4)
    cells = from_baseline(report, "Reno/Raw")
    (table,) = report.artefacts
    assert len(cells) == len(table.rows) * (len(table.columns) - 1)
    point = {
        tuple(sorted(one.parameters.items())): at for at, one in enumerate(report.results.points)
    }
    first = cells[0]
    row = float(first.row)
    left, right = (
        report.results.samples(
            f"flow.{study.flow(table.cell(row, name))}.goodput_bps",
            point[tuple(sorted(dict(table.cell(row, name)).items()))],
        )
        for name in (first.column, "Reno/Raw")
    )
    known = statistics.difference(left / 1e3, right / 1e3)
    assert (first.difference, first.ci95, first.n) == pytest.approx((known.mean, known.ci95, 4))
    assert first.p_value == pytest.approx(known.p_value)
    assert first.ratio == pytest.approx(known.ratio)
    assert all(cell.p_holm >= cell.p_value for cell in cells)
    words = ["reproduce", "multilayer", "Table I", "--replications", "2", "--out", str(tmp_path)]
    assert cli._main([*words, "--baseline", "Reno/SR"]) == 0
    printed = capsys.readouterr().out
    assert "Difference from Reno/SR" in printed
    differences = json.loads((tmp_path / "report.json").read_text())["differences"]
    assert {one["baseline"] for one in differences} == {"Reno/SR"}
    assert cli._main([*words, "--baseline", "Reno/Row"]) == 2
    assert (
        "unknown column `Reno/Row` for `--baseline`; did you mean `Reno/Raw`?"
        in capsys.readouterr().err
    )
