"""Rules of `--compare-theory`: values, hypotheses, and what they say where they do not apply."""

import csv
import io
import itertools
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lasthop
from conftest import ROOT, SMALL
from lasthop import analysis, cli, theory
from lasthop.theory.network import Hypothesis, Network, Prediction
from lasthop.theory.rules import RULES, predict

SCENARIOS = sorted(
    path
    for folder in ("examples", "papers", "docs/links/scenarios")
    for path in (ROOT / folder).rglob("*.toml")
    if "[flow." in path.read_text()
)

CLEAN_BACK = {"errors": {"kind": "none"}}
UNIFORM = {"kind": "uniform", "loss": 0.05}
ERRORS: list[dict[str, Any]] = [
    {"kind": "none"},
    UNIFORM,
    {"kind": "uniform", "loss": 1.0},
    {"kind": "bit", "ber": 2e-5},
    {"kind": "exponential-bits", "mean": "32768 bits"},
    {"kind": "two-state", "good": "1 s", "bad": "100 ms", "good_ber": 1e-6, "bad_ber": 1e-2},
    {"kind": "two-state", "good": "1 s", "bad": "100 ms", "good_ber": 0.0, "bad_ber": 1.0},
    {"kind": "gilbert-elliott", "mean_loss": 0.05, "mean_burst": 4},
    {"kind": "gilbert-elliott", "p_good_to_bad": 0.0, "p_bad_to_good": 1.0},
    {
        "kind": "markov-chain",
        "transitions": [[0.9, 0.07, 0.03], [0.24, 0.7, 0.06], [0.1, 0.02, 0.88]],
        "loss": [0.001, 0.95, 0.2],
    },
]
PROTOCOLS: list[dict[str, Any]] = [
    {"kind": "raw"},
    {"kind": "xor-fec", "block": 8},
    {"kind": "stop-and-wait", "retries": 2},
    {"kind": "stop-and-wait"},
    {"kind": "go-back-n", "window": 8},
    {"kind": "go-back-n", "window": 40, "timeout": "350 ms", "reject": True},
    {"kind": "selective-repeat", "window": 100, "timeout": "3 s"},
    {"kind": "karn-rlp", "retransmissions": 1},
    {"kind": "oos-rlp", "retransmissions": 0},
    {"kind": "ideal-sr", "max_transmissions": 3},
    {"kind": "ideal-sr", "payload": "50 B"},
    {"kind": "rlc-am", "max_transmissions": 3},
    {"kind": "rlc-am", "payload": "50 B"},
    {"kind": "services", "service": {"one": {"protocol": {"kind": "xor-fec"}}, "two": {}}},
]
UDP = {"kind": "udp"}
FAST = {"kind": "on-off", "rate": "100 kbps", "on": "10 s", "off": "0 s", "packet": "250 B"}
MEDIA = {"kind": "media", "rate": "8 kbps", "packet": "100 B", "silence": "0 s"}


def scenario(
    app: dict[str, Any],
    *,
    transport: dict[str, Any] | None = None,
    duration: str = "400 s",
    replications: int = 12,
    **link: Any,
) -> dict[str, Any]:
    """One flow over one link of 64 kbps and 50 ms."""
    run: dict[str, Any] = {"seed": 1, "replications": replications}
    if app["kind"] != "file":
        run["duration"] = duration
    return {
        "name": "theory",
        "link": {"radio": {"between": ["a", "b"], "rate": "64 kbps", "delay": "50 ms", **link}},
        "flow": {"f": {"from": "a", "to": "b", "transport": transport or UDP, "app": app}},
        "run": run,
    }


def row(table: pl.DataFrame, rule: str, metric: str | None = None) -> dict[str, Any]:
    wanted = table.filter(pl.col("rule") == rule)
    if metric is not None:
        wanted = wanted.filter(pl.col("metric") == metric)
    return wanted.row(0, named=True)


def predictions(tables: dict[str, Any]) -> dict[tuple[str, str], Prediction]:
    point = lasthop.Scenario(tables).points()[0]
    sent = {name: 1e4 for name in point.metrics() if name.endswith(".data_frames")}
    found = predict(Network(json.loads(point.resolved()), sent))
    return {(one.rule, one.metric): one for one in found}


