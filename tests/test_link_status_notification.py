"""The study `link-status-notification`."""

import numpy as np
import polars as pl
import pytest

import lasthop
from lasthop.studies import Study, studies
from lasthop.studies.claims import Cell


@pytest.fixture(scope="module")
def study() -> Study:
    return studies()["link-status-notification"]


def cell(study: Study, **coordinates: object) -> Cell:
    return study.grid.cell(coordinates)


@pytest.mark.slow
def test_every_cell_is_a_scenario(study: Study) -> None:
    cells = study.cells(study.artefacts)
    assert len(cells) > 450
    for one in cells:
        study.scenario(one).points()
    needed = {one for claim in study.claims for one in study.cells_of(claim)}
    assert needed <= set(cells), "one command runs all that claims need"


def test_cells_are_what_their_coordinates_say(study: Study) -> None:
    one = study.scenario(cell(study, scheme="LL-ELSN", fer=5, doff=20, limit=3, retry=100))
    assert one["flow.f01.transport.variant"] == "esack"
    assert one["wlan.cell.agent"] == {"kind": "ll-elsn", "at": "ap"}
    assert one["wlan.cell.short_retry_limit"] == 3
    assert one["wlan.cell.retry_delay"] == "100 ms"
    ber = one["wlan.cell.errors.ber"]
    assert (1.0 - ber) ** (8 * 1068) == pytest.approx(0.95)
    assert {one[f"link.{name}.delay"] for name in ("access", "shared")} == {"20 ms"}
    up = study.scenario(cell(study, scheme="Snoop", direction="uplink"))
    assert (up["flow.f01.from"], up["wlan.cell.agent.at"]) == ("d01", "d01")
    mixed = study.scenario(cell(study, scheme="SACK", n=10, switched=3))
    variants = [mixed[f"flow.f{number:02}.transport.variant"] for number in range(1, 11)]
    assert variants == ["sack"] * 3 + ["reno"] * 7
    bursty = study.scenario(cell(study, scheme="Reno", n=10, bb=0.3))
    assert bursty["wlan.cell.errors.p_bad_to_good"] == pytest.approx(0.7)
    assert bursty["wlan.cell.shared_errors"] is True
    gone = study.scenario(cell(study, scheme="LL-ELSN without filter", n=10, leaves=10))
    assert gone["wlan.cell.station.d01.leaves"] == "10 s"
    assert gone["flow.f10.transport.eln_filter"] == 0
    near = study.scenario(cell(study, scheme="Reno", hops=1))
    assert near["flow.f01.from"] == "s1"


def test_background_has_its_mean_rate(study: Study) -> None:
    """200 s of on and off times of shape 2, with infinite variance: within a tenth, with a fixed
    seed.
    """
    scenario = study.scenario(cell(study, scheme="Reno", background=8))
    source = scenario["flow.background.app"]
    assert (source["rate"], source["on"]) == ("10 Mbps", "pareto 400 ms shape 2")


@pytest.mark.slow
def test_a_quantity_may_be_the_fairness_of_all_flows(study: Study) -> None:
    report = study.reproduce(["Figure 10a"], replications=2)
    (found,) = (one for one in report.cells if (one.row, one.column) == ("2", "SACK"))
    point = cell(study, scheme="SACK", n=2, doff=20)
    scenario = study.scenario(point)
    results = lasthop.run(scenario, replications=2, seed=study.seed)
    shares = np.array(
        [results.samples(f"flow.f0{one}.goodput_bps", 0, censored=True) for one in (1, 2)]
    )
    expected = (shares.sum(axis=0) ** 2 / (2 * (shares**2).sum(axis=0))).mean()
    assert found.value == pytest.approx(expected)
    assert 0.5 <= found.value <= 1.0


def test_theory_of_the_table_and_figure_3(study: Study) -> None:
    at = cell(study, source="model", scheme="LL-ELSN", direction="downlink", of="delay", p=0.05)
    assert study.models.value("delay", dict(at)) == 20
    other = dict(at) | {"scheme": "Balakrishnan"}
    assert study.models.value("delay", other) == pytest.approx(20 + 1.53 / 0.95 + 0.8, abs=0.01)
    load = {"source": "model", "of": "ERSN, printed", "p": 0.2, "limit": 2}
    assert study.models.value("load", load) == pytest.approx(3.261, abs=5e-4)


def reactions(scenario: lasthop.Scenario) -> np.ndarray:
    """Delays in ms from each data frame lost on the medium to the retransmission of its segment."""
    trace = lasthop.trace(scenario.with_({"run.duration": "40 s"}))
    sent = trace.frame.filter(
        (pl.col("entity") == "flow.f01") & (pl.col("event") == "segment_sent")
    )
    departures: dict[int, list[float]] = {}
    for time, segment in sent.select("time_s", "sequence").iter_rows():
        departures.setdefault(int(segment), []).append(time)
    lost = trace.transmissions.filter(
        pl.col("entity").str.starts_with("link.cell.d01")
        & (pl.col("kind") == "data")
        & (pl.col("bytes") > 1000)
        & pl.col("arrival_s").is_null()
    )
    found = []
    for segment, end in lost.select("segment", "end_s").iter_rows():
        later = [time for time in departures[int(segment)] if time > end]
        found.extend([1e3 * (later[0] - end)] if later else [])
    return np.array(found)


@pytest.mark.slow
def test_notices_arrive_as_quickly_as_table_1_says(study: Study) -> None:
    """C38 in simulations: LL-ELSN takes the wired path of 20 ms, and nothing if it is at the
    station. HACK takes an acknowledgment over the medium in addition. Balakrishnan's ELN takes data
    and a duplicate ACK in addition.
    """
    elsn = reactions(study.scenario(cell(study, scheme="LL-ELSN", fer=5)))
    hack = reactions(study.scenario(cell(study, scheme="HACK", fer=5)))
    up = reactions(study.scenario(cell(study, scheme="LL-ELSN", fer=5, direction="uplink")))
    marks = {
        "flow.f01.transport.variant": "balakrishnan-eln",
        "wlan.cell.agent": {"kind": "balakrishnan-eln", "at": "ap"},
    }
    balakrishnan = reactions(study.scenario(cell(study, scheme="Reno", fer=5)).with_(marks))
    for times, count in ((elsn, 1000), (hack, 100), (up, 1000), (balakrishnan, 100)):
        assert len(times) > count
    # Twice 10 ms of wire, 32 us, and 0.2 ms until the MAC discards the frame.
    assert 20.0 < np.median(elsn) < 20.4
    assert np.median(up) < 0.4
    # 0.55 to 1.2 ms for an ACK over the medium, more if it collides or is lost.
    assert 20.5 < np.percentile(hack, 5) < 21.0
    assert 20.6 < np.median(hack) < 22.0
    # At least a data frame and its ACK; the window may prevent further data from being sent for a
    # while.
    assert np.percentile(balakrishnan, 5) > 22.0
