"""Rules of `--compare-theory`: their values against closed forms and simulations."""

import json
from typing import Any

import polars as pl
import pytest

import lasthop
from lasthop import analysis
from theories import (
    CLEAN_BACK,
    ERRORS,
    FAST,
    MEDIA,
    UNIFORM,
    over_radio,
    predictions,
    radio,
    row,
    scenario,
    tcp,
)

# Agreement means that the value is in the 95 % interval shown to users, which one of 20 correct
# values is not. Seeds are fixed, so that the tests below, all of which pass, cannot fail by chance.
# With other seeds, each comparison would fail with probability 5 % (kind `exact`).


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
    # A reset discards all frames in flight; a discard timer discards packets by age.
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
        # A frame of 250 bytes takes 31.25 ms; headers are 0, 1 and 2 bytes long.
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
    # Error control does not affect drops of a full queue: no residual loss is predicted.
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


@pytest.mark.slow
def test_a_saturated_radio_uses_every_slot() -> None:
    app = {**FAST, "rate": "2 Mbps", "packet": "1000 B"}
    table = lasthop.compare_theory(radio(app, "300 s"))
    one = row(table, "saturated link")
    assert one["theory"] == pytest.approx(8000 * 100 * (1 - 0.455))
    assert one["agrees"], one
    # Every slot is used: transmissions follow from the number of deliveries and the loss
    # probability.
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
    # A lost report costs time, and makes Timer_Poll retransmit PDUs that have arrived.
    tables["radio"]["cell"]["downlink_errors"] = tables["radio"]["cell"]["errors"]
    lossy = lasthop.compare_theory(tables)
    assert row(lossy, "saturated link")["inside"]
    assert row(lossy, "mean transmissions")["broken"].startswith("no report is lost")
    # No closed form gives the loss on a channel with memory, because reports require an arriving
    # PDU.
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
    # 5000 packets of three segments each.
    expected = 0.3 if limit == 2 else 0.3 / 0.7
    assert one["theory"] == pytest.approx(15_000 * expected, rel=1e-3)
    assert one["inside"], one
    assert one["hypotheses"] == "met"


def test_mean_transmissions_on_a_radio_with_memory() -> None:
    """N of the chain with large intervals between packets; its rounds are frames."""
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


@pytest.mark.slow
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


def test_tcp_formulas_on_a_lossy_link() -> None:
    """Reno with a loss rate of 0.3 %: the formulas are within their 15 %, and PFTK is the most
    accurate.
    """
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
    # rlc-am pads the last segment of a packet; the other protocol sends a shorter frame.
    tables["flow"]["f"]["app"] = {**MEDIA, "packet": "120 B"}
    found = predictions(tables)
    assert (("frame loss", "link.radio.forward.frame_loss") in found) == (kind == "rlc-am")


@pytest.mark.parametrize(("rate", "status"), [("100 kbps", "met"), ("200 kbps", "broken")])
def test_parity_that_does_not_wait_for_a_block(rate: str, status: str) -> None:
    # Twice the packet interval does not exceed the transmission time of a frame: one parity frame
    # per data frame.
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