# Agreement is with the 95 % interval that users see: of 20 right values one is outside. Seeds are
# fixed, so that the tests below, all of which pass, cannot fail by chance; were seeds changed, each
# comparison would fail with probability 5 % (kind `exact`).


@pytest.mark.parametrize("errors", [*ERRORS[1:2], *ERRORS[3:6], ERRORS[7], ERRORS[9]])
def test_frame_and_residual_loss_of_error_processes(errors: dict[str, Any]) -> None:
    table = lasthop.compare_theory(scenario(MEDIA, errors=errors, reverse=CLEAN_BACK))
    frame = row(table, "frame loss", "link.radio.forward.frame_loss")
    residual = row(table, "residual loss", "flow.f.residual_loss")
    assert frame["theory"] == pytest.approx(residual["theory"])
    for one in (frame, residual, row(table, "delay")):
        assert one["inside"], one
        assert one["hypotheses"] == "met"
    assert row(table, "delay")["theory"] == pytest.approx(8 * 100 / 64e3 + 0.05)


def test_frame_loss_by_hand() -> None:
    for errors, expected in (
        (ERRORS[3], 1 - (1 - 2e-5) ** 800),
        (ERRORS[4], analysis.exponential_bits_loss(32768, 100)),
        (ERRORS[7], 0.05),
    ):
        found = predictions(scenario(MEDIA, errors=errors))
        loss = found["frame loss", "link.radio.forward.frame_loss"]
        assert loss.value == pytest.approx(expected)
    # The published loss of 250-byte frames at 64 kbps with bad periods of 1 s.
    study = analysis.two_state_loss(250, 64e3, good_s=10.0, bad_s=1.0, good_ber=1e-6, bad_ber=1e-2)
    assert study == pytest.approx(0.0953, abs=5e-5)


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ({"kind": "xor-fec", "block": 8}, 0.05 * (1 - 0.95**8)),
        ({"kind": "stop-and-wait", "retries": 1}, 0.05**2),
        ({"kind": "karn-rlp", "retransmissions": 1}, 0.05 * (1 - 0.95**2)),
        ({"kind": "oos-rlp", "retransmissions": 2}, 0.05 * (1 - 0.95**2) ** 2),
        ({"kind": "ideal-sr", "max_transmissions": 2}, 1 - (1 - 0.05**2) ** 3),
        ({"kind": "rlc-am"}, 0.0),
        ({"kind": "selective-repeat", "window": 8}, 0.0),
        ({"kind": "go-back-n", "window": 8}, 0.0),
    ],
)
def test_residual_loss_of_protocols(protocol: dict[str, Any], expected: float) -> None:
    slow = {**MEDIA, "rate": "2 kbps"}
    table = lasthop.compare_theory(
        scenario(slow, errors=UNIFORM, protocol=protocol, duration="2000 s")
    )
    one = row(table, "residual loss")
    assert one["theory"] == pytest.approx(expected)
    assert one["inside"], one
    assert one["hypotheses"] == "met"


@pytest.mark.parametrize(("back", "status"), [(CLEAN_BACK, "met"), ({}, "nearly")])
def test_residual_loss_of_acknowledged_mode(back: dict[str, Any], status: str) -> None:
    limited = {"kind": "rlc-am", "max_transmissions": 2}
    tables = scenario(
        {**MEDIA, "rate": "2 kbps"},
        errors={"kind": "uniform", "loss": 0.2},
        reverse=back,
        protocol=limited,
        duration="2000 s",
    )
    one = row(lasthop.compare_theory(tables), "residual loss")
    assert one["theory"] == pytest.approx(1 - (1 - 0.2**2) ** 3)
    assert one["inside"], one
    assert one["hypotheses"] == status
    # A reset loses whatever is in flight; a timer gives packets up by age.
    for more in ({"at_limit": "reset"}, {"discard_timer": "1 s"}):
        tables["link"]["radio"]["protocol"] = {**limited, **more}
        assert ("residual loss", "flow.f.residual_loss") not in predictions(tables)


def test_rlp_with_a_clean_way_back_leaves_a_power_of_the_loss() -> None:
    found = predictions(
        scenario(
            MEDIA,
            errors=UNIFORM,
            reverse=CLEAN_BACK,
            protocol={"kind": "oos-rlp", "retransmissions": 3},
        )
    )
    assert found["residual loss", "flow.f.residual_loss"].value == pytest.approx(0.05**4)


