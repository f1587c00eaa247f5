"""The study `disruption`: its layout, and Table I."""

import runpy
import statistics
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import lasthop
from lasthop.running.replications import run_points
from lasthop.studies import Study, studies
from lasthop.studies.changes import Change
from lasthop.studies.claims import Cell

ROOT = Path(__file__).parent.parent
LIMITS = ("limit 2", "limit 3", "limit 4", "limit 5", "limit 6", "limit 20")


@pytest.fixture(scope="module")
def study() -> Study:
    return studies()["disruption"]


def cell(study: Study, **coordinates: object) -> Cell:
    return study.grid.cell({**study.grid.default, **coordinates})


def in_phase(scenario: lasthop.Scenario, duration: str) -> lasthop.Scenario:
    """The scenario with a capture every 1.75 s, starting at 1.75 s."""
    changes: dict[str, object] = {"run.duration": duration}
    if "neighbour" in scenario.to_dict()["flow"]:
        changes["flow.neighbour.app.off"] = "1750 ms"
    else:
        changes["wlan.cell.errors.random_phase"] = False
    return scenario.with_(changes)


def test_tables_and_figures_are_those_of_the_paper(study: Study) -> None:
    names = [artefact.name for artefact in study.artefacts]
    assert {"Table I", "Table II", "Table II, timeouts", "Table II, MAC throughput"} <= set(names)
    for figure in (
        "Figure 5",
        "Figure 6(a)",
        "Figure 6(b)",
        "Figure 7, link goodput",
        "Figure 8(b)",
    ):
        assert figure in names
    for artefact in study.artefacts:
        rows: tuple[float, ...]
        rows = (10, 80, 200) if artefact.kind == "table" else (0, 10, 20, 30, 40, 50)
        if artefact.name == "Rate under interference":
            rows = (1, 2, 5.5, 11)
        if artefact.name == "Loss alone":
            rows = (0, 1, 2, 5, 10, 20)
        assert artefact.rows == rows
    for name in ("Figure 6(a)", "Figure 6(a), proposed link"):
        (limits,) = (one for one in study.artefacts if one.name == name)
        assert limits.columns == LIMITS


def test_every_cell_is_a_scenario_of_its_own(study: Study) -> None:
    cells = study.cells(study.artefacts)
    for claim in study.claims:
        cells.extend(study.cells_of(claim))
    cells = list(dict.fromkeys(cells))
    hashes = {study.scenario(cell).points()[0].hash for cell in cells}
    assert len(hashes) == len(cells)


def test_cells_are_what_their_coordinates_say(study: Study) -> None:
    four = study.scenario(cell(study, hops=4, off=30, transport="LT-TCP"))
    for hop in range(1, 5):
        assert four[f"link.hop{hop}.errors.first.loss"] == pytest.approx(0.3)
        assert four[f"link.hop{hop}.errors.second.down"] == "uniform 90 ms to 110 ms"
        assert four[f"link.hop{hop}.protocol.max_transmissions"] == 4
    assert four["flow.transfer.transport.variant"] == "lt-tcp"
    plain = study.scenario(cell(study, link="baseline", limit=7))
    assert plain["link.hop1.protocol.units"] == 1
    assert plain["link.hop1.protocol.max_transmissions"] == 8
    bare = study.scenario(cell(study, link="none", off=5))
    assert bare["link.hop1.protocol"] == "raw"
    assert bare["link.hop1.errors.loss"] == pytest.approx(0.05)
    moving = study.scenario(cell(study, times="moving host", off=10))
    assert moving["link.hop1.errors.first.loss"] == pytest.approx(0.1)
    assert moving["link.hop1.errors.second.file"] == "moving-host.csv"
    queued = study.scenario(cell(study, part="802.11b", queue="RED"))
    assert queued["wlan.cell.queue.kind"] == "red"
    captured = study.scenario(cell(study, part="802.11b", rtt=80, capture=True))
    assert captured["link.wired.delay"] == "40 ms"
    assert captured["wlan.cell.errors.down"] == "250 ms"


def test_all_printed_numbers_are_held(study: Study) -> None:
    """Both tables of the paper, with goodput and its intervals, timeouts and MAC throughput."""
    assert sum(len(cells) for cells in study.published.values()) == 36
    assert study.published["Table I"]["200", "LT-TCP", "kbps"] == 4390
    assert study.published["Table II, timeouts"]["200", "SACK", ""] == 25.8
    assert list(study.published_intervals["Table II"]["200", "SACK", "kbps"]) == [300, 440]
    # Goodput is less than MAC throughput, as printed and in every interval.
    for table in ("Table I", "Table II"):
        for (row, column, unit), value in study.published[table].items():
            mac = study.published[f"{table}, MAC throughput"][row, column, unit]
            assert value < mac


def test_captures_have_a_phase_of_their_own_in_each_replication(study: Study) -> None:
    """The first losses of two replications differ by more than the duration of a frame."""
    scenario = study.scenario(cell(study, part="802.11b", rtt=80, capture=True))
    starts = []
    for replication in (0, 1):
        trace = lasthop.trace(scenario.with_({"run.duration": "3 s"}), replication=replication)
        sent = trace.transmissions.filter(
            (pl.col("entity") == "link.cell.node.forward") & pl.col("arrival_s").is_null()
        )
        starts.append(float(sent["start_s"].to_numpy().min()))
    assert abs(starts[0] - starts[1]) > 0.01


