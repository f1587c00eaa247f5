"""Numbers stated on pages of the documentation, recomputed."""

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import lasthop
from lasthop.evaluating import statistics
from lasthop.running.replications import run_points
from lasthop.studies import studies
from lasthop.studies.verdicts import Evaluator

DOCS = Path(__file__).parent.parent / "docs"
PAPERS = DOCS.parent / "python" / "lasthop" / "papers"

RENO = """
name = "reno and the formulas"
[link.l]
between = ["server", "client"]
rate = "10 Mbps"
delay = "50 ms"
errors = { kind = "uniform", loss = LOSS }
reverse = { errors = { kind = "none" } }
[flow.t]
from = "server"
to = "client"
app = { kind = "file", size = "20 MB" }
[flow.t.transport]
kind = "tcp"
variant = "reno"
profile = "ns-2"
segment = "1000 B"
receive_window = "100 segments"
[run]
duration = "4000 s"
seed = 1
"""

SPEECH = """
name = "speech and a file"
[link.wired]
between = ["server", "ap"]
rate = "10 Mbps"
delay = "1 ms"
queue = "50 packets"
[link.wireless]
between = ["ap", "client"]
rate = "43.2 kbps"
delay = "100 ms"
queue = "50 packets"
errors = { kind = "none" }
[link.wireless.protocol]
kind = "services"
shares = "SHARES"
service.file.protocol = { kind = "raw" }
service.voice.protocol = { kind = "oos-rlp" }
[flow.transfer]
from = "server"
to = "client"
app = { kind = "file", size = "20 MB" }
[flow.transfer.transport]
kind = "tcp"
variant = "reno"
profile = "ns-2"
segment = "50 B"
header = "0 B"
ack_size = "40 B"
receive_window = "20 segments"
limited_transmit = false
clock_granularity = "500 ms"
min_rto = "1 s"
initial_rto = "6 s"
[flow.call]
from = "server"
to = "client"
service = "voice"
transport = { kind = "udp" }
app = { kind = "media", rate = "14.4 kbps", packet = "50 B" }
[run]
duration = "600 s"
seed = 1
"""


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(("printed", "loss"), [("0.1 %", 0.001), ("1 %", 0.01), ("10 %", 0.1)])
def test_deviations_of_the_formulas_are_those_of_the_page(printed: str, loss: float) -> None:
    """Whole per cent, from 10 replications with seed 1: a tolerance of one for rounding."""
    row = re.search(rf"^\| {re.escape(printed)} \|(.*)\|$", page("theory.md"), re.MULTILINE)
    assert row is not None
    stated = [float(cell.split()[0].replace("−", "-")) for cell in row[1].split("|")]
    scenario = lasthop.Scenario.from_toml(RENO.replace("LOSS", str(loss)))
    table = lasthop.compare_theory(lasthop.run(scenario, replications=10))
    found = {row["rule"]: row["difference_percent"] for row in table.to_dicts()}
    for rule, value in zip(("Mathis", "PFTK", "window chain"), stated, strict=True):
        assert found[rule] == pytest.approx(value, abs=1.0), rule


def test_transfer_times_behind_a_proxy_are_those_of_the_page(tmp_path: Path) -> None:
    """The printed interval contains the mean and has about the same width."""
    row = re.search(r"CUBIC at a proxy \|(.*)\|$", page("links/split-connection.md"), re.MULTILINE)
    assert row is not None
    tables = lasthop.Scenario.from_toml(lasthop_starter()).to_dict()
    tables.pop("sweep")
    for loss, cell in zip(("0.1 %", "1 %"), row[1].split("|"), strict=True):
        mean, width = (float(part) for part in cell.split("±"))
        changes = {"link.satellite.errors.loss": loss, "link.satellite.agent.variant": "cubic"}
        results = lasthop.run(lasthop.Scenario(tables).with_(changes), replications=10, seed=1)
        found = statistics.interval(results.samples("flow.download.duration_s", 0))
        assert abs(found.mean - mean) < width
        assert found.ci95 == pytest.approx(width, rel=0.5)


def lasthop_starter() -> str:
    """The template `proxy`."""
    from importlib import resources

    folder = resources.files("lasthop.scenarios") / "starters"
    return (folder / "proxy.toml").read_text(encoding="utf-8")