def test_residual_loss_and_bursts_over_several_links() -> None:
    tables = scenario(MEDIA, errors=UNIFORM)
    tables["link"]["far"] = {**tables["link"]["radio"], "between": ["b", "c"], "rate": "1 Mbps"}
    tables["flow"]["f"]["to"] = "c"
    table = lasthop.compare_theory(tables)
    residual, bursts = row(table, "residual loss"), row(table, "loss bursts")
    assert residual["theory"] == pytest.approx(1 - 0.95**2)
    assert bursts["theory"] == pytest.approx(1 / 0.95**2)
    assert residual["inside"]
    assert bursts["inside"]


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        # A frame of 250 bytes takes 31.25 ms; headers of 0, 1 and 2 bytes.
        ({"kind": "raw"}, 64e3 * 0.95),
        (
            {"kind": "xor-fec", "block": 8},
            64e3 * 8 * 250 / (8 * 251 + 254) * (1 - 0.05 * (1 - 0.95**8)),
        ),
        ({"kind": "oos-rlp", "retransmissions": 2}, 64e3 * 250 / 251 * 0.95),
        ({"kind": "selective-repeat", "window": 100, "timeout": "3 s"}, 64e3 * 250 / 252 * 0.95),
        ({"kind": "go-back-n", "window": 40, "timeout": "350 ms"}, None),
        ({"kind": "go-back-n", "window": 3}, None),
        ({"kind": "stop-and-wait", "retries": 2}, None),
    ],
)
def test_goodput_of_saturated_links(protocol: dict[str, Any], expected: float | None) -> None:
    table = lasthop.compare_theory(
        scenario(FAST, errors=UNIFORM, reverse=CLEAN_BACK, protocol=protocol, duration="1000 s")
    )
    one = row(table, "saturated link")
    if expected is not None:
        assert one["theory"] == pytest.approx(expected)
    assert one["agrees"], one
    assert one["hypotheses"] in ("met", "nearly")
    # What a full queue refuses is no matter of error control: nothing is said about it.
    assert table.filter(pl.col("rule") == "residual loss").is_empty()


def test_a_small_window_makes_selective_repeat_a_bound() -> None:
    table = lasthop.compare_theory(
        scenario(FAST, errors=UNIFORM, protocol={"kind": "selective-repeat", "window": 4})
    )
    one = row(table, "saturated link")
    assert one["kind"] == "upper bound"
    trip = 8 * 252 / 64e3 + 8 * 2 / 64e3 + 0.1
    assert one["theory"] == pytest.approx(0.95 * 4 * 250 * 8 / trip)
    assert one["difference"] < 0.0
    assert one["inside"]


def test_control_frames_have_the_size_that_their_window_asks_for() -> None:
    services = {
        "kind": "services",
        "service": {
            "one": {"protocol": {"kind": "selective-repeat", "window": 8}},
            "two": {"protocol": {"kind": "go-back-n", "window": 300}},
        },
    }
    link = lasthop.Scenario(scenario(FAST, protocol=services)).points()[0].resolved()
    found = json.loads(link)["links"]["radio"]["protocol"]["service"]
    assert [found[name]["protocol"]["control"] for name in ("one", "two")] == [2, 4]


def radio(
    app: dict[str, Any], duration: str, kind: str = "ideal-sr", **protocol: Any
) -> dict[str, Any]:
    """The paper's radio with b = g = 0.9: 25 slots of 10 ms, one station, packets of 1000 B."""
    return {
        "name": "radio",
        "radio": {
            "cell": {
                "base": "b",
                "stations": ["m"],
                "slot": "42 B",
                "protocol": {"kind": kind, **protocol},
                "errors": {
                    "kind": "slotted-gilbert-elliott",
                    "stay_good": 0.9,
                    "stay_bad": 0.9,
                    "loss_good": 0.01,
                    "loss_bad": 0.9,
                },
            }
        },
        "flow": {"f": {"from": "m", "to": "b", "transport": UDP, "app": app}},
        "run": {"seed": 1, "replications": 12, "duration": duration},
    }


