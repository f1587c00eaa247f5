import copy
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import ROOT
from lasthop import AnalysisError, analysis
from lasthop import commands as cli
from lasthop.evaluating.statistics import Estimate
from lasthop.showing import markdown, study_tables
from lasthop.showing.figures.studies import draw_figure
from lasthop.studies import Study, models, sensitivity, studies
from lasthop.studies.claims import Cell, Grid, Rule, read_claims
from lasthop.studies.models import Models, evaluate, fill
from lasthop.studies.verdicts import judge

DATA = ROOT / "crates" / "lasthop-analysis" / "tests" / "suite" / "data"
TABLES = tomllib.loads((DATA / "analysis.toml").read_text())


@pytest.fixture(scope="module")
def study() -> Study:
    return studies()["arq-and-tcp"]


def theory(study: Study, quantity: str, **where: Any) -> float:
    """The value of a quantity according to the analytic model."""
    cell = dict(study.grid.cell({"source": "model", **where}))
    return float(study.models.value(quantity, cell))


def printed(value: float, text: str) -> bool:
    """Whether a value equals that of an independent table, to the digits printed there."""
    digits = len(text.partition(".")[2])
    return abs(value - float(text)) <= 0.5000001 * 10.0**-digits


# The study's data.


def test_every_cell_has_a_scenario_of_its_own(study: Study) -> None:
    cells = study.cells(study.artefacts)
    assert len(cells) == len(set(cells))
    assert not any(study.models.has(dict(cell)) for cell in cells)
    by_hash: dict[int, list[dict[str, Any]]] = {}
    for cell in cells:
        by_hash.setdefault(study.scenario(cell).points()[0].hash, []).append(dict(cell))
    for same in by_hash.values():
        # A limit that is derived from other values may equal one of the given limits.
        others = [{**where, "limit": None} for where in same]
        assert all(other == others[0] for other in others)
        assert len(same) == 1 or any(isinstance(where["limit"], str) for where in same)


def test_claims_are_numbered_without_gaps(study: Study) -> None:
    ids = [claim.id for claim in study.claims]
    assert len(ids) == len(set(ids))
    assert {f"V{n}" for n in range(1, 11)} <= set(ids)
    for claim in study.claims:
        assert claim.text
        assert claim.where
        assert claim.comparisons
    # A statement that holds only under a condition is not a claim of the paper, and is not counted.
    assert not any(claim.condition for claim in study.claims)
    added = {claim.id for claim in study.claims if claim.addition}
    assert added == {f"V{name}" for name in ("2r", "4m", "5m", "5x", "6m", "6t", "6x", "8d", "8u")}


def test_claims_need_only_what_figures_run(study: Study) -> None:
    cells = set(study.cells(study.artefacts))
    for claim in study.claims:
        assert set(study.cells_of(claim)) <= cells, claim.id


def test_every_comparison_can_be_evaluated(study: Study) -> None:
    random = np.random.default_rng(1)

    def samples(where: Cell, quantity: str) -> Estimate:
        assert quantity in study.quantities
        return Estimate.of(random.normal(50.0, 1.0, 10))

    for one in judge(study.claims, samples, study.names, study.rule):
        assert len(one.judgements) == len(one.claim.comparisons)
        assert one.verdict in study_tables.VERDICTS


@pytest.mark.slow
def test_every_model_curve_has_a_value_everywhere(study: Study) -> None:
    for artefact in study.artefacts:
        for one in artefact.series:
            if one.is_model:
                _, values = artefact.curve(one.name)
                assert np.isfinite(values).all(), (artefact.name, one.name)


def test_scenarios_say_what_the_paper_says(study: Study) -> None:
    def scenario(**where: Any) -> Any:
        return study.scenario(study.grid.cell(where))

    independent = scenario(link="raw", p_f=0.1, alpha=0.5, C=8)
    assert independent["link.radio.rate"] == "64 kbps"
    assert independent["link.radio.errors.loss"] == pytest.approx(0.05)
    assert independent["link.wired.errors.loss"] == 0.1
    # 1.1 s in total: 125 ms per packet on the radio, and twice the delay of the wire.
    assert independent["link.wired.delay"] == "0.4875 s"