def test_deadlines_that_speech_misses_are_those_of_the_page() -> None:
    stated = re.search(
        r"misses (\d+) % of its deadlines with\s+measured", page("links/services.md")
    )
    assert stated is not None
    found = []
    for shares in ("measured", "weights"):
        scenario = lasthop.Scenario.from_toml(SPEECH.replace("SHARES", shares))
        results = lasthop.run(scenario, replications=4)
        found.append(100.0 * results.samples("flow.call.deadline_miss", 0).mean())
    # Talk spurts differ between replications: a tolerance of three percentage points.
    assert found[0] == pytest.approx(float(stated[1]), abs=3.0)
    assert found[1] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "link", "loss", "digits"),
    [("cellular, 1 %", "cellular", 1, 1), ("WLAN, 3.0 %", "WLAN", 3, 0)],
)
def test_web_over_snoop_without_its_timer_is_as_on_the_page(
    row: str, link: str, loss: float, digits: int
) -> None:
    """Two rows of the table, to every printed digit, and the event counts of replication 0."""
    study = studies()["link-enhancements"]
    text = (PAPERS / study.key / "README.md").read_text(encoding="utf-8")
    shown = []
    for scheme, keys in (
        ("Raw link", {}),
        ("Go-Back-N", {}),
        ("Selective Repeat", {}),
        ("Berkeley Snoop", {}),
        ("Berkeley Snoop", {"link.wireless.agent.min_rto": "1000 s"}),
    ):
        where = {"application": "WWW", "link": link, "scheme": scheme, "flr": loss, "hops": 1}
        scenario = study.scenario(study.grid.cell(where)).with_(keys)
        results = lasthop.run(scenario, replications=10, seed=study.seed)
        kbps = results.samples("flow.web.goodput_bps", 0, censored=True) / 1000.0
        found = statistics.interval(kbps)
        shown.append(f"{found.mean:.{digits}f} ± {found.ci95:.{digits}f}")
        if scheme == "Berkeley Snoop" and not keys and link == "WLAN":
            counts = [
                int(results.samples(f"agent.wireless.local_{name}", 0)[0])
                for name in ("retransmissions", "timeouts")
            ]
            assert "Of {} local retransmissions {} are due".format(*counts) in text
    assert f"| {row} | {' | '.join(shown)} |" in text