def test_an_ideal_link_on_a_framed_radio_loses_what_the_chain_says() -> None:
    app = {**MEDIA, "rate": "2500 bps", "packet": "1000 B"}
    table = lasthop.compare_theory(radio(app, "3200 s", max_transmissions=10))
    one = row(table, "residual loss")
    assert one["theory"] == pytest.approx(0.199528827)
    assert one["inside"], one
    assert one["hypotheses"] == "met"
    dense = lasthop.compare_theory(
        radio({**app, "rate": "200 kbps"}, "100 s", max_transmissions=10)
    )
    broken = row(dense, "residual loss")["broken"]
    assert broken.startswith("an SDU is finished before the next one comes")


def test_a_saturated_radio_uses_every_slot() -> None:
    app = {**FAST, "rate": "2 Mbps", "packet": "1000 B"}
    table = lasthop.compare_theory(radio(app, "300 s"))
    one = row(table, "saturated link")
    assert one["theory"] == pytest.approx(8000 * 100 * (1 - 0.455))
    assert one["agrees"], one
    # Every slot is used: what is sent is what arrives over the share that does.
    sent = row(table, "mean transmissions")
    assert sent["inside"], sent
    assert sent["hypotheses"] == "met"


@pytest.mark.slow
def test_acknowledged_mode_on_a_radio_stays_below_an_ideal_link() -> None:
    app = {**FAST, "rate": "2 Mbps", "packet": "1000 B"}
    tables = radio(app, "300 s", "rlc-am")
    tables["radio"]["cell"]["downlink_errors"] = "none"
    table = lasthop.compare_theory(tables)
    one = row(table, "saturated link")
    assert one["kind"] == "upper bound"
    assert one["theory"] == pytest.approx(8000 * 100 * (1 - 0.455))
    assert one["inside"], one
    assert abs(one["difference_percent"]) < 2.0
    sent = row(table, "mean transmissions")
    assert sent["inside"], sent
    assert sent["hypotheses"] == "met"
    # A report that is lost costs time, and makes Timer_Poll repeat what has arrived.
    tables["radio"]["cell"]["downlink_errors"] = tables["radio"]["cell"]["errors"]
    lossy = lasthop.compare_theory(tables)
    assert row(lossy, "saturated link")["inside"]
    assert row(lossy, "mean transmissions")["broken"].startswith("no report is lost")
    # No closed form has the loss on a channel with memory: reports need something that arrives.
    tables = radio({**MEDIA, "rate": "2500 bps", "packet": "1000 B"}, "50 s", "rlc-am")
    tables["radio"]["cell"]["protocol"]["max_transmissions"] = 4
    table = lasthop.compare_theory(tables, replications=2)
    assert row(table, "residual loss")["hypotheses"] == "broken"
    assert table.filter(pl.col("rule") == "mean transmissions").is_empty()


@pytest.mark.parametrize(
    ("kind", "limit"), [("ideal-sr", 2), ("ideal-sr", "unlimited"), ("rlc-am", "unlimited")]
)
def test_mean_transmissions_on_independent_losses(kind: str, limit: int | str) -> None:
    table = lasthop.compare_theory(
        scenario(
            {**MEDIA, "rate": "2 kbps"},
            errors={"kind": "uniform", "loss": 0.3},
            reverse=CLEAN_BACK,
            protocol={"kind": kind, "max_transmissions": limit},
            duration="2000 s",
        )
    )
    one = row(table, "mean transmissions")
    # 5000 packets of three segments.
    expected = 0.3 if limit == 2 else 0.3 / 0.7
    assert one["theory"] == pytest.approx(15_000 * expected, rel=1e-3)
    assert one["inside"], one
    assert one["hypotheses"] == "met"


def test_mean_transmissions_on_a_radio_with_memory() -> None:
    """N of the chain where packets are far apart; its rounds are frames."""
    app = {**MEDIA, "rate": "2500 bps", "packet": "1000 B"}
    channel = analysis.Channel(0.1, 0.1, 0.01, 0.9)
    for limit in (10, "unlimited"):
        table = lasthop.compare_theory(radio(app, "3200 s", max_transmissions=limit))
        one = row(table, "mean transmissions")
        most = None if limit == "unlimited" else 10
        sent = analysis.transmissions_per_pdu(channel, most) - 1.0
        assert one["theory"] == pytest.approx(25_000 * sent, rel=2e-3)
        assert one["inside"], one
        assert one["hypotheses"] == "met"
    dense = lasthop.compare_theory(radio({**app, "rate": "200 kbps"}, "20 s"), replications=2)
    broken = row(dense, "mean transmissions")["broken"]
    assert broken.startswith("an SDU is finished before the next one comes")