# The model against tables computed independently.


@pytest.mark.parametrize("row", TABLES["throughput_by_alpha"], ids=lambda row: f"{row[0]}-{row[1]}")
def test_throughput_over_alpha_is_that_of_our_notes(study: Study, row: list[str]) -> None:
    wired, alpha, total, _, *shares, relative = row
    where = {"link": "raw", "p_f": float(wired), "alpha": float(alpha)}
    assert printed(theory(study, "loss", **where), total)
    for capacity, share in zip((5, 8, 10, 20, 25, 50, 100), shares, strict=True):
        assert printed(theory(study, "throughput", **where, C=capacity), share)
    # With a capacity that is never the bottleneck.
    assert printed(theory(study, "relative", **where, C=10_000), relative)


@pytest.mark.parametrize("row", TABLES["goodput"], ids=lambda row: "-".join(row[:3]))
def test_goodput_is_that_of_our_notes(study: Study, row: list[str]) -> None:
    capacity, wired, trip, m3, m5, m10, m20, m30, eigen, eigen_limit, exact, limit, most = row
    where = {"C": int(capacity), "p_f": float(wired), "T_f": float(trip)}
    limits = (3, 5, 10, 20, 30, "adaptive, eigenvalue", "adaptive, exact", "unlimited")
    texts = (m3, m5, m10, m20, m30, eigen, exact, most)
    for name, text in zip(limits, texts, strict=True):
        assert printed(theory(study, "goodput", limit=name, **where), text), name
    assert theory(study, "m_t", limit="adaptive, eigenvalue", **where) == int(eigen_limit)
    assert theory(study, "m_t", limit="adaptive, exact", **where) == int(limit)


def test_energy_ratio_is_that_of_our_notes(study: Study) -> None:
    for limit, *values in TABLES["energy_ratio"]:
        for b, text in zip((0.5, 0.7, 0.8, 0.9, 0.95), values, strict=True):
            assert printed(theory(study, "energy", limit=int(limit), b=b), text)


def test_loss_with_spaced_attempts_is_that_of_our_notes(study: Study) -> None:
    spacing = int(theory(study, "spacing", link="rlc-am"))
    channel = analysis.Channel(0.1, 0.1, 0.01, 0.9)
    for limit in (2, 5, 10):
        own = theory(study, "residual_loss", link="rlc-am", limit=limit)
        other = analysis.residual_loss(channel.spaced(spacing), limit, pdus=25)
        assert own == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize("b", [0.5, 0.9, 0.95])
def test_both_forms_of_the_matrix_give_the_loss_of_the_library(b: float) -> None:
    """The paper's equation 1 is misprinted; both possible corrections are equivalent."""
    pdus, g, losses = 25, 0.9, (0.01, 0.9)
    n = np.arange(pdus + 1)
    binomial = np.zeros((pdus + 1, pdus + 1))
    binomial[0, 0] = 1.0
    tables = []
    for loss in losses:
        table = binomial.copy()
        for k in range(1, pdus + 1):
            table[k] = (1.0 - loss) * table[k - 1] + loss * np.roll(table[k - 1], 1) * (n > 0)
        tables.append(table[1:, 1:])
    good, bad = tables
    entered = np.block([[g * good, (1 - g) * bad], [(1 - b) * good, b * bad]])
    left = np.block([[g * good, (1 - g) * good], [(1 - b) * bad, b * bad]])
    start = np.zeros(2 * pdus)
    start[pdus - 1], start[-1] = (1 - b) / (2 - b - g), (1 - g) / (2 - b - g)
    channel = analysis.Channel(1 - g, 1 - b, *losses)
    first, second = start.copy(), start.copy()
    for limit in range(1, 60):
        first, second = first @ entered, second @ left
        loss = analysis.residual_loss(channel, limit, pdus=pdus)
        assert first.sum() == pytest.approx(loss, abs=1e-12)
        assert second.sum() == pytest.approx(loss, abs=1e-12)


