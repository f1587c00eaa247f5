"""The study wifi-recovery: its advice quotes its results."""

import pytest

from lasthop.studies import studies
from studied import Means, advice, check_claims, means

STUDY = "wifi-recovery"


@pytest.fixture(scope="module")
def stored() -> Means:
    return means(STUDY)


def test_each_claim_was_written_with_its_refutation() -> None:
    check_claims(studies()[STUDY], "W")


def test_advice_on_retries_quotes_the_results(stored: Means) -> None:
    text = advice(STUDY)
    cubic, bbr, ten = "Loss, CUBIC", "Loss, BBR", "10 attempts"

    def cost(table: str, loss: int, setting: str, of: float) -> int:
        return round(100 * (1.0 - stored[table, loss, setting] / of))

    clean = stored[cubic, 0, ten]
    costs = [cost(cubic, loss, ten, clean) for loss in (5, 10, 20)]
    assert "13 % of its goodput at 5 % loss of MPDUs, 13 % at 10 % and 26 % at 20 %" in text
    assert costs == [13, 13, 26]
    assert "at 10 % they cost CUBIC 40 %" in text
    assert cost(cubic, 10, "4 attempts", stored[cubic, 10, ten]) == 40
    assert "at 30 % more than 80 %" in text
    assert cost(cubic, 30, "4 attempts", stored[cubic, 30, ten]) > 80
    assert "leaves CUBIC a fifth of its goodput" in text
    assert cost(cubic, 0, "1 attempt", clean) == 81
    assert "BBR keeps 96 %" in text
    assert cost(bbr, 0, "1 attempt", stored[bbr, 0, ten]) == 4


def test_advice_on_aggregation_quotes_the_results(
    stored: Means,
) -> None:
    text = advice(STUDY)
    assert "3 % of the goodput of CUBIC and 6 % of that of BBR" in text
    for table, cost in (("Loss, CUBIC", 3), ("Loss, BBR", 6)):
        share = stored[table, 0, "16 MPDUs"] / stored[table, 0, "10 attempts"]
        assert round(100 * (1.0 - share)) == cost
    assert "from 37 to 25 ms" in text
    delay = "Delay, CUBIC"
    assert round(stored[delay, 5, "10 attempts"]) == 37
    assert round(stored[delay, 5, "16 MPDUs"]) == 25
    assert "the delay falls to 11 ms" in text
    assert round(stored[delay, 5, "2 attempts"]) == 11
    assert "38 to 44 % of the goodput remains" in text
    for table in ("Loss, CUBIC", "Loss, BBR", "Loss, QUIC"):
        for loss in (0, 5, 10):
            share = stored[table, loss, "no A-MPDU"] / stored[table, loss, "10 attempts"]
            assert 0.375 < share < 0.445
    assert "21 instead of 53 Mbps" in text
    stations = "Stations, CUBIC"
    assert round(stored[stations, 5, "2 attempts"]) == 21
    assert round(stored[stations, 5, "10 attempts"]) == 53
    assert "twenty lose 17 %" in text
    share = stored[stations, 20, "2 attempts"] / stored[stations, 20, "10 attempts"]
    assert round(100 * (1.0 - share)) == 17


def test_advice_on_rate_control_quotes_the_results(
    stored: Means,
) -> None:
    assert "gives BBR 72 % of the goodput of the ideal choice and CUBIC 41 %" in advice(STUDY)
    for table, percent in (("Fading, BBR", 72), ("Fading, CUBIC", 41)):
        share = stored[table, 1000, "Minstrel-HT"] / stored[table, 1000, "ideal"]
        assert round(100 * share) == percent
    cubic = {setting: stored["Fading, CUBIC", 1000, setting] for setting in ("MCS 3", "MCS 7")}
    assert cubic["MCS 7"] < stored["Fading, CUBIC", 1000, "Minstrel-HT"] < cubic["MCS 3"]