def over_radio(limit: int | str, loss: float) -> lasthop.Scenario:
    """The study's file over its radio and a wire of 550 ms each way."""
    base = lasthop.load(ROOT / "papers/arq-and-tcp/radio.toml")
    return base.with_(
        {
            "radio.cell.protocol.max_transmissions": limit,
            "link.wired.errors": {"kind": "uniform", "loss": loss},
            "run.duration": "2000 s",
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "loss"), [("unlimited", 0.003), (40, 0.005)])
def test_the_window_chain_over_a_radio(limit: int | str, loss: float) -> None:
    table = lasthop.compare_theory(over_radio(limit, loss), seed=3)
    one = row(table, "window chain over a radio")
    model = analysis.tcp_over_arq(
        analysis.Channel(0.1, 0.1, 0.01, 0.9),
        [None if limit == "unlimited" else int(limit)],
        pdus=25,
        frame_s=0.01,
        capacity_per_s=100.0,
        wired_loss=loss,
        wired_round_trip_s=1.11,
    )
    assert one["theory"] == pytest.approx(8 * 960 * model["goodput_per_s"][0], rel=1e-4)
    assert one["kind"] == "± 15 %"
    assert one["agrees"], one
    assert abs(one["difference_percent"]) < 15.0
    assert one["hypotheses"] in ("met", "nearly")


def test_the_window_chain_over_a_radio_says_where_it_fails() -> None:

    def compared(given: lasthop.Scenario) -> dict[str, Any]:
        table = lasthop.compare_theory(given, replications=2, seed=3)
        return row(table, "window chain over a radio")

    few = compared(over_radio(10, 0.01))
    assert "timeouts take little of the time" in few["broken"]
    both = over_radio("unlimited", 0.01).with_(
        {"radio.cell.downlink_errors": over_radio("unlimited", 0.01)["radio.cell.errors"]}
    )
    back = compared(both)
    assert back["broken"].startswith("no acknowledgment is lost or late (the way back has errors")
    near = over_radio("unlimited", 0.002).with_({"link.wired.delay": "200 ms"})
    full = compared(near)
    assert full["broken"].startswith("the path is not filled")


def tcp(**keys: Any) -> dict[str, Any]:
    return {
        "kind": "tcp",
        "variant": "reno",
        "profile": "ns-2",
        "segment": "1000 B",
        "receive_window": "1000 segments",
        **keys,
    }


def test_tcp_formulas_on_a_lossy_link() -> None:
    """Reno at a loss of 0.3 %: the formulas are within their 15 %, and PFTK best of all."""
    table = lasthop.compare_theory(
        scenario(
            {"kind": "file", "size": "40 MB"},
            transport=tcp(),
            replications=8,
            rate="10 Mbps",
            errors={"kind": "uniform", "loss": 0.003},
            reverse=CLEAN_BACK,
        )
    )
    trip = 0.1 + 8 * 1000 / 10e6 + 8 * 40 / 10e6
    for rule, expected in (
        ("Mathis", analysis.mathis(0.003, trip, independent=True)),
        ("PFTK", analysis.padhye(0.003, trip, timeout_s=1.0, window=1000)),
        ("window chain", analysis.tcp_chain(0.003, trip, capacity_per_s=1250.0, max_window=1000)),
    ):
        one = row(table, rule)
        assert one["theory"] == pytest.approx(8000 * 0.997 * expected)
        assert one["kind"] == "± 15 %"
        assert one["agrees"], one
        assert one["hypotheses"] == "nearly"
    assert abs(row(table, "PFTK")["difference_percent"]) < 5.0
    assert table.filter(pl.col("rule") == "TCP limit").is_empty()


@pytest.mark.parametrize(("window", "limited"), [(20, True), (500, False)])
def test_tcp_on_a_clean_wire_stays_below_window_and_link(window: int, *, limited: bool) -> None:
    table = lasthop.compare_theory(
        scenario(
            {"kind": "file", "size": "20 MB"},
            transport=tcp(receive_window=f"{window} segments"),
            replications=2,
            rate="10 Mbps",
            queue="1000 packets",
        )
    )
    one = row(table, "TCP limit")
    assert one["kind"] == "upper bound"
    trip = 0.1 + 8 * 1000 / 10e6 + 8 * 40 / 10e6
    assert one["theory"] == pytest.approx(8000 * window / trip if limited else 10e6)
    assert one["inside"]
    assert one["difference_percent"] > -6.0