# The engine of studies: expressions, theory, derived quantities, conditions.


def test_expressions_know_numbers_names_and_tables() -> None:
    names = {"x": 3, "word": "y", "table": analysis.tcp_window(0.1, 1)}
    assert evaluate("2 * x ** 2 - 1 // 2 + -x", names.__getitem__) == 15
    assert evaluate("min(x, 2) / max(x, 4)", names.__getitem__) == 0.5
    assert evaluate("word", names.__getitem__) == "y"
    assert evaluate("table.probability", names.__getitem__) == 1.0


@pytest.mark.parametrize(
    "expression", ["absent", "x.y", "x(1)", "[x]", "x if x else 1", "x / 0", "1 +", "x + word"]
)
def test_expressions_hold_nothing_else(expression: str) -> None:
    with pytest.raises(ValueError, match="cannot evaluate"):
        evaluate(expression, {"x": 3, "word": "y"}.__getitem__)


def test_scenarios_are_filled_in() -> None:
    lookup = {"p": 0.1, "t": 1.1, "word": "unlimited", "n": 100}.__getitem__
    filled = fill(
        {
            "a": "{p * 0.1}",
            "b": "{(t - 1 / n) / 2} s",
            "c": ["{word}", "plain", 3],
            "d": "{n // 4}",
        },
        lookup,
    )
    assert filled == {
        "a": pytest.approx(0.01),
        "b": "0.545 s",
        "c": ["unlimited", "plain", 3],
        "d": 25,
    }


def test_models_are_named_functions_of_coordinates() -> None:
    tables: list[dict[str, Any]] = [
        {
            "name": "channel",
            "function": "Channel",
            "with": {"good_to_bad": "p", "bad_to_good": 0.5},
        },
        {"name": "loss", "when": {"limit": [1, 2]}, "value": 7},
        {
            "name": "loss",
            "function": "residual_loss",
            "with": {"channel": "channel", "limit": "limit"},
        },
        {
            "name": "mean",
            "function": "mean_attempts",
            "with": {"channel": "channel", "limit": "limit"},
        },
        {"name": "evil", "function": "__name__", "with": {}},
    ]
    own = Models(tables, {"source": "model"})
    assert own.has({"source": "model", "p": 1})
    assert not own.has({"source": "run"})
    assert not Models(tables, {}).has({})
    assert own.value("loss", {"p": 0.5, "limit": 1}) == 7
    assert own.value("loss", {"p": 0.5, "limit": 3}) == pytest.approx(0.125)
    # As in scenarios, a word stands for no limit.
    assert own.value("mean", {"p": 0.5, "limit": models.UNLIMITED}) == pytest.approx(2.0)
    with pytest.raises(KeyError):
        own.value("absent", {})
    with pytest.raises(ValueError, match=r"lasthop\.analysis has no"):
        own.value("evil", {})
    with pytest.raises(AnalysisError):
        own.value("mean", {"p": 2.0, "limit": 1})