def stored(study: str, artefact: str, row: str, column: str) -> float:
    """Our mean in a table or figure of a study's results.md."""
    text = (PAPERS / study / "results.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## {re.escape(artefact)}\. .*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None, artefact
    lines = [line for line in found[0].splitlines() if line.startswith("|")]
    tables = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    (cells,) = (cells for cells in tables[2:] if cells[0].strip("| ") == row)
    return float(cells[tables[0].index(column)].split()[0])


IDEAL, RLC, TCP = "Speech, ideal link", "Speech", "Figure 6, 0.4 s"
DEADLINE = "as the deadline allows"
LIMITS = [f"M_t = {limit}" for limit in (20, 10, 5)]


@pytest.mark.parametrize(
    ("sentence", "cells"),
    [
        (
            "10 transmissions leave {:.0%} of the packets undelivered, 20 leave {:.0%},",
            [("Residual loss", row, "ideal selective repeat") for row in ("10", "20")],
        ),
        ("10 transmissions leave {:.1%}. A limit", [("Residual loss", "10", "RLC AM")]),
        (
            "the goodput is {:.0f} kbps without limit, {:.0f} with 20 transmissions, "
            "{:.0f} with 10, and {:.0f} with 5.",
            [(TCP, "0.01", column) for column in ("unlimited", *LIMITS)],
        ),
        (
            "with the exact inversion: {:.0f} of {:.0f} kbps.",
            [(TCP, "0.01", "adaptive, exact"), (TCP, "0.01", "unlimited")],
        ),
        ("and gives {:.0f} kbps.", [(TCP, "0.01", "adaptive, eigenvalue")]),
        (
            "({} instead of {} % at 150 ms)",
            [(IDEAL, "150", DEADLINE), (IDEAL, "150", "unlimited")],
        ),
        (
            "with a limit of 3, {:.0f} % miss 150 ms instead of {:.0f} %; "
            "with a limit of 1, {:.0f} %",
            [(RLC, "150", column) for column in ("M_t = 3", "unlimited", "M_t = 1")],
        ),
        (
            "with a limit of 5, {:.0f} % instead of {:.0f} % of the packets miss 150 ms",
            [("Speech with TCP", "150", column) for column in ("M_t = 5", "unlimited")],
        ),
        (
            "without limit {:.0f}, {:.0f}, {:.1f} and",
            [(IDEAL, row, "unlimited") for row in ("50", "100", "150")],
        ),
        (
            "and to {:.0f} ms on RLC AM.",
            [("Delay", "30", "RLC AM")],
        ),
    ],
)
def test_numbers_of_the_page_on_persistence_are_those_of_the_study(
    sentence: str, cells: list[tuple[str, str, str]]
) -> None:
    values = [stored("arq-and-tcp", *cell) for cell in cells]
    if "{}" in sentence:
        values = [round(value, 1) for value in values]
    shown = re.sub(r"(\d)%", r"\1 %", sentence.format(*values))
    text = " ".join(page("persistence.md").split())
    assert shown in text


@pytest.mark.parametrize(
    ("row", "artefact", "column"),
    [
        ("LL-ELSN", "Figure 6a", "LL-ELSN"),
        ("Snoop", "Figure 6a", "Snoop"),
        ("JTCP, the best of the others up to 5 %", "Figure 6b", "JTCP"),
        ("LHP's list, notified by its receiver", "Figure 6a", "LHP list"),
        ("Reno", "Figure 6a", "Reno"),
    ],
)
def test_goodputs_on_the_page_on_notification_are_those_of_the_study(
    row: str, artefact: str, column: str
) -> None:
    text = (PAPERS / "link-status-notification" / "README.md").read_text(encoding="utf-8")
    values = [
        stored("link-status-notification", artefact, rate, column)
        for rate in ("0.01", "1", "5", "9")
    ]
    assert f"| {row} | {' | '.join(f'{value:.2f}' for value in values)} |" in text


def test_causes_on_the_page_on_notification_are_those_of_the_study() -> None:
    """Timeouts of Snoop, notified losses and head-of-line blocking."""
    text = (PAPERS / "link-status-notification" / "README.md").read_text(encoding="utf-8")

    def at(*cell: str) -> float:
        return stored("link-status-notification", *cell)

    snoop = [at("Timeouts of Snoop and LL-ELSN", rate, "Snoop") for rate in ("1", "5", "9")]
    shown = "Snoop has {:.2f} timeouts per 1000 segments at 1 %, {:.2f} at 5 % and {:.1f} at 9 %"
    assert shown.format(*snoop) in text
    others = [at("Timeouts of Snoop and LL-ELSN", rate, "LL-ELSN") for rate in ("1", "5", "9")]
    assert max(others) == 0.006
    hack = [at("Notified losses", rate, "HACK") for rate in ("1", "9")]
    assert "notified of {:.0f} % of them at 1 % and of {:.0f} % at 9 %".format(*hack) in text
    left = [at("Head of line, a station leaves", "7", who) for who in ("Reno", "Snoop", "LL-ELSN")]
    assert "{:.2f} (Reno), {:.2f} (Snoop) and {:.2f} (LL-ELSN)".format(*left) in text
    for burst, low, high, digits in (("0.5", 0.3, 3, 1), ("0.9", 10, 25, 0)):
        harm = [
            100 * (1 - at(name, "7", who) / at(name, "3", who))
            for name in [f"Head of line, p_bb {burst}"]
            for who in ("Reno", "Snoop", "LL-ELSN")
        ]
        assert (round(min(harm), digits), round(max(harm))) == (low, high)
        assert f"{low} to {high} %" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "open_at", "shown"),
    [
        (
            "C18",
            [{"fer": 1, "scheme": "Snoop"}, {"fer": 3, "scheme": "Snoop"}],
            "at 1 % LL-ELSN has {:.2f} Mbps and Snoop {:.2f}, at 3 % {:.2f} and {:.2f}",
        ),
        (
            "C34",
            [{}],
            "at 9 % LL-ELSN has {:.2f} Mbps with three attempts and {:.2f} with one",
        ),
    ],
)
def test_more_replications_decide_claims_as_on_the_page_on_notification(
    claim: str, open_at: list[dict[str, object]], shown: str
) -> None:
    """200 replications of the open comparisons, judged at the level of the whole claim."""
    study = studies()["link-status-notification"]
    (whole,) = (one for one in study.claims if one.id == claim)
    chosen = [
        one
        for one in whole.comparisons
        if "elsn" in one.left and any(where.items() <= dict(one.cell).items() for where in open_at)
    ]
    assert len(chosen) == len(open_at)
    cells = study.cells_of(replace(whole, comparisons=tuple(chosen)))
    points = [study.scenario(cell).points()[0] for cell in cells]
    results = run_points(points, replications=200, seed=study.seed, scenario={"name": study.key})
    samples = study.samples({cell: place for place, cell in enumerate(cells)}, results)
    level = 1.0 - (1.0 - study.rule.level) / len(whole.comparisons)
    judged = [Evaluator(samples, study.names, study.rule).judge(one, level) for one in chosen]
    assert all(one.holds for one in judged)
    text = (PAPERS / study.key / "README.md").read_text(encoding="utf-8")
    assert shown.format(*(side for one in judged for side in (one.left, one.right))) in text