def test_broken_hypotheses_are_marked() -> None:
    """Losses in bursts at which a formula for independent ones is wrong, and says so."""
    table = lasthop.compare_theory(
        scenario(
            {**MEDIA, "rate": "2 kbps"},
            errors=ERRORS[7],
            protocol={"kind": "stop-and-wait", "retries": 1},
            queue="1 MB",
        )
    )
    one = row(table, "residual loss")
    assert one["theory"] == pytest.approx(0.05**2)
    assert (one["inside"], one["agrees"]) == (False, False)
    assert one["simulated"] > 2 * one["theory"]
    assert one["hypotheses"] == "broken"
    assert one["broken"] == "losses are independent (radio forward has gilbert-elliott)"


def test_what_a_run_measured_counts_as_a_hypothesis() -> None:
    """Speech that talks faster than the link sends: the queue refuses some of it."""
    speech = {"kind": "media", "rate": "100 kbps", "packet": "250 B"}
    table = lasthop.compare_theory(
        scenario(speech, errors=UNIFORM, queue="2 packets", replications=3, duration="100 s")
    )
    one = row(table, "residual loss")
    assert one["hypotheses"] == "broken"
    assert one["broken"].startswith("queues refuse nothing (")
    assert row(table, "delay")["broken"].startswith("packets come no faster than any link sends")


def test_the_interval_decides() -> None:
    def comparison(value: float, mean: float, ci95: float, **more: Any) -> theory.Comparison:
        prediction = Prediction("r", "m", value, (), **more)
        return theory.Comparison(0, prediction, lasthop.statistics.Interval(mean, ci95, 5))

    assert comparison(10.0, 11.0, 1.0).inside is True
    assert comparison(10.0, 11.1, 1.0).inside is False
    assert comparison(10.0, 11.1, float("nan")).inside is None
    assert comparison(10.0, 11.1, float("nan")).agrees is None
    assert comparison(10.0, 5.0, 0.1, is_bound=True).inside is True
    assert comparison(10.0, 10.2, 0.1, is_bound=True).inside is False
    assert comparison(10.0, 12.0, 0.6, accuracy=0.15).inside is False
    assert comparison(10.0, 12.0, 0.6, accuracy=0.15).agrees is True
    assert comparison(10.0, 12.2, 0.6, accuracy=0.15).agrees is False
    assert comparison(0.0, 0.0, 0.0).percent is None


def test_bad_news_about_hypotheses_comes_first() -> None:
    def worst(*statuses: str) -> str:
        needs = tuple(Hypothesis("t", status) for status in statuses)  # type: ignore[arg-type]
        interval = lasthop.statistics.Interval(1.0, 0.1, 5)
        return theory.Comparison(0, Prediction("r", "m", 1.0, needs), interval).hypotheses

    assert worst() == "met"
    assert worst("met", "nearly") == "nearly"
    assert worst("nearly", "unknown") == "unknown"
    assert worst("unknown", "broken", "met") == "broken"


def test_results_are_compared_with_their_own_scenario() -> None:
    results = lasthop.run(scenario(MEDIA, errors=UNIFORM, replications=2, duration="20 s"))
    table = lasthop.compare_theory(results)
    assert set(table["rule"]) == {"frame loss", "residual loss", "loss bursts", "delay"}
    other = lasthop.Scenario(scenario(MEDIA, errors=UNIFORM, delay="1 ms"))
    with pytest.raises(ValueError, match="other results"):
        lasthop.compare_theory(results, scenario=other)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: str(path.relative_to(ROOT)))
def test_rules_never_fail_on_a_scenario_there_is(path: Path) -> None:
    for point in lasthop.load(path).points():
        network = Network(json.loads(point.resolved()), {})
        for one in predict(network):
            assert one.metric.split(".")[0] in ("link", "flow")
            assert one.rule in {rule.name for rule in RULES}
            assert one.value >= 0.0


def test_there_are_scenarios_to_try() -> None:
    assert len(SCENARIOS) >= 15


