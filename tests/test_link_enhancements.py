"""The study `link-enhancements`, and the expressions of claims that it introduced."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from lasthop import commands as cli
from lasthop.evaluating.statistics import Estimate
from lasthop.showing import markdown, study_tables
from lasthop.showing.figures import style
from lasthop.showing.figures.studies import draw_figure
from lasthop.studies import Study, sensitivity, studies
from lasthop.studies.claims import Cell, Claim, Grid, Rule, read_claims
from lasthop.studies.verdicts import cells_of, judge

TCP = ("Raw link", "Go-Back-N", "Selective Repeat", "Karn RLP", "Berkeley Snoop")
UDP = ("Raw link", "XOR FEC", "Selective Repeat", "Karn RLP", "Out-of-Sequence RLP")


@pytest.fixture(scope="module")
def study() -> Study:
    return studies()["link-enhancements"]


def test_figures_are_those_of_the_paper_and_what_it_describes(study: Study) -> None:
    names = [artefact.name for artefact in study.artefacts]
    assert names[:10] == [f"Figure {number}" for number in range(2, 12)]
    assert len(names) == len(set(names))
    for artefact in study.artefacts:
        if artefact.name not in {"Keep-alives", "Snoop and parallel connections"}:
            assert artefact.columns == (UDP if artefact.base["application"] == "CBR" else TCP)
        rates = (1, 2, 5, 10) if artefact.base["link"] == "cellular" else (0.76, 1.5, 3, 5.9)
        assert artefact.rows == (0, *rates)


def test_every_cell_is_a_scenario_of_its_own(study: Study) -> None:
    cells = study.cells(study.artefacts)
    hashes = {study.scenario(cell).points()[0].hash for cell in cells}
    assert len(hashes) == len(cells)


def cell(study: Study, **coordinates: object) -> Cell:
    return study.grid.cell(coordinates)


def test_cells_are_what_their_coordinates_say(study: Study) -> None:
    snoop = study.scenario(
        cell(study, application="FTP", link="WLAN", hops=2, flr=3, scheme="Berkeley Snoop")
    )
    for name, host in (("wireless", "ap"), ("wireless-2", "gateway")):
        assert snoop[f"link.{name}.rate"] == "2 Mbps"
        assert snoop[f"link.{name}.delay"] == "3 ms"
        assert snoop[f"link.{name}.errors"]["mean"] == f"{2**18} bits"
        assert snoop[f"link.{name}.agent"]["at"] == host
        assert snoop[f"link.{name}.protocol.kind"] == "raw"
    assert snoop["flow.transfer.transport.segment"] == "1000 B"
    upload = study.scenario(
        cell(
            study,
            application="FTP",
            link="cellular",
            hops=1,
            flr=0,
            scheme="Karn RLP",
            direction="upload",
            wired="WAN",
        )
    )
    assert (upload["flow.transfer.from"], upload["flow.transfer.to"]) == ("client", "server")
    assert upload["link.wired.delay"] == "50 ms"
    assert upload["link.wireless.protocol.retransmissions"] == 3
    media = study.scenario(
        cell(study, application="CBR", link="cellular", hops=1, flr=10, scheme="Karn RLP")
    )
    assert media["link.wireless.protocol.retransmissions"] == 1
    assert media["link.wireless.errors.loss"] == "10 %"


def test_claims_are_those_of_the_paper(study: Study) -> None:
    # F16 is not a claim of the paper: the paper states that both topologies were run, but no order
    # of the results.
    expected = [f"F{n}" for n in range(1, 16)] + [f"W{n}" for n in range(1, 11)]
    expected += [f"C{n}" for n in range(1, 13)] + [f"G{n}" for n in range(1, 8)]
    assert [claim.id for claim in study.claims if not claim.addition] == expected
    added = [claim.id for claim in study.claims if claim.addition]
    assert added == ["F2h", "F8q", "F16", "W1x", "W7x"]
    for claim in study.claims:
        assert claim.text
        assert claim.where
        assert claim.comparisons


def test_every_comparison_can_be_evaluated_on_the_grid(study: Study) -> None:
    grid = set(study.cells(study.artefacts))
    random = np.random.default_rng(1)

    def samples(where: Cell, quantity: str) -> Estimate:
        assert where in grid
        assert quantity in study.quantities
        return Estimate.of(random.normal(50.0, 1.0, 30))

    verdicts = list(judge(study.claims, samples, study.names, study.rule))
    for one in verdicts:
        assert len(one.judgements) == len(one.claim.comparisons)
        assert one.verdict in study_tables.VERDICTS


@pytest.mark.slow
def test_sensitivities_touch_what_they_say(study: Study) -> None:
    claims = {claim.id: claim for claim in study.claims}
    for one in study.sensitivities:
        assert one.claims
        untouched = set(one.claims)
        for value, changes in one.values:
            changed = {
                name
                for name in one.claims
                if any(
                    any(change.applies(dict(cell)) for change in changes)
                    and study.scenario(cell, changes).points()[0].hash
                    != study.scenario(cell).points()[0].hash
                    for cell in cells_of(claims[name], study.names, study.rule)
                )
            }
            assert changed, (one.name, value)
            untouched -= changed
        assert not untouched, one.name


def test_figure_keeps_its_legend_off_the_curves(study: Study) -> None:
    report = study.reproduce(["Figure 8"], replications=2)
    (artefact,) = report.artefacts
    figure = draw_figure(artefact, report.cells)
    (axes,) = figure.axes
    assert axes.get_legend() is None
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(UDP)
    figure.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    assert axes.get_ylabel() == "Residual packet loss (%)"


def test_schemes_have_styles_of_their_own(study: Study) -> None:
    styles = [style.STYLES[name] for name in study.combinations]
    assert len(set(styles)) == len(styles)


@pytest.mark.slow
def test_reproduce_prints_json_with_comparisons(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["reproduce", "link-enhancements", "Figure 9", "Figure 8", "--replications", "3"]
    assert cli._main([*arguments, "--format", "json", "--out", str(tmp_path)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["cells"]) == 2 * 5 * 5
    units = {"Figure 8": "%", "Figure 9": "s"}
    for one in printed["cells"]:
        assert one["unit"] == units[one["artefact"]]
        assert one["sd"] is not None
    raw = {
        one["row"]: one["value"]
        for one in printed["cells"]
        if one["artefact"] == "Figure 8" and one["column"] == "Raw link"
    }
    # 3 replications of about 30 000 packets: the standard error at 10 % is 0.1 %.
    assert raw["0"] == 0.0
    assert raw["10"] == pytest.approx(10.0, abs=0.5)
    claims = {one["id"]: one for one in printed["claims"]}
    assert len(claims["C3"]["comparisons"]) == 4
    assert claims["C3"]["verdict"] == "reproduced"
    assert claims["W7"]["comparisons"] == []
    assert (tmp_path / "figure-9.png").read_bytes().startswith(b"\x89PNG")


def test_report_is_written_as_markdown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["reproduce", "link-enhancements", "Figure 8", "--replications", "2"]
    assert cli._main([*arguments, "--format", "markdown", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "## Figure 8. Media residual loss (cellular, one wireless link)" in lines
    rows = [line for line in lines if line.startswith("| 10 |")]
    assert len(rows) == 1
    assert rows[0].count("±") == len(UDP)


@pytest.mark.slow
def test_sensitivity_judges_each_variant(study: Study) -> None:
    small = copy.copy(study)
    small.sensitivities = tuple(
        type(one)(one.name, one.about, ("C4", "C5"), one.values[:1])
        for one in study.sensitivities
        if one.name == "block of XOR FEC"
    )
    report = sensitivity.sweep(small, replications=3)
    assert set(report.verdicts) == {("", ""), ("block of XOR FEC", "4")}
    chosen, four = (
        next(j for j in verdicts["C4"].judgements if j.comparison.left == "residual_loss(fec)")
        for verdicts in report.verdicts.values()
    )
    # p (1 - (1 - p)^k) at 1 %: 0.11 % with 12 frames per block, 0.04 % with 4.
    assert four.left < chosen.left
    assert set(report.summary()) == {"C4", "C5"}
    assert sum(report.summary()["C4"].counts.values()) == 1
    text = markdown.sensitivity(report)
    assert "| C4 |" in text
    assert "--sensitivity --replications 3 --format markdown" in text
    assert [row["varied"] for row in report.to_dict()["sensitivity"]] == [None, "block of XOR FEC"]
    assert list(study_tables.show_sensitivity(report))


def test_sensitivity_is_of_a_whole_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._main(["reproduce", "link-enhancements", "Figure 9", "--sensitivity"]) == 2
    assert "cannot use `--sensitivity` with tables or figures" in capsys.readouterr().err
    assert cli._main(["reproduce", "multilayer", "--sensitivity"]) == 2
    assert "lists no open choices" in capsys.readouterr().err


def judged(study: Study, name: str, values: dict[str, list[float]]) -> str:
    """The verdict on one claim if each scheme has the same values in all cells."""
    (chosen,) = (claim for claim in study.claims if claim.id == name)

    def samples(where: Cell, quantity: str) -> Estimate:
        scheme = str(dict(where)["scheme"])
        return Estimate.of(values.get(f"{quantity} of {scheme}", values[scheme]))

    (verdict,) = judge([chosen], samples, study.names, study.rule)
    return verdict.verdict


@pytest.mark.parametrize(
    ("oos", "expected"), [([1.0, 1.5, 2.0], "reproduced"), ([1.01, 1.51, 2.01], "contradicted")]
)
def test_equal_residual_losses_are_a_test_that_can_fail(
    study: Study, oos: list[float], expected: str
) -> None:
    # The second scheme differs by 1 %: far within the intervals, but in every replication.
    assert judged(study, "C3", {"Karn RLP": [1.0, 1.5, 2.0], "Out-of-Sequence RLP": oos}) == (
        expected
    )


@pytest.mark.parametrize(
    ("unneeded", "expected"), [([0.0, 0.0, 0.0], "reproduced"), ([4.0, 4.1, 4.2], "in part")]
)
def test_nothing_sent_twice_is_no_more_than_nothing(
    study: Study, unneeded: list[float], expected: str
) -> None:
    values = {name: [1.0, 1.0, 1.0] for name in TCP}
    values |= {f"timeouts of {name}": [0.1, 0.1, 0.1] for name in TCP}
    values["timeouts of Raw link"] = [1.0, 1.0, 1.0]
    values |= {f"unneeded of {name}": unneeded for name in TCP}
    values["unneeded of Go-Back-N"] = [0.0, 0.0, 0.0]
    assert judged(study, "F15", values) == expected


RULE = Rule(about=0.03, level=0.95, losses=(1, 2), grid=Grid(column="scheme"), parts=True)
NAMES = {"a": "A", "b": "B", "c": "C"}


def claim(**test: object) -> Claim:
    (one,) = read_claims([{"id": "X", "text": "x", "where": "x", "test": [test]}], RULE.grid)
    return one


def value(where: Cell, _: str) -> Estimate:
    """The value depends on scheme and loss, with little noise."""
    named = dict(where)
    level = {"A": 1.0, "B": 2.0, "C": 2.0}[named["scheme"]] * (10.0 - named["flr"])
    return Estimate.of([level - 0.01, level, level + 0.01])


def word(one: Claim) -> str:
    (verdict,) = judge([one], value, NAMES, RULE)
    return verdict.verdict


def test_along_compares_neighbours() -> None:
    falling = claim(left="a", relation="less", along={"flr": [0, 1, 2]})
    assert [one.left for one in falling.comparisons] == ["at(a, flr = 1)", "at(a, flr = 2)"]
    assert word(falling) == "reproduced"
    assert word(claim(left="a", relation="greater", along={"flr": [0, 1, 2]})) == "contradicted"


def test_pairs_stand_for_every_two() -> None:
    ordered = claim(
        left="first", relation="less", right="second", pairs=["a", "b", "c"], each={"flr": [1]}
    )
    assert [(one.left, one.right) for one in ordered.comparisons] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]
    # b and c are equal: neither less nor significantly not less.
    assert word(ordered) == "undecided"


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("b - a", "at(b - a, flr = 5)", "reproduced"),
        ("b - a", "a - b", "contradicted"),
        ("b - c", "c - b", "reproduced"),
        ("b - a", "b - c", "undecided"),
    ],
)
def test_same_sign(left: str, right: str, expected: str) -> None:
    test = claim(left=left, relation="same sign", right=right, each={"flr": [1]})
    assert word(test) == expected


def test_claims_hold_in_part_and_say_where_not() -> None:
    test = claim(left="a", relation="greater", right="8.5", each={"flr": [1, 2]})
    (verdict,) = judge([test], value, NAMES, RULE)
    assert verdict.verdict == "in part"
    assert verdict.evidence.endswith("Fails: a > 8.5 at flr 2")


def test_a_claim_can_repeat_others_elsewhere() -> None:
    tables = [
        {
            "id": "X",
            "text": "x",
            "where": "x",
            "test": [{"left": "a", "relation": "less", "right": "b", "each": {"flr": [1, 2]}}],
        },
        {
            "id": "Y",
            "text": "y",
            "where": "y",
            "test": [{"claims": ["X"], "in": {"wired": "WAN"}}],
        },
    ]
    first, second = read_claims(tables, RULE.grid)
    assert [dict(one.cell) for one in first.comparisons] == [{"flr": 1}, {"flr": 2}]
    assert [dict(one.cell) for one in second.comparisons] == [
        {"flr": 1, "wired": "WAN"},
        {"flr": 2, "wired": "WAN"},
    ]


def test_coordinates_and_averages_are_numbers() -> None:
    assert word(claim(left="a", relation="about", right="10 - flr", each={"flr": [1, 2]})) == (
        "reproduced"
    )
    mean = claim(left="average(a, flr = [0, 4])", relation="about", right="8", each={"flr": [1]})
    assert word(mean) == "reproduced"


def test_grid_fills_in_and_fixes_coordinates() -> None:
    grid = Grid("scheme", {"wired": "LAN"}, (({"flr": 0}, {"model": "none"}),))
    assert dict(grid.cell({"flr": 1})) == {"flr": 1, "wired": "LAN"}
    assert dict(grid.cell({"flr": 0, "model": "x", "wired": "WAN"})) == {
        "flr": 0,
        "model": "none",
        "wired": "WAN",
    }