def test_theory_needs_no_run(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    report = study.reproduce(["Figure 8, immediately"], replications=2)
    assert all(cell.n == 0 and cell.ci95 == 0.0 for cell in report.cells)
    by_id = {one.claim.id: one for one in report.verdicts}
    assert by_id["V10"].verdict == "reproduced"
    text = markdown.report(report)
    assert "| 1 | 2.380 | 1.959 | 1.934 | 2.341 | 3.422 |" in text


def test_a_condition_is_printed_with_its_verdict() -> None:
    table = {
        "id": "X",
        "text": "x",
        "where": "x",
        "condition": "only where a > 1",
        "test": [{"left": "this", "relation": "greater", "right": "1"}],
    }
    rule = Rule(about=0.0, level=0.95, losses=(), grid=Grid("limit"))
    (claim,) = read_claims([table], rule.grid)
    (one,) = judge([claim], lambda *_: Estimate.constant(2.0), {}, rule)
    assert one.verdict == "reproduced"
    assert one.words == "reproduced (only where a > 1)"


# Small reproductions.


@pytest.mark.slow
def test_figure_5_is_reproduced_beside_its_model(
    study: Study, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["reproduce", "arq-and-tcp", "Figure 5", "Figure 5, relative"]
    assert (
        cli._main([*arguments, "--replications", "3", "--format", "json", "--out", str(tmp_path)])
        == 0
    )
    printed_report = json.loads(capsys.readouterr().out)
    cells = {(c["artefact"], c["row"], c["column"]): c for c in printed_report["cells"]}
    model = cells["Figure 5", "0.1", "p_f = 0.01, model"]
    assert model["n"] == 0
    assert model["value"] == pytest.approx(0.10485, abs=5e-6)
    simulated = cells["Figure 5", "0.1", "p_f = 0.01"]
    assert simulated["n"] == 3
    # Timeouts, which the chain does not model, cost a tenth. The standard error of 3 runs is 1.5 %.
    assert 0.8 < simulated["value"] / model["value"] < 1.0
    relative = cells["Figure 5, relative", "0.1", "p_f = 0.01"]
    assert relative["value"] == pytest.approx(0.9505, abs=0.05)
    claims = {one["id"]: one for one in printed_report["claims"]}
    assert claims["V1"]["verdict"] == "reproduced"
    assert claims["V6x"]["addition"]
    assert "from M_t = 5 on" in claims["V6"]["reworded"]["was"]
    assert (tmp_path / "figure-5-relative.png").read_bytes().startswith(b"\x89PNG")


def test_packets_that_come_alone_meet_the_chain(study: Study) -> None:
    report = study.reproduce(["Residual loss"], replications=3)
    cells = {(cell.row, cell.column): cell for cell in report.cells}
    sdus = 3 * 2000
    for limit in ("1", "2", "3", "5", "10", "15", "20", "30"):
        found = cells[limit, "ideal selective repeat"].value
        loss = cells[limit, "ideal selective repeat, model"].value
        # One SDU per second: independent. 4.5 standard deviations: one false positive in 18 000
        # runs.
        assert abs(found - loss) < 4.5 * math.sqrt(loss * (1.0 - loss) / sdus), limit
    # The attempts of RLC AM are further separated in time, so that it loses less, increasingly so
    # with the limit.
    assert cells["10", "RLC AM"].value < 0.1 * cells["10", "ideal selective repeat"].value


def test_other_coordinates_move_theory_too(study: Study) -> None:
    small = copy.copy(study)
    small.sensitivities = tuple(
        type(one)(one.name, one.about, ("V7",), one.values[:1], one.moves)
        for one in study.sensitivities
        if one.name == "radio capacity"
    )
    report = sensitivity.sweep(small, replications=2)
    assert set(report.verdicts) == {("", ""), ("radio capacity", "8 packets/s")}

    def relative(variant: tuple[str, str]) -> float:
        (found,) = (
            judgement.left
            for judgement in report.verdicts[variant]["V7"].judgements
            if {("source", "model"), ("alpha", 0.1), ("p_f", 0.01)}
            <= set(judgement.comparison.cell)
        )
        return found

    # From independent tables: 0.10485 / 0.11031 at 100 packets/s, 0.92976 / 0.94135 at 8 packets/s.
    assert relative(("", "")) == pytest.approx(0.9505, abs=1e-4)
    assert relative(("radio capacity", "8 packets/s")) == pytest.approx(0.98769, abs=1e-5)


def test_figures_draw_theory_as_lines_and_runs_as_points(study: Study) -> None:
    report = study.reproduce(["Figure 5"], replications=2)
    (artefact,) = report.artefacts
    figure = draw_figure(artefact, report.cells)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    lines = [line for line in axes.get_lines() if np.size(line.get_xdata()) > len(artefact.rows)]
    assert len(lines) == 2
    assert {line.get_linestyle() for line in lines} == {"-"}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][-1] == "lines: model"
    figure.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