@given(
    st.sampled_from(PROTOCOLS),
    st.sampled_from(ERRORS),
    st.sampled_from(ERRORS),
    st.sampled_from(
        [
            (UDP, FAST),
            (UDP, MEDIA),
            (UDP, {**MEDIA, "silence": "exp 1 s"}),
            (tcp(), {"kind": "file", "size": "1 MB"}),
            ({"kind": "tcp", "variant": "sack"}, {"kind": "file", "size": "1 kB"}),
            ({"kind": "tcp", "variant": "newreno"}, {"kind": "web"}),
        ]
    ),
    st.sampled_from([{}, {"queue": "3 kB"}, {"agent": {"kind": "snoop", "at": "a"}}]),
)
def test_rules_never_fail(
    protocol: dict[str, Any],
    errors: dict[str, Any],
    back: dict[str, Any],
    flow: tuple[dict[str, Any], dict[str, Any]],
    more: dict[str, Any],
) -> None:
    transport, app = flow
    tables = scenario(
        app, transport=transport, errors=errors, reverse={"errors": back}, protocol=protocol, **more
    )
    tables["flow"]["other"] = {"from": "b", "to": "a", "transport": UDP, "app": MEDIA}
    for alone in (True, False):
        if alone:
            tables = {**tables, "flow": {"f": tables["flow"]["f"]}}
        for one in predictions(tables).values():
            assert one.value >= 0.0, one


def test_the_command_line_prints_all_three_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "radio.json"
    path.write_text(json.dumps(scenario(MEDIA, errors=ERRORS[7], replications=3, duration="50 s")))
    compare = ["run", str(path), "--compare-theory"]
    assert cli._main([*compare, "--out", str(tmp_path / "out")]) == cli.DONE
    printed = capsys.readouterr().out
    assert "flow.f.residual_loss" in printed
    assert "queues refuse nothing" in printed
    table = (tmp_path / "out" / "theory.csv").read_text()
    assert cli._main([*compare, "--format", "csv"]) == cli.DONE
    assert capsys.readouterr().out.rstrip("\n") == table.rstrip("\n")
    rows = list(csv.DictReader(io.StringIO(table)))
    assert {"residual loss", "delay", "frame loss"} <= {row["rule"] for row in rows}
    assert cli._main([*compare, "--format", "json"]) == cli.DONE
    tables = json.loads(capsys.readouterr().out)
    (point,) = tables["points"]
    assert point["metrics"]["flow.f.residual_loss"]["n"] == 3
    assert len(point["theory"]) == len(rows)
    for one, written in zip(point["theory"], rows, strict=True):
        assert one["theory"] == float(written["theory"])
        assert all(set(need) == {"text", "status", "detail"} for need in one["hypotheses"])


@pytest.mark.parametrize(
    ("variant", "needed"),
    [
        ("reno", ["RACK-TLP has fewer timeouts", "reno over RACK-TLP, profile linux"]),
        ("sack", ["RACK-TLP has fewer timeouts", "sack over RACK-TLP, profile linux"]),
        ("cubic", ["CUBIC's window follows another law"] * 2),
    ],
)
def test_under_linux_no_variant_is_reno_as_formulas_have_it(
    variant: str, needed: list[str]
) -> None:
    transport = {"kind": "tcp", "profile": "linux", "variant": variant}
    tables = scenario({"kind": "file", "size": "1 MB"}, transport=transport, errors=UNIFORM)
    told = {
        one.rule: need.detail
        for (_, metric), one in predictions(tables).items()
        for need in one.hypotheses
        if metric == "flow.f.goodput_bps" and need.text == "TCP Reno"
    }
    assert [told["PFTK"], told["window chain"]] == needed


@pytest.mark.slow
def test_a_sweep_names_its_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    assert cli._main(["run", str(path), "--compare-theory"]) == cli.DONE
    printed = capsys.readouterr().out
    assert "point 1: flow.transfer.transport.variant = sack" in printed
    assert "sack has fewer timeouts" in printed


def test_a_scenario_without_theory_is_told_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "web.json"
    web = scenario({"kind": "web"}, transport=tcp(), duration="20 s", replications=2)
    path.write_text(json.dumps(web))
    assert cli._main(["run", str(path), "--compare-theory"]) == cli.DONE
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("No closed form applies to this scenario. There is one for: frame loss")
    assert lasthop.compare_theory(path).is_empty()
    assert cli._main(["run", str(path), "--compare-theory", "--format", "json"]) == cli.DONE
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["theory"] == []