def test_geometry_produces_the_window_of_the_abstract_process(study: Study) -> None:
    """The station has no access while the hidden cell sends. If the base does not sense that cell,
    goodput and the number of discarded packets equal those of the ON/OFF process.

    60 s, two replications, 58 windows: goodput within 2 % (0.5 % in 200 s), discarded packets
    within 10 % (about 300, with a difference of one or two per window).
    """
    for rtt in (10, 80):
        found = []
        for coordinates in (
            {"part": "802.11b", "capture": True},
            {"part": "two cells", "sense": 300},
        ):
            scenario = study.scenario(cell(study, rtt=rtt, **coordinates))
            frame = lasthop.run(in_phase(scenario, "60 s"), replications=2).frame
            goodput = frame.filter(pl.col("name") == "transfer1")["goodput_bps"].mean()
            given_up = frame.filter(pl.col("name") == "cell.node.forward")["abandoned"].mean()
            found.append((goodput, given_up))
        (abstract, lost), (geometry, shut_out) = found
        assert geometry == pytest.approx(abstract, rel=0.02), rtt
        assert shut_out == pytest.approx(lost, rel=0.1), rtt


def test_no_attempt_gets_through_while_the_hidden_cell_sends(study: Study) -> None:
    scenario = study.scenario(cell(study, part="two cells", rtt=80))
    sent = lasthop.trace(in_phase(scenario, "30 s")).transmissions
    mine = sent.filter((pl.col("entity") == "link.cell.node.forward") & (pl.col("kind") == "data"))
    mine = mine.with_columns(
        phase=(pl.col("start_s") - 1.75) % 2.0, is_there=pl.col("arrival_s").is_not_null()
    )
    mine = mine.filter(pl.col("start_s") > 3.0)
    # The first packets of a burst find an empty queue: the medium is saturated from 20 ms onwards.
    window = mine.filter(pl.col("phase").is_between(0.02, 0.24))
    assert len(window) > 300
    assert not window["is_there"].any()
    quiet = mine.filter(pl.col("phase").is_between(0.3, 1.9))
    assert quiet["is_there"].to_numpy().mean() > 0.9


def test_the_outages_of_the_moving_host_are_those_of_their_rule() -> None:
    """The outages follow the rule, and their fraction and rate are those of the Gaussian process.

    The process exceeds 6 dB (standard deviation 4.3 dB) for 8 % of the time, and 4 dB for 18 %.
    With hysteresis, the fraction is between these values.
    """
    rule = runpy.run_path(str(ROOT / "tools" / "moving_host.py"))
    text = (ROOT / "python/lasthop/papers/disruption/moving-host.csv").read_text()
    assert text == rule["text"]()
    states = [*rule["states"](), (rule["LENGTH"], False)]
    down = sum(end - start for (start, is_down), (end, _) in pairwise(states) if is_down)
    above = [statistics.NormalDist(0.0, rule["DEVIATION"]).cdf(-dB) for dB in (6.0, 4.0)]
    assert above[0] < down / rule["LENGTH"] < above[1]


def test_sensitivities_on_the_page_are_those_that_are_stored() -> None:
    """The claims whose verdicts change, and S12 with a minimum RTO of 1 s."""
    folder = Path(lasthop.__file__).parent / "papers" / "disruption"
    lines = (folder / "sensitivity.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    # The first table has a column for each number of variants with an outcome.
    summary = [row for row in rows if len(row) == 7 and row[0].startswith("S")]
    changed = [row[0] for row in summary if row[-1]]
    page = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    assert len(summary) == 14
    assert (
        f"another verdict under one of them: {', '.join(changed[:-1])} and {changed[-1]}." in page
    )
    (s12,) = (row for row in summary if row[0] == "S12")
    assert s12[1:] == ["fails", "0", "0", "3", "1", "TCP's minimum RTO 1 s: open"]
    assert "with a minimum RTO of 1 s it is undecided" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "minimum"),
    [("as chosen: minimum of 200 ms, clock of 10 ms", ""), ("minimum RTO 1 s", "1 s")],
)
def test_timeouts_on_the_page_are_those_of_the_study(study: Study, row: str, minimum: str) -> None:
    """Two rows of the table on S12: ten transfers over four hops, two replications."""
    keys = {"flow.transfer*.transport.min_rto": minimum} if minimum else {}
    cells = [
        study.grid.cell({"hops": 4, "transport": transport, "off": loss})
        for loss in (0, 20, 50)
        for transport in ("SACK", "LT-TCP")
    ]
    points = [study.scenario(cell, [Change({}, keys)]).points()[0] for cell in cells]
    results = run_points(points, replications=2, seed=study.seed, scenario={"name": study.key})
    samples = study.samples({cell: place for place, cell in enumerate(cells)}, results)
    found = [f"{samples(cell, 'timeouts').value:.0f}" for cell in cells]
    pairs = [f"{found[place]}, {found[place + 1]}" for place in (0, 2, 4)]
    folder = Path(lasthop.__file__).parent / "papers" / "disruption"
    assert f"| {row} | {' | '.join(pairs)} |" in (folder / "README.md").read_text(encoding="utf-8")
