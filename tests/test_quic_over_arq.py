"""The study quic-over-arq: its advice quotes its results."""

import pytest

import lasthop
from lasthop.studies import Study, studies
from studied import Means, advice, check_claims, means

STUDY = "quic-over-arq"


@pytest.fixture(scope="module")
def study() -> Study:
    return studies()[STUDY]


@pytest.fixture(scope="module")
def stored() -> Means:
    return means(STUDY)


def test_each_claim_was_written_with_its_refutation(study: Study) -> None:
    check_claims(study, "Q")


def test_advice_quotes_the_results(stored: Means) -> None:
    text = advice(STUDY)
    quic, tcp, ordered = "File, radio, QUIC", "File, radio, TCP", "ARQ, in order"
    rates = [
        (quic, 1, ordered, "17.2 Mbps at 1 %"),
        (quic, 10, ordered, "14.4 Mbps at 10 %"),
        (quic, 1, "ARQ, out of order", "to 4.4 Mbps"),
        (tcp, 1, "Snoop", "at 1 % (13.8 Mbps)"),
    ]
    for table, loss, recovery, words in rates:
        assert words in text
        assert f"{stored[table, loss, recovery]:.1f}" in words
    assert "1 % of loss leaves 3 to 4 Mbps" in text
    for table in (tcp, quic):
        assert 3.0 <= stored[table, 1, "none"] < 4.5
    assert "76 % (3 %) to 53 % (10 %)" in text
    shares = [
        stored["Page, radio, HTTP/3", loss, "none"] / stored["Page, radio, HTTP/2", loss, "none"]
        for loss in (3, 10)
    ]
    assert [round(100 * share) for share in shares] == [76, 53]
    assert "a quarter to a half as long" in text
    for loss in (1, 3, 10):
        both = [stored[f"Head of line, HTTP/{one}", loss, "none"] for one in (3, 2)]
        assert 0.24 < both[0] / both[1] < 0.5
    assert "costs 4 to 20 % of the rate" in text
    for table in (tcp, quic):
        for loss in (0, 1, 3, 10):
            cost = 1.0 - stored[table, loss, "HARQ"] / stored[table, loss, ordered]
            assert 0.03 < cost < 0.21
    assert "a third of the time of HTTP/2 and half that of HTTP/3" in text
    for loss in (1, 3, 10):
        one, two, three = (stored[f"Page, radio, HTTP/{v}", loss, "none"] for v in ("1.1", 2, 3))
        assert 0.25 < one / two < 0.45
        assert 0.4 < one / three < 0.6
    assert "without losses, 40 ms" in text
    assert 35.0 < stored["Head of line, HTTP/3", 0, "none"] < 45.0


def test_out_of_order_delivery_suits_tcp(stored: Means) -> None:
    assert "up to 5 % faster on the radio and 1.5 times as fast on the GEO path" in advice(STUDY)
    for path, losses, low, high in (("radio", (1, 3, 10), 1.0, 1.055), ("GEO", (1, 3), 1.4, 1.7)):
        for loss in losses:
            table = f"File, {path}, TCP"
            gain = stored[table, loss, "ARQ, out of order"] / stored[table, loss, "ARQ, in order"]
            assert low < gain < high


def test_over_ordered_arq_bytes_wait_only_after_queue_drops(study: Study) -> None:
    cell = {"path": "radio", "transport": "HTTP/2", "loss": 10, "burst": 1}
    scenario = study.scenario((*cell.items(), ("recovery", "ARQ, in order")))
    frame = lasthop.run(scenario).frame
    drops = frame.filter(name="air.forward")["queue_drops"].to_list()
    waits = frame.filter(name="f")["head_of_line_s"].to_list()
    assert len(waits) == 10
    assert any(drops)
    assert not all(drops)
    assert [wait > 0.0 for wait in waits] == [drop > 0.0 for drop in drops]