def test_every_rule_is_tried_above() -> None:
    seen = set()
    for protocol, errors, flow in itertools.product(
        PROTOCOLS, ERRORS, ((UDP, FAST), (UDP, MEDIA), (tcp(), {"kind": "file", "size": "1 MB"}))
    ):
        tables = scenario(flow[1], transport=flow[0], errors=errors, protocol=protocol)
        seen |= {rule for rule, _ in predictions(tables)}
    seen |= {rule for rule, _ in predictions(over_radio("unlimited", 0.01).to_dict())}
    upload = {"from": "sta", "to": "ap", "transport": UDP, "app": FAST}
    cell = {"access_point": "ap", "stations": ["sta"]}
    run = {"duration": "10 s"}
    wlan = {"name": "cell", "wlan": {"cell": cell}, "flow": {"f": upload}, "run": run}
    seen |= {rule for rule, _ in predictions(wlan)}
    assert seen == {rule.name for rule in RULES}


def test_what_is_too_rare_to_be_seen_is_not_outside() -> None:
    link: dict[str, Any] = {"errors": UNIFORM, "reverse": CLEAN_BACK}
    protocol = {"kind": "karn-rlp", "retransmissions": 3}
    table = lasthop.compare_theory(scenario(MEDIA, protocol=protocol, duration="5 s", **link))
    one = row(table, "residual loss")
    assert (one["simulated"], one["theory"]) == (0.0, pytest.approx(0.05**4))
    assert one["inside"] is None
    assert one["agrees"] is None


def test_segments_that_go_with_their_packet_are_not_in_the_mean() -> None:
    link: dict[str, Any] = {"errors": {"kind": "uniform", "loss": 0.3}, "reverse": CLEAN_BACK}
    protocol = {"kind": "ideal-sr", "max_transmissions": 3}
    tables = scenario({**FAST, "packet": "1000 B"}, protocol=protocol, duration="100 s", **link)
    one = row(lasthop.compare_theory(tables), "mean transmissions")
    assert one["inside"] is False
    assert one["broken"].startswith("the segments of a packet are sent within a round trip")


@pytest.mark.parametrize("kind", ["ideal-sr", "rlc-am"])
def test_frames_of_segments_are_as_long_as_segments(kind: str) -> None:
    errors, protocol = {"kind": "bit", "ber": 1e-4}, {"kind": kind, "payload": "50 B"}
    tables = scenario(MEDIA, errors=errors, protocol=protocol, header="5 B", duration="100 s")
    table = lasthop.compare_theory(tables)
    one = row(table, "frame loss", "link.radio.forward.frame_loss")
    assert one["theory"] == pytest.approx(1.0 - (1.0 - 1e-4) ** 440)
    assert one["inside"], one
    # The end of a packet is padded by one, and shorter by the other.
    tables["flow"]["f"]["app"] = {**MEDIA, "packet": "120 B"}
    found = predictions(tables)
    assert (("frame loss", "link.radio.forward.frame_loss") in found) == (kind == "rlc-am")


@pytest.mark.parametrize(("rate", "status"), [("100 kbps", "met"), ("200 kbps", "broken")])
def test_parity_that_does_not_wait_for_a_block(rate: str, status: str) -> None:
    # Twice the packet interval is no longer than a frame's air time: a parity for each frame.
    tables = scenario({**FAST, "rate": rate}, protocol={"kind": "xor-fec"}, duration="100 s")
    one = predictions(tables)["saturated link", "flow.f.goodput_bps"]
    full = next(need for need in one.hypotheses if need.text == "blocks are full")
    assert full.status == status
    half = row(lasthop.compare_theory(tables, replications=2), "saturated link")
    assert (half["difference_percent"] > -5.0) == (status == "met")


def test_what_waits_behind_a_protocol_is_not_delivered() -> None:
    tables = scenario(FAST, protocol={"kind": "selective-repeat", "window": 64}, duration="100 s")
    tables["link"]["wire"] = {"between": ["b", "c"], "rate": "32 kbps", "delay": "1 ms"}
    tables["flow"]["f"]["to"] = "c"
    one = row(lasthop.compare_theory(tables, replications=3), "saturated link")
    assert abs(one["difference_percent"]) < 0.5  # 50 packets of 62.5 ms wait after 100 s
    assert one["agrees"]