@pytest.mark.parametrize("transport", ["SACK", "LT-TCP"])
@pytest.mark.parametrize("rtt", ["10", "80", "200"])
def test_the_abstract_window_on_the_page_on_disruption_is_that_of_the_study(
    rtt: str, transport: str
) -> None:
    text = (PAPERS / "disruption" / "README.md").read_text(encoding="utf-8")
    goodput = stored("disruption", "Table II", rtt, transport)
    timeouts = stored("disruption", "Table II, timeouts", rtt, transport)
    shown = re.search(rf"^\| {rtt}, {transport} \| (\d+), ([\d.]+) \|", text, re.MULTILINE)
    assert shown is not None
    assert (float(shown[1]), float(shown[2])) == (goodput, timeouts)


@pytest.mark.parametrize("window", ["kept", "restored"])
def test_the_gain_of_sack_on_the_web_in_ns2_is_that_of_the_page(window: str) -> None:
    """40 runs of `tools/ns2/web.tcl` in each row, paired by their seeds."""
    path = DOCS.parent / "tools" / "ns2" / "reference" / "web_initial_window.csv"
    runs = pl.read_csv(path).filter(pl.col("initial_window") == window).sort("seed")
    by_tcp = [runs.filter(pl.col("tcp") == tcp) for tcp in ("reno", "sack")]
    cells = [
        f"{float(run[count].sum()) / float(run['replies'].sum()):.{digits}f}"
        for count, digits in (("timeouts", 3), ("retransmissions", 2))
        for run in by_tcp
    ]
    reno, sack = (run["kbps"].to_numpy() for run in by_tcp)
    assert len(reno) == len(sack) == 40
    gain = statistics.difference(sack, reno)
    cells.append(f"{100 * (gain.ratio - 1):.1f} ± {100 * gain.ratio_ci95:.1f}")
    text = (PAPERS / "multilayer" / "README.md").read_text(encoding="utf-8")
    assert f"| ns-2, window {window} | {' | '.join(cells)} |" in text


@pytest.mark.slow
def test_the_gain_of_sack_on_the_web_is_that_of_the_page() -> None:
    """The row of 200 replications in the comparison with ns-2, to every printed digit."""
    study = studies()["multilayer"]
    where = {"application": "web", "model": "uniform", "topology": "LAN", "congestion": False}
    goodput = []
    counts: dict[tuple[str, str], str] = {}
    for combination in ("Reno/Raw", "SACK/Raw"):
        cell = study.grid.cell(where | {"combination": combination, "flr": 5.4})
        results = lasthop.run(study.scenario(cell), replications=200, seed=study.seed)
        samples = {
            name: results.samples(f"flow.web.{name}", 0, censored=True)
            for name in ("goodput_bps", "timeouts", "retransmissions", "replies")
        }
        goodput.append(samples["goodput_bps"])
        for name, digits in (("timeouts", 3), ("retransmissions", 2)):
            value = samples[name].sum() / samples["replies"].sum()
            counts[name, combination] = f"{value:.{digits}f}"
    gain = statistics.difference(goodput[1], goodput[0])
    cells = [
        counts[name, combination]
        for name in ("timeouts", "retransmissions")
        for combination in ("Reno/Raw", "SACK/Raw")
    ]
    cells.append(f"{100 * (gain.ratio - 1):.1f} ± {100 * gain.ratio_ci95:.1f}")
    text = (PAPERS / study.key / "README.md").read_text(encoding="utf-8")
    assert f"| here, 200 replications | {' | '.join(cells)} |" in text


@pytest.mark.slow
def test_restored_reductions_of_bbr_are_those_of_the_page() -> None:
    text = re.search(r"^\*\*18-path-restored\*\* .*$", page("suites/bbr.md"), re.MULTILINE)
    assert text is not None
    path = lasthop.load(DOCS.parent / "suites" / "bbr" / "path.toml")
    path = path.with_({"flow.candidate.transport.variant": "bbr3"})
    long = {"link.path.queue": "5000 packets"}
    runs = [path, path.with_(long), path.with_({**long, "run.duration": "60 s"})]
    found = []
    for scenario in runs:
        results = lasthop.run(scenario, replications=10, seed=1)
        names = ("flow.candidate.reductions_undone", "flow.candidate.window_reductions")
        undone, all_of_them = (results.samples(name, 0) for name in names)
        found.append((undone, all_of_them))
    (undone, reductions), (undone_long, reductions_long), (undone_twice, reductions_twice) = found
    assert f"{undone_long.sum():.0f} of {reductions_long.sum():.0f} in ten" in text[0]
    assert undone_twice.sum() == reductions_twice.sum()
    assert f"in 60 s instead of 30 s, there are {undone_twice.sum():.0f}." in text[0]
    kept = reductions - undone
    assert f"{kept.min():.0f} to {kept.max():.0f} reductions per replication" in text[0]
    interval = statistics.interval(undone)
    assert f"passes with {interval.mean:.1f} ± {interval.ci95:.1f} of" in text[0]
